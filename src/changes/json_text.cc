#include "changes/json_text.h"

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <utility>

#include "base/base64.h"
#include "base/utf8.h"

namespace warren::changes {

namespace json = boost::json;

namespace {

constexpr std::string_view kBase64 = "_base64";

template <typename T>
T or_refuse(Members& members, std::optional<T> value, std::string_view name) {
  if (!value) members.refuse(name);
  return std::move(value).value_or(T());
}

}  // namespace

void put_bytes(json::object& object, std::string_view name, std::string_view bytes) {
  if (is_utf8(bytes))
    object[name] = bytes;
  else
    object[std::string(name).append(kBase64)] = encode_base64(bytes);
}

Result<json::object> parse_line(std::string_view line) {
  json::parse_options options;
  options.max_depth = 8;
  boost::system::error_code error;
  json::value value = json::parse(line, error, {}, options);
  if (error || !value.is_object()) return fail(ErrorKind::kInvalid, "not a JSON object");
  return std::move(value.get_object());
}

const json::value* Members::find(std::string_view name) {
  asked_.emplace(name);
  return wrong_ ? nullptr : object_.if_contains(name);
}

std::optional<std::string> Members::text(std::string_view name) {
  const json::value* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) {
    refuse(name);
    return std::nullopt;
  }
  return std::string(value->get_string());
}

std::optional<std::string> Members::bytes(std::string_view name) {
  auto plain = text(name);
  const auto encoded = text(std::string(name).append(kBase64));
  if (!encoded) return plain;
  auto decoded = decode_base64(*encoded);
  if (plain || !decoded) {
    refuse(name);
    return std::nullopt;
  }
  return decoded;
}

std::optional<std::uint64_t> Members::number(std::string_view name, std::uint64_t max) {
  const json::value* value = find(name);
  if (value == nullptr) return std::nullopt;
  // Not from a floating number, which only looks whole.
  const bool whole = value->is_uint64() || (value->is_int64() && value->get_int64() >= 0);
  const std::uint64_t number = !whole               ? 0
                               : value->is_uint64() ? value->get_uint64()
                                                    : static_cast<std::uint64_t>(value->get_int64());
  if (!whole || number > max) {
    refuse(name);
    return std::nullopt;
  }
  return number;
}

std::optional<std::int64_t> Members::integer(std::string_view name) {
  const json::value* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_int64()) {
    refuse(name);
    return std::nullopt;
  }
  return value->get_int64();
}

std::optional<bool> Members::flag(std::string_view name) {
  const json::value* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_bool()) {
    refuse(name);
    return std::nullopt;
  }
  return value->get_bool();
}

std::string Members::needed_bytes(std::string_view name) { return or_refuse(*this, bytes(name), name); }
std::string Members::needed_text(std::string_view name) { return or_refuse(*this, text(name), name); }
std::uint64_t Members::needed_number(std::string_view name, std::uint64_t max) {
  return or_refuse(*this, number(name, max), name);
}

void Members::refuse(std::string_view name) {
  if (!wrong_) wrong_ = std::string(name);
}

Result<void> Members::finish() {
  for (const json::key_value_pair& member : object_) {
    if (wrong_) break;
    if (!asked_.contains(std::string_view(member.key()))) wrong_ = std::string(member.key());
  }
  if (!wrong_) return {};
  constexpr std::size_t kLongestTold = 64;
  std::string message = to_utf8(utf8_prefix(*wrong_, kLongestTold));
  message += ": missing or wrong";
  return fail(ErrorKind::kInvalid, std::move(message));
}

}  // namespace warren::changes
