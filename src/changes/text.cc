#include "changes/text.h"

#include <git2/buffer.h>
#include <git2/diff.h>
#include <git2/errors.h>
#include <git2/global.h>
#include <git2/merge.h>
#include <git2/patch.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace warren::changes {
namespace {

std::unexpected<Error> fail_git(const char* what) {
  const git_error* last = git_error_last();
  const std::string why = last != nullptr && last->message != nullptr ? last->message : "no reason given";
  return fail(ErrorKind::kInternal, std::string(what) + ": " + why);
}

git_merge_file_input input_of(std::string_view content) {
  git_merge_file_input input = GIT_MERGE_FILE_INPUT_INIT;
  input.ptr = content.data() != nullptr ? content.data() : "";
  input.size = content.size();
  return input;
}

}  // namespace

Result<void> prepare_text() {
  if (git_libgit2_init() < 0) return fail_git("git_libgit2_init");
  return {};
}

bool is_text(std::string_view content) { return content.find('\0') == std::string_view::npos; }

bool has_few_lines(std::string_view content) {
  return static_cast<std::size_t>(std::ranges::count(content, '\n')) <= kMostLines;
}

Result<std::string> unified_text(const TextSide& before, const TextSide& after) {
  git_diff_options options = GIT_DIFF_OPTIONS_INIT;
  options.flags = GIT_DIFF_FORCE_TEXT;
  const std::string old_path(before.path);
  const std::string new_path(after.path);
  git_patch* raw = nullptr;
  if (git_patch_from_buffers(&raw, before.path.empty() ? nullptr : input_of(before.content).ptr,
                             before.content.size(), old_path.empty() ? nullptr : old_path.c_str(),
                             after.path.empty() ? nullptr : input_of(after.content).ptr, after.content.size(),
                             new_path.empty() ? nullptr : new_path.c_str(), &options) < 0)
    return fail_git("git_patch_from_buffers");
  const std::unique_ptr<git_patch, decltype(&git_patch_free)> patch(raw, git_patch_free);
  git_buf buffer = GIT_BUF_INIT;
  if (git_patch_to_buf(&buffer, patch.get()) < 0) return fail_git("git_patch_to_buf");
  std::string text(buffer.ptr, buffer.size);
  git_buf_dispose(&buffer);
  return text;
}

Result<std::optional<std::string>> merge_text(std::string_view base, std::string_view ours,
                                              std::string_view theirs, Favour favour) {
  const git_merge_file_input ancestor = input_of(base);
  const git_merge_file_input our = input_of(ours);
  const git_merge_file_input their = input_of(theirs);
  git_merge_file_options options = GIT_MERGE_FILE_OPTIONS_INIT;
  if (favour == Favour::kOurs) options.favor = GIT_MERGE_FILE_FAVOR_OURS;
  if (favour == Favour::kTheirs) options.favor = GIT_MERGE_FILE_FAVOR_THEIRS;
  git_merge_file_result result{};
  if (git_merge_file(&result, &ancestor, &our, &their, &options) < 0) return fail_git("git_merge_file");
  std::optional<std::string> merged;
  if (result.automergeable != 0) merged.emplace(result.ptr, result.len);
  git_merge_file_result_free(&result);
  return merged;
}

}  // namespace warren::changes
