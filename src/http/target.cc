#include "http/target.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace warren::http {
namespace {

constexpr std::array<std::int8_t, 256> kHexValue = [] {
  std::array<std::int8_t, 256> table{};
  table.fill(-1);
  for (std::size_t i = 0; i < 10; ++i) table[std::size_t{'0'} + i] = static_cast<std::int8_t>(i);
  for (std::size_t i = 0; i < 6; ++i)
    table[std::size_t{'a'} + i] = table[std::size_t{'A'} + i] = static_cast<std::int8_t>(10 + i);
  return table;
}();

int hex_value(char c) { return kHexValue[static_cast<unsigned char>(c)]; }

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

bool has_control(std::string_view text) { return std::any_of(text.begin(), text.end(), is_control); }

}  // namespace

Result<std::string> percent_decode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (i + 2 >= text.size() || hex_value(text[i + 1]) < 0 || hex_value(text[i + 2]) < 0)
      return fail(ErrorKind::kInvalid, "bad percent-encoding: % must be followed by two hex digits");
    out += static_cast<char>(hex_value(text[i + 1]) * 16 + hex_value(text[i + 2]));
    i += 2;
  }
  return out;
}

Result<std::vector<std::pair<std::string, std::string>>> parse_query(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> pairs;
  const auto decode = [](std::string_view part) {
    std::string spaced(part);
    std::replace(spaced.begin(), spaced.end(), '+', ' ');
    return percent_decode(spaced);
  };
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(part.size() + 1, text.size()));
    if (part.empty()) continue;
    const std::size_t equals = std::min(part.find('='), part.size());
    auto name = decode(part.substr(0, equals));
    if (!name) return std::unexpected(std::move(name).error());
    auto value = decode(part.substr(std::min(equals + 1, part.size())));
    if (!value) return std::unexpected(std::move(value).error());
    pairs.emplace_back(*std::move(name), *std::move(value));
  }
  return pairs;
}

Result<std::vector<std::string>> path_segments(std::string_view path) {
  if (path.empty() || path.front() != '/')
    return fail(ErrorKind::kInvalid, "the path must begin with a slash");
  std::vector<std::string> segments;
  for (std::size_t begin = 1;;) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    auto segment = percent_decode(path.substr(begin, end - begin));
    if (!segment) return std::unexpected(std::move(segment).error());
    if (has_control(*segment)) return fail(ErrorKind::kInvalid, "the path has a control character in it");
    segments.push_back(*std::move(segment));
    if (end == path.size()) return segments;
    begin = end + 1;
  }
}

Result<Target> parse_target(std::string_view target) {
  if (std::any_of(target.begin(), target.end(), [](char c) { return is_control(c) || c == ' ' || c == '#'; }))
    return fail(ErrorKind::kInvalid, "the request target has a character in it that must be percent-encoded");
  Target result;
  if (target == "*") {
    result.raw_path = std::string(target);
    result.path = std::string(target);
    return result;
  }
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!target.starts_with(scheme)) continue;
    target.remove_prefix(scheme.size());
    const std::size_t end = std::min(target.find_first_of("/?"), target.size());
    result.authority = std::string(target.substr(0, end));
    if (result.authority.empty()) return fail(ErrorKind::kInvalid, "the request target names no host");
    target.remove_prefix(end);
    break;
  }
  const std::size_t question = std::min(target.find('?'), target.size());
  result.raw_path = std::string(target.substr(0, question));
  // http://host and http://host?q mean the root.
  if (result.raw_path.empty() && !result.authority.empty()) result.raw_path = std::string("/");
  auto segments = path_segments(result.raw_path);
  if (!segments) return std::unexpected(std::move(segments).error());
  for (const std::string& segment : *segments) {
    result.path += '/';
    result.path += segment;
  }
  if (question < target.size()) {
    auto query = parse_query(target.substr(question + 1));
    if (!query) return std::unexpected(std::move(query).error());
    result.query = *std::move(query);
  }
  return result;
}

}  // namespace warren::http
