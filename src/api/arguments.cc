#include "api/arguments.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/json/parser.hpp>
#include <boost/system/error_code.hpp>
#include <cmath>

namespace warren::api {
namespace {

namespace json = boost::json;

// More wrong members than this are not worth reading.
constexpr std::size_t kMostProblems = 8;
constexpr std::size_t kQuotedBytes = 64;

// Where in `text` the byte at `offset` is, as an editor counts.
std::string position(std::string_view text, std::size_t offset) {
  offset = std::min(offset, text.size());
  const auto before = text.substr(0, offset);
  const auto line = 1 + std::ranges::count(before, '\n');
  const auto line_start = before.rfind('\n');
  const auto column = line_start == std::string_view::npos ? offset + 1 : offset - line_start;
  return fmt::format("line {}, column {}", line, column);
}

std::optional<std::int64_t> whole_number(const json::value& value) {
  if (const auto* number = value.if_int64()) return *number;
  if (const auto* number = value.if_double()) {
    // 2^53: beyond it a double does not say which integer was meant.
    constexpr double kExact = 9007199254740992.0;
    if (std::trunc(*number) == *number && std::abs(*number) <= kExact) {
      return static_cast<std::int64_t>(*number);
    }
  }
  return std::nullopt;
}

std::string expected_integer(const IntegerRange& range) {
  const bool has_min = range.min != IntegerRange{}.min;
  const bool has_max = range.max != IntegerRange{}.max;
  if (has_min && has_max) return fmt::format("an integer between {} and {}", range.min, range.max);
  if (has_min) return fmt::format("an integer of at least {}", range.min);
  if (has_max) return fmt::format("an integer of at most {}", range.max);
  return "an integer";
}

std::string copy(const json::string& text) { return {text.data(), text.size()}; }

}  // namespace

Result<json::value> parse_value(std::string_view text, std::string_view what) {
  json::parse_options options;
  options.max_depth = 64;
  json::parser parser({}, options);
  boost::system::error_code error;
  const std::size_t used = parser.write_some(text, error);
  if (!error && used < text.size()) {
    return fail(ErrorKind::kInvalid,
                fmt::format("{} has more after the end of its JSON, at {}", what, position(text, used)));
  }
  if (error) {
    const bool blank = text.find_first_not_of(" \t\r\n") == std::string_view::npos;
    if (blank) return fail(ErrorKind::kInvalid, fmt::format("{} is empty; JSON was expected", what));
    if (error == json::error::incomplete) {
      return fail(ErrorKind::kInvalid, fmt::format("{} is broken JSON: it ends too early, at {}", what,
                                                   position(text, text.size())));
    }
    return fail(ErrorKind::kInvalid,
                fmt::format("{} is broken JSON at {}: {}", what, position(text, used), error.message()));
  }
  return parser.release();
}

Result<json::object> parse_object(std::string_view text, std::string_view what) {
  auto value = parse_value(text, what);
  if (!value) return std::unexpected(std::move(value).error());
  if (!value->is_object()) {
    return fail(ErrorKind::kInvalid, fmt::format("{} must be a JSON object, not {}", what, describe(*value)));
  }
  return std::move(value->as_object());
}

std::string describe(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null:
      return "null";
    case json::kind::bool_:
      return value.get_bool() ? "true" : "false";
    case json::kind::int64:
      return fmt::format("the number {}", value.get_int64());
    case json::kind::uint64:
      return fmt::format("the number {}", value.get_uint64());
    case json::kind::double_:
      return fmt::format("the number {}", value.get_double());
    case json::kind::string:
      return "a string";
    case json::kind::array:
      return "a list";
    case json::kind::object:
      return "an object";
  }
  return "something else";
}

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  bool cut = false;
  if (text.size() > kQuotedBytes) {
    std::size_t end = kQuotedBytes;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
    text = text.substr(0, end);
    cut = true;
  }
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) {
      out += fmt::format("\\x{:02x}", byte);
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else {
      out += c;
    }
  }
  out += cut ? "…\"" : "\"";
  return out;
}

Arguments::Member Arguments::find(std::string_view name, Aliases aliases) {
  known_.emplace_back(name);
  accepted_.emplace(name);
  Member found{name, nullptr};
  const auto look = [&](std::string_view candidate) {
    const auto* value = object_.if_contains(candidate);
    if (value == nullptr || value->is_null()) return;
    if (found.value != nullptr) {
      refuse(fmt::format("{} and {} mean the same; give only one of them", found.name, candidate));
      return;
    }
    found = {candidate, value};
  };
  look(name);
  for (const auto alias : aliases) {
    accepted_.emplace(alias);
    look(alias);
  }
  return found;
}

