// What differs in the files of two sandboxes, and the merging of the one's into the other. The
// runtime has the files read by a child without rights, whose answer comes through a pipe;
// what a merge changes is sent on to the parent's agent, which does it inside.
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <functional>
#include <memory>
#include <utility>

#include "base/log.h"
#include "base/utf8.h"
#include "changes/answer.h"
#include "runtime/messages.h"
#include "service/call_rules.h"
#include "service/lifecycle.h"

namespace warren::service {
namespace {

namespace asio = boost::asio;

constexpr std::size_t kPiece = std::size_t{64} * 1024;
// How often a merge begins anew whose parent has changed meanwhile.
constexpr int kAttempts = 3;

// An account has few places for comparisons, and one that has answered keeps its own for a
// moment more.
constexpr Millis kBetween{25};
constexpr int kMostWaits = 120;

// Asks the runtime for a comparison until there is a place for it.
Task<Result<UniqueFd>> when_there_is_a_place(std::function<Task<Result<UniqueFd>>()> ask) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  for (int waited = 0;; ++waited) {
    auto asked = ask();
    auto descriptor = co_await std::move(asked);
    if (descriptor || descriptor.error().kind() != ErrorKind::kLimited || waited == kMostWaits)
      co_return descriptor;
    timer.expires_after(kBetween);
    co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
  }
}

class Answer {
 public:
  Answer(const Executor& executor, UniqueFd descriptor) : descriptor_(executor, descriptor.release()) {}

  // The next bytes; none at the end.
  static Task<Result<std::string>> read(std::shared_ptr<Answer> self) {
    if (!self->rest_.empty()) co_return std::exchange(self->rest_, {});
    std::string piece(kPiece, '\0');
    const auto [error, count] =
        co_await self->descriptor_.async_read_some(asio::buffer(piece), asio::as_tuple(asio::use_awaitable));
    if (error == asio::error::eof) co_return std::string();
    if (error) co_return fail(ErrorKind::kUnavailable, "the comparison was cut short: " + error.message());
    piece.resize(count);
    co_return piece;
  }
  // What is to be read again.
  void put_back(std::string_view bytes) { rest_ = bytes; }

 private:
  asio::posix::stream_descriptor descriptor_;
  std::string rest_;
};

Result<std::vector<std::string>> paths_of(const DiffSpec& spec) {
  std::vector<std::string> paths;
  std::size_t bytes = 0;
  for (const auto& each : spec.paths) {
    auto path = absolute_path("paths", each);
    if (!path) return fail(std::move(path).error());
    if (!is_utf8(*path)) return fail(ErrorKind::kInvalid, "paths: expected UTF-8");
    bytes += path->size();
    paths.push_back(std::move(*path));
  }
  if (paths.size() > runtime::kMostPaths || bytes > runtime::kMostPathBytes)
    return fail(ErrorKind::kTooLarge, "paths: too many, or too long");
  if (paths.empty()) paths = {"/root", "/tmp"};
  return paths;
}

changes::OnConflict way_with_conflicts(std::string_view name) {
  if (name == "ours") return changes::OnConflict::kOurs;
  return name == "theirs" ? changes::OnConflict::kTheirs : changes::OnConflict::kFail;
}

}  // namespace

Task<Result<changes::Diff>> Lifecycle::diff(Admitted one, Admitted other, DiffSpec spec) {
  auto paths = paths_of(spec);
  if (!paths) co_return fail(std::move(paths).error());
  runtime::CompareSpec compare;
  compare.id = one.sandbox->info.id;
  compare.other = other.sandbox->info.id;
  compare.paths = std::move(*paths);
  compare.text = spec.with_text ? changes::WithText::kYes : changes::WithText::kNo;
  const auto runtime = runtime_;
  auto begun = when_there_is_a_place([runtime, compare] { return runtime->compare(compare); });
  auto descriptor = co_await std::move(begun);
  if (!descriptor) co_return fail(std::move(descriptor).error());
  const auto answer = std::make_shared<Answer>(executor_, std::move(*descriptor));
  changes::DiffAnswer decoder;
  while (true) {
    const auto piece = co_await Answer::read(answer);
    if (!piece) co_return fail(piece.error());
    if (piece->empty()) break;
    WARREN_TRY_CO(decoder.feed(*piece));
  }
  co_return std::move(decoder).finish();
}

Task<Result<Merged>> Lifecycle::merge_files(Admitted parent, Admitted winner, std::string on_conflict) {
  const auto self = shared_from_this();
  runtime::MergeSpec spec;
  spec.id = parent.sandbox->info.id;
  spec.winner = winner.sandbox->info.id;
  spec.on_conflict = way_with_conflicts(on_conflict);
  for (int attempt = 1;; ++attempt) {
    auto attempted = try_merge_files(parent.sandbox, spec);
    auto merged = co_await std::move(attempted);
    // Something has changed under its hands.
    const bool again = !merged && merged.error().kind() == ErrorKind::kConflict && attempt < kAttempts &&
                       parent.sandbox->is_alive();
    if (again) continue;
    if (!merged) co_return merged;
    if (const auto& report = merged->report; report && report->applies)
      log::info("sandbox {}: files of {} merged into it", spec.id, spec.winner);
    co_return merged;
  }
}

Task<Result<Merged>> Lifecycle::try_merge_files(std::shared_ptr<LiveSandbox> parent,
                                                runtime::MergeSpec spec) {
  const auto runtime = runtime_;
  auto begun = when_there_is_a_place([runtime, spec] { return runtime->plan_merge(spec); });
  auto descriptor = co_await std::move(begun);
  if (!descriptor) co_return fail(std::move(descriptor).error());
  const auto answer = std::make_shared<Answer>(executor_, std::move(*descriptor));
  changes::MergeAnswer decoder;
  while (!decoder.report()) {
    const auto piece = co_await Answer::read(answer);
    if (!piece) co_return fail(piece.error());
    if (piece->empty()) co_return fail(ErrorKind::kUnavailable, "the comparison was cut short");
    std::string_view bytes = *piece;
    WARREN_TRY_CO(decoder.feed(bytes));
    answer->put_back(bytes);
  }
  Merged merged;
  merged.sandbox = parent->info;
  merged.report = decoder.report();
  if (!merged.report || !merged.report->applies || merged.report->operations == 0) co_return merged;
  auto agent = co_await links_->get(parent);
  if (!agent) co_return fail(std::move(agent).error());
  runtime::ByteSource operations = [answer] { return Answer::read(answer); };
  auto applied = co_await (*agent)->apply(std::move(operations));
  if (!applied) co_return fail(std::move(applied).error());
  co_return merged;
}

}  // namespace warren::service
