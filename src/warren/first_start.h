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

// Whether sandboxes that name no template can be made.
enum class DefaultTemplate { kBuilt, kNotBuilt };

// Of this installation, in the folder that the settings name.
DefaultTemplate look_for_default_template(const Config& config);

// The address, where the key is (and the key itself with kYes), an MCP config to
// paste, and a curl line to try; and that there is no template, and how to build it.
std::string next_steps(const Config& config, const std::string& key, ShowKey show, DefaultTemplate built);

}  // namespace warren::cli
