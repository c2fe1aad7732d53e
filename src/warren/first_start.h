// The operator's account and key, made when there are none, and what a person is
// told once the server answers.
#pragma once

#include <string>

#include "base/result.h"
#include "warren/config.h"
#include "warren/home.h"

namespace warren::cli {

// Makes the operator's account and a key in HOME/admin.key unless both are there.
// Needs root.
Result<void> ensure_operator_key(const Config& config, const User& user);

enum class ShowKey { kYes, kNo };

// The address, where the key is (and the key itself with kYes), an MCP config to
// paste, and a curl line to try.
std::string next_steps(const Config& config, const std::string& key, ShowKey show);

}  // namespace warren::cli
