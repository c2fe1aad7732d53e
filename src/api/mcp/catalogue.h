// The tools as tools/list shows them: names, descriptions written for models, the
// schemas of what goes in and what comes out.
#pragma once

#include <boost/json/array.hpp>
#include <span>
#include <string_view>

namespace warren::api::mcp {

boost::json::array catalogue();

// For the bridge, whose clients have a sandbox of their own: makes the sandbox that a
// tool works in optional wherever it is required. What is no list of tools is left
// as it is.
void make_sandbox_optional(boost::json::array& tools);

bool is_tool(std::string_view name);
// Whether the tool works in a sandbox that one of its arguments names.
bool needs_sandbox(std::string_view name);
// The names that this argument is known by, the advertised one first.
std::span<const std::string_view> sandbox_names(std::string_view tool);

}  // namespace warren::api::mcp
