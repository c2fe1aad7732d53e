// Members of JSON objects that hold bytes or numbers, written and read strictly. Bytes that
// are not UTF-8 go as base64 under the name with "_base64" at its end.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/result.h"

namespace warren::changes {

void put_bytes(boost::json::object& object, std::string_view name, std::string_view bytes);

// The object on one line of JSON; kInvalid for anything else. Nested at most eight deep.
Result<boost::json::object> parse_line(std::string_view line);

// Reads an object's members. After the first that is wrong each call returns nothing, and
// finish() tells it; it also refuses members that nobody asked for.
class Members {
 public:
  explicit Members(const boost::json::object& object) : object_(object) {}

  const boost::json::value* find(std::string_view name);
  std::optional<std::string> bytes(std::string_view name);
  std::optional<std::string> text(std::string_view name);
  std::optional<std::uint64_t> number(std::string_view name, std::uint64_t max);
  std::optional<std::int64_t> integer(std::string_view name);
  std::optional<bool> flag(std::string_view name);

  // The same, where it must be there.
  std::string needed_bytes(std::string_view name);
  std::string needed_text(std::string_view name);
  std::uint64_t needed_number(std::string_view name, std::uint64_t max);

  void refuse(std::string_view name);
  Result<void> finish();

 private:
  const boost::json::object& object_;
  std::set<std::string, std::less<>> asked_;
  std::optional<std::string> wrong_;
};

}  // namespace warren::changes
