// JSON whose content a program in the sandbox has chosen. What not every reader could
// take is found here, so that it costs its own message and nothing else: a number that is
// none (1e400 becomes infinity), objects and arrays nested without end.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstddef>
#include <string_view>

#include "base/result.h"

namespace warren::wire {

// How deep a message's objects and arrays may be nested, itself counted.
inline constexpr std::size_t kMaxDepth = 128;

// Whether every number in it is finite and it is nested at most kMaxDepth deep.
bool is_passable(const boost::json::value& value);

// The object that `text` is. kInvalid if it is none, or not is_passable().
Result<boost::json::object> parse_object(std::string_view text);

}  // namespace warren::wire
