#include "api/changes_json.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "changes/json_text.h"

namespace warren::api {
namespace {

namespace json = boost::json;
using changes::put_bytes;

void put_side(json::object& object, const changes::Side& side) {
  object["type"] = changes::name_of(side.type);
  object["size"] = side.size;
  object["mode"] = fmt::format("{:04o}", side.mode);
  if (side.target) put_bytes(object, "target", *side.target);
}

}  // namespace

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
  json::object object = changes::told(report);
  object["applied"] = report.applies;
  return object;
}

std::string conflicts_told(const changes::MergeReport& report) {
  constexpr std::size_t kMostTold = 8;
  std::string text = "nothing was merged, since both have changed the same: ";
  for (std::size_t i = 0; i < report.conflicts.size() && i < kMostTold; ++i)
    text += fmt::format("{}{} ({})", i == 0 ? "" : ", ", to_utf8(report.conflicts[i].path),
                        report.conflicts[i].reason);
  if (report.counts.conflicts > kMostTold)
    text += fmt::format(" and {} more", report.counts.conflicts - kMostTold);
  return text + R"(; on_conflict "ours" or "theirs" decides for all of them)";
}

}  // namespace warren::api
