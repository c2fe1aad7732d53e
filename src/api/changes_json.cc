#include "api/changes_json.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <utility>
#include <vector>

#include "base/base64.h"
#include "base/utf8.h"

namespace warren::api {
namespace {

namespace json = boost::json;

void put_side(json::object& object, const changes::Side& side) {
  object["type"] = changes::name_of(side.type);
  object["size"] = side.size;
  object["mode"] = fmt::format("{:04o}", side.mode);
  if (side.target) put_bytes(object, "target", *side.target);
}

json::array paths_json(const std::vector<std::string>& paths) {
  json::array list;
  for (const auto& path : paths) put_bytes(list.emplace_back(json::object()).get_object(), "path", path);
  return list;
}

std::string_view name_of(changes::OnConflict side) {
  switch (side) {
    case changes::OnConflict::kOurs:
      return "ours";
    case changes::OnConflict::kTheirs:
      return "theirs";
    case changes::OnConflict::kFail:
      break;
  }
  return "fail";
}

}  // namespace

void put_bytes(json::object& object, std::string_view key, std::string_view bytes) {
  if (is_utf8(bytes))
    object[key] = bytes;
  else
    object[std::string(key) + "_base64"] = encode_base64(bytes);
}

json::object diff_json(const changes::Diff& diff) {
  json::array added;
  json::array removed;
  json::array modified;
  for (const auto& entry : diff.entries) {
    json::object one;
    put_bytes(one, "path", entry.path);
    if (entry.after)
      put_side(one, *entry.after);
    else if (entry.before)
      put_side(one, *entry.before);
    if (entry.text) put_bytes(one, "text", *entry.text);
    if (entry.no_text) one["no_text"] = changes::name_of(*entry.no_text);
    if (entry.before && entry.after) put_side(one["before"].emplace_object(), *entry.before);
    auto& list = !entry.before ? added : !entry.after ? removed : modified;
    list.emplace_back(std::move(one));
  }
  json::object object;
  object["added"] = std::move(added);
  object["removed"] = std::move(removed);
  object["modified"] = std::move(modified);
  object["truncated"] = diff.truncated;
  return object;
}

json::object report_json(const changes::MergeReport& report) {
  json::object object;
  object["applied"] = report.applies;
  const auto& counts = report.counts;
  object["counts"] = json::object{{"added", counts.added},     {"modified", counts.modified},
                                  {"deleted", counts.deleted}, {"renamed", counts.renamed},
                                  {"merged", counts.merged},   {"conflicts", counts.conflicts},
                                  {"skipped", counts.skipped}};
  object["added"] = paths_json(report.added);
  object["modified"] = paths_json(report.modified);
  object["deleted"] = paths_json(report.deleted);
  object["merged"] = paths_json(report.merged);
  json::array& renamed = object["renamed"].emplace_array();
  for (const auto& each : report.renamed) {
    json::object& one = renamed.emplace_back(json::object()).get_object();
    put_bytes(one, "from", each.from);
    put_bytes(one, "path", each.path);
  }
  json::array& conflicts = object["conflicts"].emplace_array();
  for (const auto& each : report.conflicts) {
    json::object& one = conflicts.emplace_back(json::object()).get_object();
    put_bytes(one, "path", each.path);
    one["reason"] = each.reason;
    if (each.resolved) one["resolved"] = name_of(*each.resolved);
  }
  json::array& skipped = object["skipped"].emplace_array();
  for (const auto& each : report.skipped) {
    json::object& one = skipped.emplace_back(json::object()).get_object();
    put_bytes(one, "path", each.path);
    one["reason"] = each.reason;
  }
  object["truncated"] = report.truncated;
  return object;
}

std::string conflicts_told(const changes::MergeReport& report) {
  constexpr std::size_t kMostTold = 8;
  std::string text = "nothing was merged, since both have changed the same: ";
  for (std::size_t i = 0; i < report.conflicts.size() && i < kMostTold; ++i)
    text += fmt::format("{}{} ({})", i == 0 ? "" : ", ", to_utf8(report.conflicts[i].path),
                        report.conflicts[i].reason);
  if (report.counts.conflicts > kMostTold) text += fmt::format(" and {} more", report.counts.conflicts - kMostTold);
  return text + R"(; on_conflict "ours" or "theirs" decides for all of them)";
}

}  // namespace warren::api
