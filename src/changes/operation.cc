#include "changes/operation.h"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <climits>
#include <utility>

#include "base/base64.h"
#include "changes/json_text.h"

namespace warren::changes {

namespace json = boost::json;

namespace {

struct Name {
  OperationKind kind;
  std::string_view text;
};
constexpr std::array kNames = std::to_array<Name>({
    {OperationKind::kFolder, "folder"},
    {OperationKind::kFile, "file"},
    {OperationKind::kSymlink, "symlink"},
    {OperationKind::kLink, "link"},
    {OperationKind::kAttributes, "attributes"},
    {OperationKind::kRemove, "remove"},
    {OperationKind::kRemoveFolder, "remove_folder"},
});

bool has_attributes(OperationKind kind) {
  return kind == OperationKind::kFolder || kind == OperationKind::kFile || kind == OperationKind::kAttributes;
}

bool is_passable_path(std::string_view path) {
  if (path.size() < 2 || path.size() >= PATH_MAX || path.front() != '/') return false;
  if (path.find('\0') != std::string_view::npos) return false;
  for (std::size_t at = 1; at <= path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    const std::string_view name = path.substr(at, end - at);
    if (name.empty() || name == "." || name == ".." || name.size() > NAME_MAX) return false;
    at = end + 1;
  }
  return true;
}

void put_attributes(json::object& object, const Attributes& attributes, OperationKind kind) {
  object["uid"] = attributes.uid;
  object["gid"] = attributes.gid;
  if (attributes.mtime_ns) object["mtime_ns"] = *attributes.mtime_ns;
  if (!has_attributes(kind)) return;
  object["mode"] = attributes.mode;
  if (!attributes.xattrs) return;
  json::object xattrs;
  for (const auto& [name, value] : *attributes.xattrs) xattrs[name] = encode_base64(value);
  object["xattrs"] = std::move(xattrs);
}

std::optional<Xattrs> get_xattrs(Members& members) {
  const json::value* value = members.find("xattrs");
  if (value == nullptr) return std::nullopt;
  Xattrs xattrs;
  if (!value->is_object()) {
    members.refuse("xattrs");
    return xattrs;
  }
  std::size_t total = 0;
  for (const json::key_value_pair& member : value->get_object()) {
    const std::string name(member.key());
    std::optional<std::string> decoded;
    if (member.value().is_string()) decoded = decode_base64(std::string_view(member.value().get_string()));
    constexpr std::size_t kLongestName = 255;
    total += name.size() + (decoded ? decoded->size() : 0);
    if (!decoded || !name.starts_with("user.") || name.starts_with("user.overlay.") ||
        name.size() > kLongestName || name.find('\0') != std::string::npos || total > kMostXattrBytes) {
      members.refuse("xattrs");
      return xattrs;
    }
    xattrs.emplace(name, *std::move(decoded));
  }
  return xattrs;
}

Attributes get_attributes(Members& members, OperationKind kind) {
  Attributes attributes;
  attributes.uid = static_cast<std::uint32_t>(members.needed_number("uid", UINT32_MAX));
  attributes.gid = static_cast<std::uint32_t>(members.needed_number("gid", UINT32_MAX));
  attributes.mtime_ns = members.integer("mtime_ns");
  if (!has_attributes(kind)) return attributes;
  attributes.mode = static_cast<std::uint32_t>(members.needed_number("mode", 07777));
  attributes.xattrs = get_xattrs(members);
  return attributes;
}

std::optional<Was> get_was(Members& members, std::string_view name) {
  const json::value* value = members.find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_null()) return Was{};
  if (!value->is_object()) {
    members.refuse(name);
    return std::nullopt;
  }
  Members inner(value->get_object());
  Was was{.nothing = false, .size = inner.needed_number("size", INT64_MAX)};
  const auto mtime = inner.integer("mtime_ns");
  was.mtime_ns = mtime.value_or(0);
  if (!mtime || !inner.finish()) members.refuse(name);
  return was;
}

void put_was(json::value& value, const Was& was) {
  if (was.nothing)
    value = nullptr;
  else
    value = json::object{{"size", was.size}, {"mtime_ns", was.mtime_ns}};
}

std::optional<std::uint64_t> whole(const json::value& value) {
  if (value.is_int64() && value.get_int64() >= 0) return static_cast<std::uint64_t>(value.get_int64());
  return std::nullopt;
}

// In order, apart, none empty, within the size.
std::vector<Segment> get_segments(Members& members, std::uint64_t size) {
  std::vector<Segment> segments;
  const json::value* value = members.find("segments");
  if (value == nullptr || !value->is_array() || value->get_array().size() > kMostSegments) {
    members.refuse("segments");
    return segments;
  }
  std::uint64_t free_from = 0;
  for (const json::value& element : value->get_array()) {
    const bool pair = element.is_array() && element.get_array().size() == 2;
    const auto offset = pair ? whole(element.get_array()[0]) : std::nullopt;
    const auto length = pair ? whole(element.get_array()[1]) : std::nullopt;
    if (!offset || !length || *length == 0 || *offset < free_from || *offset > size ||
        *length > size - *offset) {
      members.refuse("segments");
      return segments;
    }
    segments.push_back({*offset, *length});
    free_from = *offset + *length;
  }
  return segments;
}

}  // namespace

