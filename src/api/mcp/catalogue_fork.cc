// fork, merge_into and diff, as the catalogue has them.
#include "api/mcp/catalogue_entries.h"

namespace warren::api::mcp {

namespace json = boost::json;

json::object fork_tool() {
  json::object left = object_schema(
      {{"threads", typed("integer", "How many threads of the Python session.")},
       {"processes", list_of(typed("string", ""), "Command lines of background processes.")},
       {"descriptors", list_of(typed("string", ""), "Open sockets and pipes, which are reset.")}},
      {}, Strict::kNo);
  left["description"] = "What the children do not have; empty if nothing was left out.";
  return tool(
      "fork", "Fork a sandbox",
      "Copy a live sandbox into n children: each has its files and its whole Python session "
      "(variables, imports, functions) and goes its own way from there; the parent goes on undisturbed. Load "
      "and prepare once, fork, try a different approach in each child in parallel, then merge_into the "
      "winner and destroy the others. Children are ready at once and can fork too. Background processes, "
      "threads and sockets are not copied: not_copied says which. Waits for a Python call that runs in the "
      "parent.",
      object_schema({{"sandbox_id", typed("string", "The parent, as create_sandbox or fork returned it.")},
                     {"n", integer("How many children; default 1. All of them are made or none.", 1, 32)},
                     {"keep_random",
                      typed("boolean",
                            "Whether the children draw the random numbers (random, numpy.random) that the "
                            "parent would have drawn; default false: each draws its own.")}},
                    {"sandbox_id"}, Strict::kYes),
      object_schema({{"children", list_of(typed("string", ""), "Their sandbox_ids.")},
                     {"fork_copies", typed("string", "How much of the parent runs on in a child.")},
                     {"not_copied", std::move(left)}},
                    {"children", "fork_copies", "not_copied"}, Strict::kNo),
      {});
}

json::object merge_into_tool() {
  json::object report = typed("object", "mode files: what was changed in the parent.");
  return tool(
      "merge_into", "Merge a sandbox into another",
      "Put the winner's state in the place of the parent's, all at once: afterwards parent_id names the "
      "winner's files, variables and processes, what the parent had is gone, and winner_id names nothing any "
      "more. Siblings are untouched: destroy those that lost. Both must be on the same template. With mode "
      "files only the winner's changes to files since the fork are brought into the parent, whose Python "
      "session goes on.",
      object_schema(
          {{"parent_id", typed("string", "The sandbox that lives on under its id.")},
           {"winner_id", typed("string", "The sandbox whose state it gets; usually a child of it.")},
           {"mode", one_of("replace (the default): everything. files: a three-way merge of the files.",
                           {"replace", "files"})},
           {"on_conflict",
            one_of("mode files: what to do where both have changed the same. fail (the default) changes "
                   "nothing and lists it, ours keeps the parent's, theirs takes the winner's.",
                   {"fail", "ours", "theirs"})}},
          {"parent_id", "winner_id"}, Strict::kYes),
      object_schema({{"sandbox_id", typed("string", "The parent's, which now names the merged sandbox.")},
                     {"report", std::move(report)}},
                    {"sandbox_id"}, Strict::kNo),
      {.read_only = false, .destructive = true, .idempotent = false});
}

json::object diff_tool() {
  const auto entries = [](std::string_view description) {
    return list_of(object_schema({{"path", typed("string", "")},
                                  {"type", typed("string", "file, directory, symlink …")},
                                  {"size", typed("integer", "In bytes.")},
                                  {"text", typed("string", "Unified text, where asked for.")}},
                                 {"type", "size"}, Strict::kNo),
                   description);
  };
  return tool(
      "diff", "Compare two sandboxes",
      "What differs in the files of another sandbox from those of this one: usually what a child has done "
      "since "
      "the fork. Costs what changed, not the whole tree.",
      object_schema(
          {{"sandbox_id", typed("string", "The one to compare with, usually the parent.")},
           {"other_id", typed("string", "The one whose changes are told.")},
           {"paths", list_of(typed("string", ""), "Below which; default /root and /tmp.")},
           {"text", typed("boolean", "Whether to tell what changed in text files, as unified text.")}},
          {"sandbox_id", "other_id"}, Strict::kYes),
      object_schema({{"added", entries("What only the other has.")},
                     {"removed", entries("What only this one has.")},
                     {"modified", entries("What both have, and differs; before: as this one has it.")},
                     {"truncated", typed("boolean", "Whether there is more than is listed.")}},
                    {"added", "removed", "modified", "truncated"}, Strict::kNo),
      {.read_only = true, .destructive = false, .idempotent = true});
}

}  // namespace warren::api::mcp