std::optional<std::string> Arguments::string(std::string_view name, Aliases aliases) {
  const auto member = find(name, aliases);
  if (member.value == nullptr) return std::nullopt;
  if (const auto* text = member.value->if_string()) return copy(*text);
  refuse(member.name, "a string", *member.value);
  return std::nullopt;
}

std::optional<std::int64_t> Arguments::integer(std::string_view name, IntegerRange range, Aliases aliases) {
  const auto member = find(name, aliases);
  if (member.value == nullptr) return std::nullopt;
  const auto number = whole_number(*member.value);
  if (number && *number >= range.min && *number <= range.max) return number;
  refuse(member.name, expected_integer(range), *member.value);
  return std::nullopt;
}

std::optional<bool> Arguments::boolean(std::string_view name, Aliases aliases) {
  const auto member = find(name, aliases);
  if (member.value == nullptr) return std::nullopt;
  if (const auto* flag = member.value->if_bool()) return *flag;
  refuse(member.name, "true or false", *member.value);
  return std::nullopt;
}

std::optional<std::string> Arguments::choice(std::string_view name,
                                             std::initializer_list<std::string_view> choices,
                                             Aliases aliases) {
  const auto member = find(name, aliases);
  if (member.value == nullptr) return std::nullopt;
  const auto* text = member.value->if_string();
  if (text != nullptr && std::ranges::find(choices, std::string_view(*text)) != choices.end()) {
    return copy(*text);
  }
  std::vector<std::string> shown;
  for (const auto option : choices) shown.push_back(in_quotes(option));
  const auto given = text != nullptr ? in_quotes(*text) : describe(*member.value);
  refuse(fmt::format("{} must be one of {}, not {}", member.name, fmt::join(shown, ", "), given));
  return std::nullopt;
}

std::optional<std::map<std::string, std::string>> Arguments::string_map(std::string_view name,
                                                                        Aliases aliases) {
  const auto member = find(name, aliases);
  if (member.value == nullptr) return std::nullopt;
  const auto* object = member.value->if_object();
  if (object == nullptr) {
    refuse(member.name, "an object whose values are strings", *member.value);
    return std::nullopt;
  }
  std::map<std::string, std::string> out;
  for (const auto& [key, value] : *object) {
    const auto* text = value.if_string();
    if (text == nullptr) {
      refuse(fmt::format("{}[{}] must be a string, not {}", member.name, in_quotes(key), describe(value)));
      return std::nullopt;
    }
    out.emplace(key, copy(*text));
  }
  return out;
}

std::optional<std::vector<std::string>> Arguments::string_list(std::string_view name, Aliases aliases) {
  const auto member = find(name, aliases);
  if (member.value == nullptr) return std::nullopt;
  const auto* array = member.value->if_array();
  if (array == nullptr) {
    refuse(member.name, "a list of strings", *member.value);
    return std::nullopt;
  }
  std::vector<std::string> out;
  for (const auto& value : *array) {
    const auto* text = value.if_string();
    if (text == nullptr) {
      refuse(fmt::format("{}[{}] must be a string, not {}", member.name, out.size(), describe(value)));
      return std::nullopt;
    }
    out.push_back(copy(*text));
  }
  return out;
}

const json::value* Arguments::value(std::string_view name, Aliases aliases) {
  return find(name, aliases).value;
}

std::string Arguments::require_string(std::string_view name, Aliases aliases) {
  const auto before = problems_.size();
  auto text = string(name, aliases);
  if (text) return std::move(*text);
  if (problems_.size() == before) refuse(fmt::format("{} is missing; it must be a string", name));
  return {};
}

void Arguments::ignore(std::string_view name) { accepted_.emplace(name); }

void Arguments::refuse(std::string_view name, std::string_view expected, const json::value& given) {
  refuse(fmt::format("{} must be {}, not {}", name, expected, describe(given)));
}

void Arguments::refuse(std::string sentence) { problems_.push_back(std::move(sentence)); }

Result<void> Arguments::finish() {
  std::vector<std::string> unknown;
  for (const auto& [key, value] : object_) {
    if (!accepted_.contains(std::string_view(key))) unknown.push_back(in_quotes(key));
  }
  if (!unknown.empty()) {
    const bool one = unknown.size() == 1;
    if (unknown.size() > kMostProblems) {
      unknown.resize(kMostProblems);
      unknown.emplace_back("…");
    }
    refuse(fmt::format("{} {} not known here; known {}", fmt::join(unknown, ", "), one ? "is" : "are",
                       known_.empty() ? "is nothing" : fmt::format("are {}", fmt::join(known_, ", "))));
  }
  if (problems_.empty()) return {};
  if (problems_.size() > kMostProblems) problems_.resize(kMostProblems);
  return fail(ErrorKind::kInvalid, fmt::format("{}", fmt::join(problems_, "; ")));
}

}  // namespace warren::api
