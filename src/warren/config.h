// Where Warren lives and how it behaves: $WARREN_HOME, $WARREN_LISTEN and the file
// $WARREN_HOME/warren.toml, whose every setting docs/operations.md describes. An
// unknown or wrong setting is refused with its line, never ignored.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "runtime/egress/rules.h"
#include "service/sandboxes.h"

namespace warren::cli {

inline constexpr std::string_view kDefaultHome = "/var/lib/warren";

// An IP address and port to listen on. Port 0: any that is free.
struct Address {
  std::string host = "127.0.0.1";
  std::uint16_t port = 7070;

  // "127.0.0.1:7070", "[::1]:7070".
  std::string text() const;
};

// kInvalid unless `text` is IPV4:PORT or [IPV6]:PORT.
Result<Address> parse_address(std::string_view text);

// The files of the server's certificate and key; both empty: no TLS.
struct TlsFiles {
  std::string certificate;
  std::string key;

  bool wanted() const { return !certificate.empty(); }
};

struct Config {
  std::string home;
  Address listen;
  std::string log_level = "info";
  std::string user = "warren";  // whom the server process becomes
  // Web pages of these origins may use the MCP endpoint from a browser, besides local ones.
  std::vector<std::string> allowed_origins;
  TlsFiles tls;
  std::string public_url;          // how clients reach this server; empty: as they say
  std::string ports_domain;        // ports get names below it; empty: paths
  Seconds port_answer_limit{120};  // how long a server in a sandbox may be silent before its answer
  std::string templates_dir;       // HOME/templates unless set
  std::uint64_t pool_bytes = 0;    // how large the pool may grow; 0: the pool's own default
  bool egress = true;              // whether sandboxes can be given a network
  runtime::EgressRules egress_rules;
  // Of a host that passes no packets on.
  runtime::HostForwarding forwarding = runtime::HostForwarding::kForSandboxes;
  std::size_t stock = 4;      // sandboxes of a kind that are kept ready
  Seconds stop_grace{10};     // how long running calls may go on after SIGTERM
  Seconds exec_timeout{300};  // of a REST exec that names none
  service::Sandboxes::Options sandboxes;

  std::string key_file() const { return home + "/admin.key"; }
  std::string database_dir() const { return home + "/db"; }
  std::string database_file() const { return home + "/db/warren.sqlite"; }
  std::string run_dir() const { return home + "/run"; }
  std::string runtime_socket() const { return home + "/run/runtime.sock"; }
};

// $WARREN_HOME, or /var/lib/warren. kInvalid for a path that is not absolute.
Result<std::string> home_from_environment();

// The settings in force: the defaults, HOME/warren.toml if it is there, then the
// environment.
Result<Config> load_config();

// `text` as warren.toml, laid over `config`; `name` begins the error messages.
Result<void> apply_toml(Config& config, std::string_view text, std::string_view name);

}  // namespace warren::cli
