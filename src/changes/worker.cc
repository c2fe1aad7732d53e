#include "changes/worker.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <new>
#include <string_view>
#include <utility>

#include "changes/answer.h"
#include "changes/merge.h"
#include "changes/scope.h"
#include "changes/text.h"
#include "changes/tree.h"

namespace warren::changes {
namespace {

// Gathers small pieces; ends the process when nobody reads.
class AnswerPipe {
 public:
  explicit AnswerPipe(int fd) : fd_(fd) {}

  void write(std::string_view bytes) {
    if (buffer_.size() + bytes.size() > kBuffer) flush();
    if (bytes.size() >= kBuffer)
      write_out(bytes);
    else
      buffer_.append(bytes);
  }
  void flush() {
    write_out(buffer_);
    buffer_.clear();
  }

 private:
  static constexpr std::size_t kBuffer = std::size_t{64} * 1024;

  void write_out(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) ::_exit(1);
      bytes.remove_prefix(static_cast<std::size_t>(written));
    }
  }

  int fd_;
  std::string buffer_;
};

// Read-only copies of the layers of several trees, each once.
class Copies {
 public:
  Result<Tree> add(const Tree& tree) {
    Tree copies;
    for (const int layer : tree) {
      struct stat status {};
      if (::fstat(layer, &status) < 0) return fail_errno("fstat a layer");
      if (!S_ISDIR(status.st_mode)) return fail(ErrorKind::kInvalid, "a layer must be a folder");
      const auto known = known_.find({status.st_dev, status.st_ino});
      if (known != known_.end()) {
        copies.push_back(known->second);
        continue;
      }
      auto copy = read_only_copy(layer);
      if (!copy) return fail(std::move(copy).error());
      known_.emplace(std::pair(status.st_dev, status.st_ino), copy->get());
      copies.push_back(copy->get());
      folders_.push_back(*std::move(copy));
    }
    return copies;
  }
  const std::vector<UniqueFd>& folders() const { return folders_; }

 private:
  std::map<std::pair<dev_t, ino_t>, int> known_;
  std::vector<UniqueFd> folders_;
};

Result<void> run(const DiffJob& job, AnswerPipe& answer) {
  LayerTable table;
  DiffTask task{.paths = job.paths, .text = job.text, .settled_ns = job.settled_ns};
  auto before = table.add_tree(job.before);
  if (!before) return fail(std::move(before).error());
  auto after = table.add_tree(job.after);
  if (!after) return fail(std::move(after).error());
  task.before = *before;
  task.after = *after;
  const auto end = diff(table, task, [&](const DiffEntry& entry) { answer.write(encode(entry)); });
  if (!end) return fail(end.error());
  answer.write(encode(*end));
  return {};
}

Result<void> run(const MergeJob& job, AnswerPipe& answer) {
  LayerTable table;
  MergeTask task{.on_conflict = job.on_conflict, .settled_ns = job.settled_ns};
  for (const auto& [tree, list] :
       {std::pair{&job.base, &task.base}, {&job.ours, &task.ours}, {&job.theirs, &task.theirs}}) {
    auto added = table.add_tree(*tree);
    if (!added) return fail(std::move(added).error());
    *list = *added;
  }
  const auto plan = plan_merge(table, task);
  if (!plan) return fail(plan.error());
  answer.write(encode(plan->report));
  if (!plan->report.applies) return {};
  return write_operations(table, *plan, [&](std::string_view bytes) { answer.write(bytes); });
}

// The same job with the copies of its layers.
Result<Job> with_copies(const Job& job, Copies& copies) {
  Job copied = job;
  std::vector<Tree*> trees;
  if (auto* diff = std::get_if<DiffJob>(&copied)) trees = {&diff->before, &diff->after};
  if (auto* merge = std::get_if<MergeJob>(&copied)) trees = {&merge->base, &merge->ours, &merge->theirs};
  for (Tree* tree : trees) {
    auto of_copies = copies.add(*tree);
    if (!of_copies) return fail(std::move(of_copies).error());
    *tree = *std::move(of_copies);
  }
  return copied;
}

Result<void> check(const Job& job) {
  const auto is_tree = [](const Tree& tree) { return !tree.empty() && tree.size() <= kMostLayersOfTree; };
  bool passable = false;
  if (const auto* diff = std::get_if<DiffJob>(&job)) {
    const auto roots = roots_of(diff->paths);
    if (!roots) return fail(roots.error());
    passable = is_tree(diff->before) && is_tree(diff->after);
  } else {
    const auto& merge = std::get<MergeJob>(job);
    passable = is_tree(merge.base) && is_tree(merge.ours) && is_tree(merge.theirs);
  }
  if (!passable) return fail(ErrorKind::kInvalid, "a tree of no layers, or of too many");
  return {};
}

[[noreturn]] void work(const Job& job, int fd, pid_t parent, const ReadingFilter& filter) {
  ::prctl(PR_SET_NAME, "warren-changes");
  AnswerPipe answer(fd);
  const auto outcome = [&]() -> Result<void> {
    try {
      Copies copies;
      const auto copied = with_copies(job, copies);
      if (!copied) return fail(copied.error());
      WARREN_TRY(confine(copies.folders(), fd, parent, filter));
      return std::visit([&](const auto& each) { return run(each, answer); }, *copied);
    } catch (const std::bad_alloc&) {
      return fail(ErrorKind::kTooLarge, "there is more to look at than fits into memory");
    }
  }();
  if (!outcome) answer.write(encode_failure(outcome.error()));
  answer.flush();
  ::_exit(0);
}

}  // namespace

Result<Workers> Workers::prepare() {
  // Here, because it takes five milliseconds, and files that a worker cannot reach.
  WARREN_TRY(prepare_text());
  auto filter = ReadingFilter::compile();
  if (!filter) return fail(std::move(filter).error());
  return Workers(*std::move(filter));
}

Result<Worker> Workers::start(const Job& job) const {
  WARREN_TRY(check(job));
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) < 0) return fail_errno("pipe2");
  UniqueFd reading(ends[0]);
  const UniqueFd writing(ends[1]);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return fail_errno("fork");
  if (pid == 0) work(job, writing.get(), parent, filter_);
  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd) {
    const auto failed = fail_errno("pidfd_open");
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    return failed;
  }
  return Worker{.pid = pid, .pidfd = std::move(pidfd), .answer = std::move(reading)};
}

}  // namespace warren::changes
