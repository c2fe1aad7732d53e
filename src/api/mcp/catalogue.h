// The tools as tools/list shows them: names, descriptions written for models, the
// schemas of what goes in and what comes out.
#pragma once

#include <boost/json/array.hpp>
#include <string_view>

#include "api/mcp/opening.h"

namespace warren::api::mcp {

// Where a sandbox may be left out the bridge shows `sandbox_id` as optional.
boost::json::array catalogue(Speaker speaker);

bool is_tool(std::string_view name);
// Whether the tool works in a sandbox that its sandbox_id names.
bool needs_sandbox(std::string_view name);

}  // namespace warren::api::mcp