std::uint64_t content_bytes(const Operation& operation) {
  std::uint64_t bytes = 0;
  for (const Segment& segment : operation.segments) bytes += segment.length;
  return bytes;
}

std::string encode(const Operation& operation) {
  json::object object;
  for (const auto& [kind, text] : kNames)
    if (kind == operation.kind) object["op"] = text;
  put_bytes(object, "path", operation.path);
  if (has_attributes(operation.kind) || operation.kind == OperationKind::kSymlink)
    put_attributes(object, operation.attributes, operation.kind);
  if (operation.kind == OperationKind::kFile) {
    object["size"] = operation.size;
    json::array segments;
    for (const Segment& segment : operation.segments)
      segments.push_back(json::array{segment.offset, segment.length});
    object["segments"] = std::move(segments);
  }
  if (operation.kind == OperationKind::kSymlink || operation.kind == OperationKind::kLink)
    put_bytes(object, "target", operation.target);
  if (operation.was) put_was(object["was"], *operation.was);
  if (operation.target_was) put_was(object["target_was"], *operation.target_was);
  return json::serialize(object) + "\n";
}

std::string encode_end(std::uint64_t count) {
  return json::serialize(json::object{{"op", "end"}, {"count", count}}) + "\n";
}

Result<std::variant<Operation, EndOfOperations>> decode_operation(std::string_view line) {
  const auto object = parse_line(line);
  if (!object) return fail(object.error());
  Members members(*object);
  const std::string op = members.needed_text("op");
  if (op == "end") {
    const EndOfOperations end{.count = members.needed_number("count", INT64_MAX)};
    WARREN_TRY(members.finish());
    return end;
  }
  const auto* const named = std::ranges::find(kNames, std::string_view(op), &Name::text);
  if (named == kNames.end()) return fail(ErrorKind::kInvalid, "an unknown operation");
  Operation operation;
  operation.kind = named->kind;
  operation.path = members.needed_bytes("path");
  if (!is_passable_path(operation.path)) members.refuse("path");
  if (has_attributes(operation.kind) || operation.kind == OperationKind::kSymlink)
    operation.attributes = get_attributes(members, operation.kind);
  if (operation.kind == OperationKind::kFile) {
    operation.size = members.needed_number("size", INT64_MAX);
    operation.segments = get_segments(members, operation.size);
  }
  if (operation.kind == OperationKind::kSymlink) {
    operation.target = members.needed_bytes("target");
    if (operation.target.empty() || operation.target.size() >= PATH_MAX ||
        operation.target.find('\0') != std::string::npos)
      members.refuse("target");
  }
  if (operation.kind == OperationKind::kLink) {
    operation.target = members.needed_bytes("target");
    if (!is_passable_path(operation.target)) members.refuse("target");
    operation.target_was = get_was(members, "target_was");
    if (operation.target_was && operation.target_was->nothing) members.refuse("target_was");
  }
  if (operation.kind != OperationKind::kFolder && operation.kind != OperationKind::kRemoveFolder)
    operation.was = get_was(members, "was");
  WARREN_TRY(members.finish());
  return operation;
}

}  // namespace warren::changes
