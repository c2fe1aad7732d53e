// The HTTP/1.1 server: connections, limits, routing. Each connection is served by
// its own task; a client that is slow, silent or wrong costs bounded memory and
// time and stalls nobody else.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>

#include "base/task.h"
#include "base/unique_fd.h"
#include "http/router.h"

namespace warren::http {

class Certificate;

struct ServerLimits {
  std::size_t target_bytes = 8UL * 1024;             // beyond: 414
  std::size_t header_bytes = 32UL * 1024;            // request line and fields together; beyond: 431
  std::size_t connections = 4096;                    // beyond: 503 and closed
  std::size_t connections_per_peer = 4096;           // of one client address; beyond: 503 and closed
  std::chrono::milliseconds header_timeout{30'000};  // from the first byte to the last header; then 408
  std::chrono::milliseconds idle_timeout{120'000};   // between requests of one connection
  std::chrono::milliseconds body_timeout{60'000};    // without one byte of a body that is being read
  std::chrono::milliseconds write_timeout{120'000};  // without the client taking one byte
};

// Who is told of what the server does, if anybody is.
struct ServerWatch {
  // A request has been answered, or refused; the handler is done with it.
  std::function<void(const Request& request, int status)> answered;
  // So many connections there are now.
  std::function<void(std::size_t connections)> connections;
};

// The certificate for the next connection; null: plain HTTP.
using CertificateSource = std::function<std::shared_ptr<const Certificate>()>;

class Server {
 public:
  // Serves on `listener`, a listening TCP socket, until stop().
  static std::shared_ptr<Server> start(Executor executor, UniqueFd listener, std::shared_ptr<Router> router,
                                       ServerLimits limits, ServerWatch watch = {},
                                       CertificateSource certificate = {});
  virtual ~Server() = default;
  // Takes no new connections, lets running handlers finish for at most `grace`;
  // then their clients are cut off and their on_disconnect callbacks called.
  virtual Task<void> stop(std::chrono::milliseconds grace) = 0;
};

}  // namespace warren::http
