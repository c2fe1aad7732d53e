// A small HTTP/1.1 client over TCP, for the command line and `warren mcp`.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/task.h"
#include "http/message.h"

namespace warren::http {

// An answer whose body streams in. Dropped before its end, it ends the connection:
// that is how a call is withdrawn.
class ClientResponse {
 public:
  virtual ~ClientResponse() = default;
  virtual int status() const = 0;
  virtual const Headers& headers() const = 0;
  // The next bytes, empty at the end; kUnavailable if the stream broke off, or the
  // error of the request's body_source if that is why.
  virtual Task<Result<std::string>> read() = 0;
  // All of it, at most `limit` bytes, else kTooLarge.
  Task<Result<std::string>> read_all(std::size_t limit);
};

struct ClientRequest {
  std::string method = "GET";
  std::string target = "/";
  Headers headers;
  std::string body;
  // If set, the body is what this returns until it returns nothing, sent chunked,
  // while the answer is already being read. It may outlive send(): it owns what it uses.
  std::function<Task<Result<std::string>>()> body_source;
};

class Client {
 public:
  // `base` is http://HOST:PORT; kInvalid if it is not. Connections are made as
  // needed and kept.
  static Result<std::shared_ptr<Client>> make(Executor executor, std::string base);
  virtual ~Client() = default;
  // Returns when the answer's head is there, whatever its status; waits for it
  // without limit. kUnavailable if nobody answers there or the connection breaks;
  // the message begins with `base`. A request that the server may have begun to
  // act on is never sent twice, unless its method is idempotent.
  virtual Task<Result<std::shared_ptr<ClientResponse>>> send(ClientRequest request) = 0;
};

}  // namespace warren::http
