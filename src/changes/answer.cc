#include "changes/answer.h"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <utility>

#include "base/utf8.h"
#include "changes/json_text.h"
#include "changes/sure.h"

namespace warren::changes {

namespace json = boost::json;

namespace {

constexpr std::size_t kLongestPathTold = 4096;
constexpr std::size_t kLongestReason = 1024;
constexpr std::size_t kLongestError = 16384;

constexpr std::array kTypes{Type::kFile, Type::kFolder, Type::kSymlink,
                            Type::kFifo, Type::kSocket, Type::kDevice};
constexpr std::array kReasons{NoText::kBinary, NoText::kTooLarge, NoText::kLimit, NoText::kVanished};

std::string line_of(const json::object& object) { return json::serialize(object) + "\n"; }

std::string_view name_of_resolution(OnConflict resolution) {
  return resolution == OnConflict::kOurs ? "ours" : "theirs";
}

json::object object_of(const Side& side) {
  json::object object{{"type", name_of(side.type)}, {"size", side.size}, {"mode", side.mode}};
  if (side.target) put_bytes(object, "target", *side.target);
  return object;
}

json::array array_of(const std::vector<std::string>& paths) {
  json::array array;
  for (const auto& path : paths) {
    json::object object;
    put_bytes(object, "path", path);
    array.push_back(std::move(object));
  }
  return array;
}

// The members of a JSON object in a member, if it is there.
const json::object* inner(Members& members, std::string_view name) {
  const json::value* value = members.find(name);
  if (value == nullptr) return nullptr;
  if (value->is_object()) return &value->get_object();
  members.refuse(name);
  return nullptr;
}

std::string path_of(Members& members, std::string_view name = "path") {
  std::string path = members.needed_bytes(name);
  if (!path.starts_with('/') || path.size() > kLongestPathTold) members.refuse(name);
  return path;
}

std::string reason_of(Members& members) {
  std::string reason = members.needed_text("reason");
  if (reason.size() > kLongestReason) members.refuse("reason");
  return reason;
}

std::optional<Side> get_side(Members& members, std::string_view name) {
  const json::object* object = inner(members, name);
  if (object == nullptr) return std::nullopt;
  Members side_members(*object);
  Side side;
  const std::string type = side_members.needed_text("type");
  const auto* const known = std::ranges::find_if(kTypes, [&](Type each) { return name_of(each) == type; });
  if (known == kTypes.end())
    side_members.refuse("type");
  else
    side.type = *known;
  side.size = side_members.needed_number("size", INT64_MAX);
  side.mode = static_cast<std::uint32_t>(side_members.needed_number("mode", 07777));
  side.target = side_members.bytes("target");
  if (!side_members.finish()) members.refuse(name);
  return side;
}

Result<DiffEntry> entry_of(const json::object& object) {
  Members members(object);
  DiffEntry entry;
  entry.path = path_of(members);
  entry.before = get_side(members, "before");
  entry.after = get_side(members, "after");
  entry.text = members.bytes("text");
  if (const auto reason = members.text("no_text")) {
    const auto* const known =
        std::ranges::find_if(kReasons, [&](NoText each) { return name_of(each) == *reason; });
    if (known == kReasons.end())
      members.refuse("no_text");
    else
      entry.no_text = *known;
  }
  if (!entry.before && !entry.after) members.refuse("after");
  WARREN_TRY(members.finish());
  return entry;
}

// An error that the worker tells, seen from who asked it.
Error error_of(const json::object& object) {
  Members members(object);
  const std::string kind = members.needed_text("kind");
  const std::string message = members.needed_text("message");
  for (const auto known :
       {ErrorKind::kInvalid, ErrorKind::kTooLarge, ErrorKind::kNoSpace, ErrorKind::kConflict})
    if (kind == name_of(known)) return Error(known, std::string(utf8_prefix(message, kLongestError)));
  return Error(ErrorKind::kInternal, std::string(utf8_prefix(message, kLongestError)));
}

template <typename Element, typename Read>
void get_list(Members& members, std::string_view name, std::vector<Element>& list, std::size_t& left,
              const Read& read) {
  const json::value* value = members.find(name);
  if (value == nullptr || !value->is_array() || value->get_array().size() > left) return members.refuse(name);
  left -= value->get_array().size();
  for (const json::value& element : value->get_array()) {
    if (!element.is_object()) return members.refuse(name);
    Members each(element.get_object());
    list.push_back(read(each));
    if (!each.finish()) return members.refuse(name);
  }
}

MergeCounts get_counts(Members& members) {
  MergeCounts counts;
  const json::object* object = inner(members, "counts");
  if (object == nullptr) {
    members.refuse("counts");
    return counts;
  }
  Members each(*object);
  for (const auto& [name, count] : {std::pair{"added", &counts.added},
                                    {"modified", &counts.modified},
                                    {"deleted", &counts.deleted},
                                    {"renamed", &counts.renamed},
                                    {"merged", &counts.merged},
                                    {"conflicts", &counts.conflicts},
                                    {"skipped", &counts.skipped}})
    *count = each.needed_number(name, INT64_MAX);
  if (!each.finish()) members.refuse("counts");
  return counts;
}

Result<MergeReport> report_of(const json::object& object) {
  Members members(object);
  MergeReport report;
  report.applies = members.flag("applies").value_or(false);
  report.truncated = members.flag("truncated").value_or(false);
  report.operations = members.needed_number("operations", INT64_MAX);
  report.content_bytes = members.needed_number("content_bytes", INT64_MAX);
  report.counts = get_counts(members);
  std::size_t left = kMostReported;
  const auto path = [](Members& each) { return path_of(each); };
  get_list(members, "added", report.added, left, path);
  get_list(members, "modified", report.modified, left, path);
  get_list(members, "deleted", report.deleted, left, path);
  get_list(members, "merged", report.merged, left, path);
  get_list(members, "renamed", report.renamed, left,
           [](Members& each) { return Renamed{.from = path_of(each, "from"), .path = path_of(each)}; });
  get_list(members, "conflicts", report.conflicts, left, [](Members& each) {
    Conflict conflict{.path = path_of(each), .reason = reason_of(each)};
    if (const auto resolved = each.text("resolved")) {
      if (*resolved != "ours" && *resolved != "theirs") each.refuse("resolved");
      conflict.resolved = *resolved == "ours" ? OnConflict::kOurs : OnConflict::kTheirs;
    }
    return conflict;
  });
  get_list(members, "skipped", report.skipped, left,
           [](Members& each) { return Skipped{.path = path_of(each), .reason = reason_of(each)}; });
  WARREN_TRY(members.finish());
  return report;
}

std::unexpected<Error> garbled(const Error& error) {
  return fail(ErrorKind::kInternal, "the worker's answer cannot be read: " + error.message());
}

}  // namespace

std::string encode(const DiffEntry& entry) {
  json::object object;
  put_bytes(object, "path", entry.path);
  if (entry.before) object["before"] = object_of(*entry.before);
  if (entry.after) object["after"] = object_of(*entry.after);
  if (entry.text) put_bytes(object, "text", *entry.text);
  if (entry.no_text) object["no_text"] = name_of(*entry.no_text);
  return line_of(object);
}

std::string encode(const DiffEnd& end) {
  return line_of({{"end", json::object{{"truncated", end.truncated}}}});
}

std::string encode_failure(const Error& error) {
  return line_of(
      {{"error", json::object{{"kind", name_of(error.kind())}, {"message", to_utf8(error.message())}}}});
}

json::object told(const MergeReport& report) {
  json::object object{{"truncated", report.truncated}};
  object["counts"] = json::object{{"added", report.counts.added},     {"modified", report.counts.modified},
                                  {"deleted", report.counts.deleted}, {"renamed", report.counts.renamed},
                                  {"merged", report.counts.merged},   {"conflicts", report.counts.conflicts},
                                  {"skipped", report.counts.skipped}};
  object["added"] = array_of(report.added);
  object["modified"] = array_of(report.modified);
  object["deleted"] = array_of(report.deleted);
  object["merged"] = array_of(report.merged);
  json::array renamed;
  for (const auto& each : report.renamed) {
    json::object entry;
    put_bytes(entry, "from", each.from);
    put_bytes(entry, "path", each.path);
    renamed.push_back(std::move(entry));
  }
  object["renamed"] = std::move(renamed);
  json::array conflicts;
  for (const auto& each : report.conflicts) {
    json::object entry{{"reason", to_utf8(each.reason)}};
    put_bytes(entry, "path", each.path);
    if (each.resolved) entry["resolved"] = name_of_resolution(*each.resolved);
    conflicts.push_back(std::move(entry));
  }
  object["conflicts"] = std::move(conflicts);
  json::array skipped;
  for (const auto& each : report.skipped) {
    json::object entry{{"reason", to_utf8(each.reason)}};
    put_bytes(entry, "path", each.path);
    skipped.push_back(std::move(entry));
  }
  object["skipped"] = std::move(skipped);
  return object;
}

std::string encode(const MergeReport& report) {
  json::object object = told(report);
  object["applies"] = report.applies;
  object["operations"] = report.operations;
  object["content_bytes"] = report.content_bytes;
  return line_of({{"report", std::move(object)}});
}

Result<std::optional<std::string>> LineReader::next(std::string_view& bytes) {
  const std::size_t end = bytes.find('\n');
  const std::size_t size = std::min(end, bytes.size());
  if (line_.size() + size > longest_) return fail(ErrorKind::kTooLarge, "a line of the answer is too long");
  line_.append(bytes.substr(0, size));
  bytes.remove_prefix(end == std::string_view::npos ? size : size + 1);
  if (end == std::string_view::npos) return std::nullopt;
  return std::exchange(line_, {});
}

Result<void> DiffAnswer::feed(std::string_view bytes) {
  while (!bytes.empty()) {
    if (ended_) return garbled(Error(ErrorKind::kInvalid, "something comes after its end"));
    const auto line = lines_.next(bytes);
    if (!line) return garbled(line.error());
    if (!*line) return {};
    const auto object = parse_line(sure(*line));
    if (!object) return garbled(object.error());
    if (const json::value* error = object->if_contains("error"); error != nullptr && error->is_object())
      return fail(error_of(error->get_object()));
    if (const json::value* end = object->if_contains("end"); end != nullptr && end->is_object()) {
      Members members(end->get_object());
      diff_.truncated = members.flag("truncated").value_or(false);
      if (const auto read = members.finish(); !read) return garbled(read.error());
      ended_ = true;
      continue;
    }
    auto entry = entry_of(*object);
    if (!entry) return garbled(entry.error());
    text_ += entry->text.value_or("").size();
    bytes_ += entry->path.size();
    for (const auto* side : {&entry->before, &entry->after})
      if (*side) bytes_ += (*side)->target.value_or("").size();
    if (diff_.entries.size() >= kMostEntries || text_ > kMostText || bytes_ > 2 * kMostEntryBytes)
      return garbled(Error(ErrorKind::kTooLarge, "it is too long"));
    diff_.entries.push_back(*std::move(entry));
  }
  return {};
}

Result<Diff> DiffAnswer::finish() && {
  if (!ended_) return fail(ErrorKind::kUnavailable, "the comparison ended early");
  return std::move(diff_);
}

Result<void> MergeAnswer::feed(std::string_view& bytes) {
  if (report_ || bytes.empty()) return {};
  const auto line = lines_.next(bytes);
  if (!line) return garbled(line.error());
  if (!*line) return {};
  const auto object = parse_line(sure(*line));
  if (!object) return garbled(object.error());
  if (const json::value* error = object->if_contains("error"); error != nullptr && error->is_object())
    return fail(error_of(error->get_object()));
  Members members(*object);
  const json::object* told = inner(members, "report");
  if (told == nullptr) return garbled(Error(ErrorKind::kInvalid, "no report"));
  auto report = report_of(*told);
  if (!report) return garbled(report.error());
  report_ = *std::move(report);
  return {};
}

}  // namespace warren::changes
