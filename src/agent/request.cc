#include "agent/request.h"

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>

#include "base/base64.h"

namespace warren::agent {

namespace json = boost::json;

namespace {

bool has_nul(std::string_view text) { return text.find('\0') != std::string_view::npos; }

std::string quoted(std::string_view name) {
  std::string text(1, '"');
  text.append(name);
  text.push_back('"');
  return text;
}

}  // namespace

const json::value* Request::find(std::string_view name) {
  seen_.insert(std::string(name));
  if (error_) return nullptr;
  return members_.if_contains(name);
}

void Request::refuse(std::string message) {
  if (!error_) error_ = std::move(message);
}

std::optional<std::string> Request::text(std::string_view name) {
  const json::value* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) {
    refuse(quoted(name) + " must be a string");
    return std::nullopt;
  }
  return std::string(value->get_string());
}

std::optional<std::uint64_t> Request::number(std::string_view name, std::uint64_t max) {
  const json::value* value = find(name);
  if (value == nullptr) return std::nullopt;
  boost::system::error_code error;
  const auto number = value->to_number<std::uint64_t>(error);
  if (error || number > max) {
    refuse(quoted(name) + " must be a whole number from 0 to " + std::to_string(max));
    return std::nullopt;
  }
  return number;
}

std::optional<bool> Request::flag(std::string_view name) {
  const json::value* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_bool()) {
    refuse(quoted(name) + " must be true or false");
    return std::nullopt;
  }
  return value->get_bool();
}

std::vector<std::string> Request::texts(std::string_view name) {
  std::vector<std::string> texts;
  const json::value* value = find(name);
  if (value == nullptr) return texts;
  if (!value->is_array()) {
    refuse(quoted(name) + " must be an array of strings");
    return texts;
  }
  for (const json::value& element : value->get_array()) {
    if (!element.is_string() || has_nul(std::string_view(element.get_string()))) {
      refuse(quoted(name) + " must be an array of strings without NUL");
      return {};
    }
    texts.emplace_back(element.get_string());
  }
  return texts;
}

Environment Request::environment(std::string_view name) {
  Environment environment;
  const json::value* value = find(name);
  if (value == nullptr) return environment;
  if (!value->is_object()) {
    refuse(quoted(name) + " must be an object of strings");
    return environment;
  }
  for (const json::key_value_pair& entry : value->get_object()) {
    const std::string key(entry.key());
    if (key.empty() || has_nul(key) || key.find('=') != std::string::npos) {
      refuse(quoted(name) + ": a variable's name must not be empty nor contain \"=\" or NUL");
      return {};
    }
    if (!entry.value().is_string() || has_nul(std::string_view(entry.value().get_string()))) {
      refuse(quoted(name) + ": the value of a variable must be a string without NUL");
      return {};
    }
    environment.emplace_back(key, std::string(entry.value().get_string()));
  }
  return environment;
}

std::optional<TerminalSize> Request::terminal(std::string_view name) {
  const json::value* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_object()) {
    refuse(quoted(name) + " must be an object with \"rows\" and \"cols\"");
    return std::nullopt;
  }
  Request inner(value->get_object());
  TerminalSize size;
  size.rows = static_cast<std::uint16_t>(inner.number("rows", 10000).value_or(size.rows));
  size.columns = static_cast<std::uint16_t>(inner.number("cols", 10000).value_or(size.columns));
  if (auto valid = inner.finish(); !valid) {
    refuse(quoted(name) + ": " + valid.error().message());
    return std::nullopt;
  }
  return size;
}

std::optional<Millis> Request::timeout() {
  // A hundred days: nothing runs longer, and no arithmetic on it overflows.
  const auto milliseconds = number("timeout_ms", 8640000000ULL);
  if (!milliseconds) return std::nullopt;
  return Millis(*milliseconds);
}

std::string Request::path() {
  const auto plain = text("path");
  const auto encoded = text("path_base64");
  if (plain.has_value() == encoded.has_value()) {
    refuse("either \"path\" or \"path_base64\" is needed");
    return {};
  }
  std::string path;
  if (plain) {
    path = *plain;
  } else if (auto decoded = decode_base64(*encoded)) {
    path = *std::move(decoded);
  } else {
    refuse("\"path_base64\" is not base64");
  }
  if (path.empty() || path.front() != '/' || has_nul(path))
    refuse("the path must be absolute and without NUL");
  return path;
}

Result<void> Request::finish() {
  for (const json::key_value_pair& entry : members_) {
    if (error_) break;
    if (!seen_.contains(std::string_view(entry.key())))
      refuse("unknown member " + quoted(std::string_view(entry.key())));
  }
  if (error_) return fail(ErrorKind::kInvalid, *error_);
  return {};
}

}  // namespace warren::agent
