// A client's JSON, read strictly: every member is asked for by name and type, what
// was not asked for is refused, and each refusal names the member, says what was
// expected and what was given, so that a person or a model can mend it.
//
//   auto object = parse_object(body);
//   Arguments arguments(*object);
//   call.command = arguments.require_string("command", {"code", "cmd"});
//   call.timeout_seconds = arguments.integer("timeout_seconds", {.min = 1, .max = 3600});
//   WARREN_TRY(arguments.finish());
//
// The getters never fail on the spot: what is wrong is kept, and finish() tells all
// of it at once. A member that is null counts as absent.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace warren::api {

// The JSON object that `text` is. kInvalid with line and column where the syntax
// is broken, and where it is JSON but no object. `what` begins the sentence
// ("the request body").
Result<boost::json::object> parse_object(std::string_view text, std::string_view what);

// As parse_object, for any JSON value.
Result<boost::json::value> parse_value(std::string_view text, std::string_view what);

// "a string", "the number 7", "true", "null", "an object", "a list": a value as an
// error message names it. Says nothing of what is in a string.
std::string describe(const boost::json::value& value);

// `text` as it may stand in an error message: in quotes, control characters
// escaped, cut to 64 bytes between two characters.
std::string in_quotes(std::string_view text);

struct IntegerRange {
  std::int64_t min = std::numeric_limits<std::int64_t>::min();
  std::int64_t max = std::numeric_limits<std::int64_t>::max();
};

class Arguments {
 public:
  using Aliases = std::initializer_list<std::string_view>;

  // Reads from `object`, which must outlive this.
  explicit Arguments(const boost::json::object& object) : object_(object) {}

  // Each looks for `name` and, where that is absent, for its aliases; two of them
  // at once are refused. Absent: nothing. Wrong: nothing, and finish() fails.
  std::optional<std::string> string(std::string_view name, Aliases aliases = {});
  // Integers, and numbers like 5.0 that are whole.
  std::optional<std::int64_t> integer(std::string_view name, IntegerRange range = {}, Aliases aliases = {});
  std::optional<bool> boolean(std::string_view name, Aliases aliases = {});
  // One of `choices`, exactly.
  std::optional<std::string> choice(std::string_view name, std::initializer_list<std::string_view> choices,
                                    Aliases aliases = {});
  // An object whose values are all strings.
  std::optional<std::map<std::string, std::string>> string_map(std::string_view name, Aliases aliases = {});
  std::optional<std::vector<std::string>> string_list(std::string_view name, Aliases aliases = {});
  // As it is, for members of more than one type; null where absent.
  const boost::json::value* value(std::string_view name, Aliases aliases = {});

  // As above, but absent is wrong as well; then what is returned is empty.
  std::string require_string(std::string_view name, Aliases aliases = {});

  // Accepts a member without looking at it.
  void ignore(std::string_view name);

  // Notes that `name` is wrong: "NAME must be EXPECTED, not GIVEN".
  void refuse(std::string_view name, std::string_view expected, const boost::json::value& given);
  // Notes a sentence of its own.
  void refuse(std::string sentence);

  // kInvalid with all that was wrong, unknown members included.
  Result<void> finish();

 private:
  // The member by whichever of its names, marked as known.
  struct Member {
    std::string_view name;
    const boost::json::value* value = nullptr;
  };
  Member find(std::string_view name, Aliases aliases);

  const boost::json::object& object_;
  std::vector<std::string> known_;               // by first name, in the order asked for: what an error lists
  std::set<std::string, std::less<>> accepted_;  // with the aliases
  std::vector<std::string> problems_;
};

}  // namespace warren::api
