// Servers inside sandboxes that can be reached from outside: a port gets a URL with a token that
// nobody can guess, and if it is private a second token. Both are told once and kept as digests.
// They belong to the sandbox's id: they outlive this process, lead to the winner's machine after a
// merge that replaces, and end with the id. Children of forks have none until asked for.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/task.h"
#include "service/caller.h"

namespace warren::service {

enum class Visibility { kPublic, kPrivate };

struct PortInfo {
  std::uint16_t port = 0;
  Visibility visibility = Visibility::kPublic;
  WallTime created_at;
};

struct ExposedPort {
  PortInfo info;
  std::string url_token;     // 32 hex digits
  std::string access_token;  // of a private one: "wpt_" and 32 hex digits
};

// Where a URL leads.
struct PortRoute {
  std::string sandbox_id;
  std::uint16_t port = 0;
  std::optional<std::string> access_digest;  // of a private one

  // Whether `token` opens it.
  bool admits(std::string_view token) const;
};

// A connection to a program in a sandbox. What passes through it counts as use of the sandbox; a silent
// one does not keep it from its idle end.
class PortConnection {
 public:
  virtual ~PortConnection() = default;
  // The next bytes, empty when the program has ended its half; kTimeout if none come by the deadline,
  // kCancelled after close() or if the program resets the connection, kUnavailable if the sandbox ends.
  virtual Task<Result<std::string>> read(Clock::time_point deadline) = 0;
  // Waits while the program does not take it.
  virtual Task<Result<void>> write(std::string bytes) = 0;
  virtual Task<void> end_writing() = 0;
  virtual void close() = 0;
};

class Ports {
 public:
  struct Options {
    std::size_t connections_per_sandbox = 256;
    std::size_t connections = 2048;  // of all sandboxes together
    std::size_t ports_per_sandbox = 64;
  };

  virtual ~Ports() = default;

  // Gives the port a URL, whether or not anything listens there yet. One that has a URL gets a new one:
  // the old one, and what runs through it, ends.
  virtual Result<ExposedPort> expose(const Caller& caller, std::string_view id, std::int64_t port,
                                     Visibility visibility) = 0;
  // By their numbers.
  virtual Result<std::vector<PortInfo>> list(const Caller& caller, std::string_view id) const = 0;
  // Its URL, and what runs through it, ends. kNotFound if it has none.
  virtual Result<void> close(const Caller& caller, std::string_view id, std::int64_t port) = 0;

  // kNotFound for a token that leads nowhere, or not any more.
  virtual Result<PortRoute> route(std::string_view url_token) const = 0;
  // kNotFound: nothing listens there; kTimeout: nobody accepts; kLimited: too many connections;
  // kConflict: the sandbox is dead.
  virtual Task<Result<std::shared_ptr<PortConnection>>> connect(PortRoute route) = 0;
};

class Lifecycle;
std::shared_ptr<Ports> make_ports(std::shared_ptr<Lifecycle> lifecycle, Ports::Options options);

}  // namespace warren::service
