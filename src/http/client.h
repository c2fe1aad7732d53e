// A small HTTP/1.1 client over TCP, for the command line and `warren mcp`.
#pragma once

#include <memory>
#include <string>

#include "base/task.h"
#include "http/message.h"

namespace warren::http {

// An answer whose body streams in.
class ClientResponse {
 public:
  virtual ~ClientResponse() = default;
  virtual int status() const = 0;
  virtual const Headers& headers() const = 0;
  // The next bytes, empty at the end; kUnavailable if the stream broke off.
  virtual Task<Result<std::string>> read() = 0;
  Task<Result<std::string>> read_all(std::size_t limit);
};

struct ClientRequest {
  std::string method = "GET";
  std::string target = "/";
  Headers headers;
  std::string body;
  // If set, the body is what this returns until it returns nothing, sent chunked.
  std::function<Task<Result<std::string>>()> body_source;
};

class Client {
 public:
  // `base` is http://HOST:PORT. Connections are made as needed and kept.
  static Result<std::shared_ptr<Client>> make(Executor executor, std::string base);
  virtual ~Client() = default;
  // kUnavailable if nobody answers there; says which address was tried.
  virtual Task<Result<std::shared_ptr<ClientResponse>>> send(ClientRequest request) = 0;
};

}  // namespace warren::http
