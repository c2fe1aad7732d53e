// The tools as tools/list shows them: names, descriptions written for models, the
// schemas of what goes in and what comes out.
#pragma once

#include <boost/json/array.hpp>
#include <string_view>

namespace warren::api::mcp {

boost::json::array catalogue();

// For the bridge, whose clients have a sandbox of their own: makes `sandbox_id`
// optional in each of the tools that requires it. What is no list of tools is left
// as it is.
void make_sandbox_optional(boost::json::array& tools);

bool is_tool(std::string_view name);
// Whether the tool works in a sandbox that its sandbox_id names.
bool needs_sandbox(std::string_view name);

}  // namespace warren::api::mcp
