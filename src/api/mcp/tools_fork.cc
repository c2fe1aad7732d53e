// fork, merge_into and diff.
#include <fmt/format.h>

#include <utility>

#include "api/changes_json.h"
#include "api/mcp/tools.h"
#include "api/withdrawal.h"
#include "base/utf8.h"

namespace warren::api::mcp {

namespace json = boost::json;

namespace {

constexpr IntegerRange kChildren{.min = 1, .max = 32};
// How much of each list a model reads; the structure has all.
constexpr std::size_t kMostTold = 8;

// "processes: "sleep 900", "nginx" and 3 more"; nothing if there are none.
std::string told_names(const json::object& not_copied, std::string_view key, std::string_view words) {
  const json::value* value = not_copied.if_contains(key);
  if (value == nullptr || !value->is_array() || value->get_array().empty()) return {};
  const json::array& names = value->get_array();
  std::string text = fmt::format("{}: ", words);
  for (std::size_t i = 0; i < names.size() && i < kMostTold; ++i) {
    if (i > 0) text += ", ";
    text += in_quotes(names[i].is_string() ? std::string_view(names[i].get_string()) : "");
  }
  if (names.size() > kMostTold) text += fmt::format(" and {} more", names.size() - kMostTold);
  return text;
}

std::string told_left(const json::object& not_copied) {
  std::string text;
  const auto add = [&text](const std::string& part) {
    if (!part.empty()) text += "not copied, " + part + "\n";
  };
  if (const json::value* threads = not_copied.if_contains("threads");
      threads != nullptr && threads->is_int64())
    add(fmt::format("threads of the Python session: {}", threads->get_int64()));
  add(told_names(not_copied, "processes", "background processes"));
  add(told_names(not_copied, "descriptors", "sockets and pipes, which are reset in the children"));
  return text;
}

// "+ added", "- removed", "~ modified", and the text where there is one; cut as output is.
std::string told_diff(const changes::Diff& diff, const std::string& id, const std::string& other) {
  constexpr std::size_t kMostText = 20'000;
  std::string text = fmt::format("what {} has against {}:\n", other, id);
  std::size_t left = diff.entries.size();
  for (const auto& entry : diff.entries) {
    if (text.size() > kMostText) break;
    --left;
    const char mark = !entry.before ? '+' : !entry.after ? '-' : '~';
    text += fmt::format("{} {}", mark, to_utf8(entry.path));
    if (entry.before && entry.after && entry.before->size != entry.after->size)
      text += fmt::format(" ({} -> {} bytes)", entry.before->size, entry.after->size);
    else if (const auto& side = entry.after ? entry.after : entry.before;
             side && side->type == changes::Type::kFile)
      text += fmt::format(" ({} bytes)", side->size);
    text += '\n';
    if (entry.text) text += to_utf8(utf8_prefix(*entry.text, kMostText)) + '\n';
  }
  if (diff.entries.empty()) text += "nothing differs\n";
  if (left > 0 || diff.truncated)
    text +=
        fmt::format("and {}{} more; name narrower paths to see them\n", left, diff.truncated ? " or" : "");
  return text;
}

}  // namespace

Task<ToolResult> Tools::fork(CallContext context, json::object object) {
  Arguments arguments(object);
  const std::string id = arguments.require_string("sandbox_id", {"id", "parent_id", "parent"});
  service::ForkSpec spec;
  spec.children = arguments.integer("n", kChildren).value_or(spec.children);
  spec.keep_random = arguments.boolean("keep_random").value_or(spec.keep_random);
  if (const auto read = arguments.finish(); !read) co_return failed(read.error());
  if (auto why = missing(context, id)) co_return std::move(*why);

  const auto withdrawal = std::make_shared<Withdrawal>();
  context.call->on_cancel([withdrawal] { withdrawal->withdraw(); });
  auto forked = co_await withdrawal->answer_of(sandboxes_->fork(context.caller, id, spec));
  context.call->on_cancel({});
  if (!forked) co_return failed(forked.error());
  if (context.call->cancelled()) {
    // Nobody will ever learn their ids.
    for (const auto& child : forked->children) (void)co_await sandboxes_->destroy(context.caller, child.id);
    co_return failed(Error(ErrorKind::kCancelled, "the call was cancelled; the children were destroyed"));
  }

  json::object structured;
  json::array& children = structured["children"].emplace_array();
  std::string text = fmt::format("children of {}:\n", id);
  for (const auto& child : forked->children) {
    children.emplace_back(child.id);
    text += child.id + "\n";
  }
  text += told_left(forked->not_copied);
  structured["fork_copies"] = forked->children.empty() ? "" : forked->children.front().fork_copies;
  structured["not_copied"] = std::move(forked->not_copied);
  co_return done(std::move(text), std::move(structured));
}

// Not withdrawn by who goes away: once it has begun it is done, and can be asked for.
Task<ToolResult> Tools::merge_into(CallContext context, json::object object) {
  Arguments arguments(object);
  const std::string parent = arguments.require_string("parent_id", {"parent", "sandbox_id", "id"});
  service::MergeSpec spec;
  spec.winner = arguments.require_string("winner_id", {"winner", "child_id", "child"});
  spec.mode = arguments.choice("mode", {"replace", "files"});
  spec.on_conflict = arguments.choice("on_conflict", {"fail", "ours", "theirs"});
  if (const auto read = arguments.finish(); !read) co_return failed(read.error());
  if (auto why = missing(context, parent, "parent_id")) co_return std::move(*why);
  if (auto why = missing(context, spec.winner, "winner_id")) {
    // Which tells the bridge that it is not the sandbox that the call works in.
    why->failure = std::string(name_of(ErrorKind::kNotFound));
    co_return std::move(*why);
  }

  const std::string winner = spec.winner;
  auto merged = co_await sandboxes_->merge(context.caller, parent, std::move(spec));
  if (!merged) co_return failed(merged.error());
  json::object structured;
  structured["sandbox_id"] = merged->sandbox.id;
  std::string text;
  if (const auto& report = merged->report) {
    if (!report->applies)
      co_return failed(Error(ErrorKind::kConflict, "on_conflict: " + conflicts_told(*report)));
    const auto& counts = report->counts;
    text = fmt::format(
        "merged the files of {} into {}, whose processes and Python session go on: {} added, {} modified, {} "
        "of them merged by line, {} deleted, {} renamed, {} conflicts resolved, {} skipped\n",
        winner, parent, counts.added, counts.modified, counts.merged, counts.deleted, counts.renamed,
        counts.conflicts, counts.skipped);
    structured["report"] = report_json(*report);
  } else {
    text = fmt::format(
        "merged: {} now has the files, variables and processes that {} had; what it had itself is gone.\n"
        "{} names nothing any more: go on with {}.\n",
        parent, winner, winner, parent);
  }
  co_return done(std::move(text), std::move(structured));
}

Task<ToolResult> Tools::diff(CallContext context, json::object object) {
  Arguments arguments(object);
  const std::string id = arguments.require_string("sandbox_id", {"id", "parent_id", "parent"});
  service::DiffSpec spec;
  spec.other = arguments.require_string("other_id", {"other", "child_id", "child"});
  spec.paths = arguments.string_list("paths", {"path"}).value_or(std::vector<std::string>());
  spec.with_text = arguments.boolean("text").value_or(false);
  if (const auto read = arguments.finish(); !read) co_return failed(read.error());
  if (auto why = missing(context, id)) co_return std::move(*why);
  if (auto why = missing(context, spec.other, "other_id")) {
    why->failure = std::string(name_of(ErrorKind::kNotFound));
    co_return std::move(*why);
  }
  const std::string other = spec.other;
  const auto found = co_await sandboxes_->diff(context.caller, id, std::move(spec));
  if (!found) co_return failed(found.error());
  co_return done(told_diff(*found, id, other), diff_json(*found));
}

}  // namespace warren::api::mcp
