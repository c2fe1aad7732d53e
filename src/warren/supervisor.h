// `warren serve`: the small root process that starts the other two, runtime and
// server, by executing itself again, restarts either when it dies, and stops both in
// the right order. It holds the listening sockets, so that nobody is refused while one
// of them is being replaced, and parses nothing that came from outside.
#pragma once

#include <functional>
#include <optional>

#include "base/result.h"
#include "base/unique_fd.h"
#include "warren/config.h"
#include "warren/home.h"
#include "warren/tls_files.h"

namespace warren::cli {

// The descriptors that the children find open.
inline constexpr int kListenerFd = 3;  // what they serve on
inline constexpr int kReadyFd = 4;     // the server writes one byte here once it answers
// Of a server that speaks TLS: its certificate (tls_files.h), and where it serves this host in plain.
inline constexpr int kTlsFd = 5;
inline constexpr int kLocalListenerFd = 6;

// The names of the hidden subcommands that the children are executed with.
inline constexpr const char* kRuntimeCommand = "internal-runtime";
inline constexpr const char* kServerCommand = "internal-server";

struct Listeners {
  UniqueFd http;
  UniqueFd runtime;
  UniqueFd local_http;          // of a server that speaks TLS
  std::optional<TlsBoard> tls;  // likewise
};

// Listens on `address`, whose port is set to the one in use where it was 0. Tries for
// a few seconds, since a server that is just ending may still have it.
Result<UniqueFd> listen_http(Address& address);

// Runs until SIGTERM, SIGINT or SIGHUP, then stops the server, after it the runtime.
// `on_ready` is called when the server answers for the first time.
Result<void> supervise(const Config& config, Listeners& listeners, const std::function<void()>& on_ready);

}  // namespace warren::cli
