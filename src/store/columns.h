// Values of columns to and from our types. A column of another type than asked
// for reads as empty or zero: the schema's STRICT tables keep that from happening.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "store/database.h"

namespace warren::store {

inline std::string text_of(const Value& value) {
  const auto* text = std::get_if<std::string>(&value);
  return text == nullptr ? std::string() : *text;
}

inline std::int64_t number_of(const Value& value) {
  const auto* number = std::get_if<std::int64_t>(&value);
  return number == nullptr ? 0 : *number;
}

inline bool is_null(const Value& value) { return std::holds_alternative<std::nullptr_t>(value); }

inline std::int64_t to_millis(WallTime time) { return time.time_since_epoch().count(); }

inline WallTime time_of(const Value& value) { return WallTime(Millis(number_of(value))); }

inline std::optional<WallTime> optional_time_of(const Value& value) {
  if (is_null(value)) return std::nullopt;
  return time_of(value);
}

}  // namespace warren::store
