// The HTTP/1.1 server: connections, limits, routing. Each connection is served by
// its own task; a client that is slow, silent or wrong costs bounded memory and
// time and stalls nobody else.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/task.h"
#include "base/unique_fd.h"
#include "http/message.h"

namespace warren::http {

// Finds a handler by method and path. Patterns are literal segments and {names};
// "{name...}" as the last segment takes the rest. The most literal pattern wins.
class Router {
 public:
  void add(std::string method, std::string pattern, Handler handler);
  // What answers when no pattern matches the path, and when one does but not for
  // this method (`allow` has those it knows); set per path prefix so that each
  // face keeps its own shape of error. The longest prefix wins.
  using Fallback = std::function<Response(const Request&, int status, const std::string& allow)>;
  void set_fallback(std::string prefix, Fallback fallback);

  // Sets request.params. Never null: what it returns may be a fallback.
  Handler find(Request& request) const;
  // The answer for a request that never reached a handler (too long a header,
  // broken syntax, a handler that threw): shaped by the fallback for its path.
  Response error(const Request& request, int status, std::string message) const;

 private:
  struct Route {
    std::string method;
    std::vector<std::string> segments;
    Handler handler;
  };
  std::vector<Route> routes_;
  std::vector<std::pair<std::string, Fallback>> fallbacks_;
};

struct ServerLimits {
  std::size_t header_bytes = 32 * 1024;
  std::size_t connections = 4096;
  std::size_t connections_per_peer = 4096;
  std::chrono::seconds header_timeout{30};  // from the first byte to the last header
  std::chrono::seconds idle_timeout{120};   // between requests of one connection
  std::chrono::seconds body_timeout{60};    // without one byte of a body that is being read
  std::chrono::seconds write_timeout{120};  // without the client taking one byte
};

class Server {
 public:
  // Serves on `listener`, a listening TCP socket, until stop().
  static std::shared_ptr<Server> start(Executor executor, UniqueFd listener, std::shared_ptr<Router> router,
                                       ServerLimits limits);
  virtual ~Server() = default;
  // Takes no new connections, lets running handlers finish for at most `grace`.
  virtual Task<void> stop(std::chrono::milliseconds grace) = 0;
};

}  // namespace warren::http
