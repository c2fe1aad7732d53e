#include "wire/content.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <cmath>
#include <utility>

namespace warren::wire {

namespace json = boost::json;

namespace {

// The recursion is as deep as `left` at most.
bool is_passable(const json::value& value, std::size_t left) {
  if (value.is_double()) return std::isfinite(value.get_double());
  if (!value.is_structured()) return true;
  if (left == 0) return false;
  if (value.is_array())
    return std::ranges::all_of(value.get_array(),
                               [left](const json::value& inner) { return is_passable(inner, left - 1); });
  return std::ranges::all_of(value.get_object(), [left](const json::key_value_pair& member) {
    return is_passable(member.value(), left - 1);
  });
}

}  // namespace

bool is_passable(const json::value& value) { return is_passable(value, kMaxDepth); }

Result<json::object> parse_object(std::string_view text) {
  json::parse_options options;
  options.max_depth = kMaxDepth;
  boost::system::error_code error;
  json::value value = json::parse(text, error, {}, options);
  if (error || !value.is_object() || !is_passable(value))
    return fail(ErrorKind::kInvalid, "not a JSON object, nested too deep, or with a number out of range");
  return std::move(value.get_object());
}

}  // namespace warren::wire
