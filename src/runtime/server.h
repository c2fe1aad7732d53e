// The runtime process: keeps root, owns the driver, and does for the server what it
// asks for over one small typed socket. Parses nothing that came from the network.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "runtime/client.h"
#include "runtime/egress/rules.h"

namespace warren::runtime {

struct RuntimeOptions {
  std::filesystem::path home;         // $WARREN_HOME
  UniqueFd listener;                  // listening SOCK_SEQPACKET
  uid_t server_uid = 0;               // whoever connects must be this user
  std::filesystem::path agent;        // the agent's binary
  std::filesystem::path guest_layer;  // Warren's own files for every sandbox; empty: none
  std::function<std::vector<std::string>(std::string_view name)> template_imports;
  std::size_t stock = 4;         // sandboxes of a kind that are kept ready
  std::uint64_t pool_bytes = 0;  // how large the pool may grow; 0: the default
  // No sandbox is made while the disk has less free than that; 0: the default.
  std::uint64_t floor_bytes = 0;
  // How sandboxes reach a network; nothing: they reach none.
  std::optional<EgressRules> egress = std::nullopt;
  std::vector<std::string> resolver;  // the program that resolves names for them
  std::uint32_t id_base = 0;  // first host id of all sandboxes; 0: the default
  // The root file system of a template; kNotFound where there is none.
  std::function<Result<std::filesystem::path>(std::string_view name)> template_root;
  std::function<std::vector<TemplateInfo>()> templates;
};

// Serves until SIGTERM or SIGINT, then ends every sandbox and returns. The process
// must be root and have one thread; it gets a mount namespace of its own.
Result<void> run_runtime(RuntimeOptions options);

}  // namespace warren::runtime
