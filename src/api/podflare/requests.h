// The bodies that the face takes, read into what the service takes.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "api/podflare/face.h"
#include "base/result.h"
#include "service/sandboxes.h"

namespace warren::api::podflare {

// No JSON body is longer than this; a longer one is refused before it is read whole.
inline constexpr std::size_t kMaxBody = 8UL * 1024 * 1024;

// POST /v1/sandboxes. An empty body is {}.
Result<service::CreateSpec> read_create(std::string_view body, const Settings& settings);

// PUT /v1/sandboxes/:id/egress.
Result<runtime::EgressPolicy> read_egress_change(std::string_view body);

// POST /v1/sandboxes/:id/fork. An empty body is {}.
Result<service::ForkSpec> read_fork(std::string_view body);

// POST /v1/sandboxes/:parent/merge_into/:winner. An empty body is {}; the winner is
// left to the caller.
Result<service::MergeSpec> read_merge(std::string_view body);

using ExecRequest = std::variant<service::PythonCall, service::BashCall>;

// POST /v1/sandboxes/:id/exec.
Result<ExecRequest> read_exec(std::string_view body, const Settings& settings);

// POST /v1/sandboxes/:id/terminals. An empty body is {}.
Result<service::TerminalCall> read_terminal(std::string_view body);

struct TerminalSize {
  int rows = 0;
  int columns = 0;
};

// POST /v1/sandboxes/:id/terminals/:terminal/resize.
Result<TerminalSize> read_terminal_size(std::string_view body);

struct ExposeRequest {
  std::int64_t port = 0;
  service::Visibility visibility = service::Visibility::kPublic;
};

// POST /v1/sandboxes/:id/ports.
Result<ExposeRequest> read_expose(std::string_view body);

// ?paths=… (as often as there are paths) and ?text.
Result<service::DiffSpec> read_diff(const std::vector<std::pair<std::string, std::string>>& query);

}  // namespace warren::api::podflare
