// How sandboxes are copied, and how one takes another's place.
#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "base/ids.h"
#include "base/log.h"
#include "base/utf8.h"
#include "service/lifecycle.h"

namespace warren::service {
namespace {

namespace json = boost::json;

constexpr std::int64_t kMostChildren = runtime::kMostChildren;
// Past every limit that the steps of a fork have themselves, and the longest call that it
// may have to wait for.
constexpr Millis kLongest = std::chrono::hours(6);

// What an answer carries of what was not copied: the agent is as hostile as what runs in
// its sandbox.
constexpr std::size_t kMostNamed = 100;
constexpr std::size_t kLongestName = 400;

json::array names_of(const json::array& said) {
  json::array names;
  for (const json::value& each : said) {
    if (!each.is_string()) continue;
    if (names.size() == kMostNamed) {
      names.emplace_back(fmt::format("and {} more", said.size() - kMostNamed));
      break;
    }
    const std::string_view whole = each.get_string();
    std::string name(utf8_prefix(whole, kLongestName));
    if (name.size() < whole.size()) name += "…";
    names.emplace_back(std::move(name));
  }
  return names;
}

json::object not_copied_of(const json::object& close) {
  json::object left;
  const json::value* said = close.if_contains("not_copied");
  if (said == nullptr || !said->is_object()) return left;
  const json::value* threads = said->get_object().if_contains("threads");
  if (threads != nullptr && threads->is_int64() && threads->get_int64() > 0) left["threads"] = *threads;
  for (const std::string_view kind : {"processes", "descriptors"}) {
    const json::value* named = said->get_object().if_contains(kind);
    if (named == nullptr || !named->is_array()) continue;
    json::array names = names_of(named->get_array());
    if (!names.empty()) left[kind] = std::move(names);
  }
  return left;
}

// While a sandbox is being forked.
class Turn {
 public:
  explicit Turn(LiveSandbox& sandbox) : sandbox_(sandbox) { sandbox_.forking = std::make_shared<Signal>(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() { std::exchange(sandbox_.forking, nullptr)->set(); }

 private:
  LiveSandbox& sandbox_;
};

bool has(const json::object& notice, std::string_view name) { return notice.if_contains(name) != nullptr; }

// Waits until the agent holds the session at the point before its fork.
Task<Result<void>> until_held(std::shared_ptr<runtime::AgentStream> stream) {
  while (true) {
    auto event = co_await stream->next();
    if (!event) co_return fail(std::move(event).error());
    const auto* notice = std::get_if<runtime::StreamNotice>(&*event);
    if (notice != nullptr && has(notice->value, "holding")) co_return Result<void>();
    if (std::holds_alternative<runtime::StreamClose>(*event))
      co_return fail(ErrorKind::kUnavailable, "the sandbox's agent does not fork");
  }
}

// What the agent says when the session has been forked.
Task<Result<json::object>> until_forked(std::shared_ptr<runtime::AgentStream> stream) {
  while (true) {
    auto event = co_await stream->next();
    if (!event) co_return fail(std::move(event).error());
    auto* close = std::get_if<runtime::StreamClose>(&*event);
    if (close == nullptr) continue;
    co_return not_copied_of(close->value);
  }
}

}  // namespace

// A fork and the client that waits for it, which may go away meanwhile.
struct Lifecycle::ForkOrder {
  explicit ForkOrder(const Executor& executor) : patience(executor) {}
  ForkSpec spec;
  std::vector<std::shared_ptr<LiveSandbox>> children;
  // The parent's session: held for the fork, then until it goes on after it.
  std::shared_ptr<runtime::AgentStream> held;
  bool too_long = false;  // it did not go on after that
  boost::asio::steady_timer patience;
  std::shared_ptr<Signal> done = std::make_shared<Signal>();
  Result<Forked> answer = fail(ErrorKind::kCancelled, "the caller withdrew");
  bool taken = false;
  bool withdrawn = false;
  bool begun = false;  // the runtime has been asked, and comes to the session: it must be held till then
};

void Lifecycle::give_up(const std::shared_ptr<LiveSandbox>& parent, const std::shared_ptr<ForkOrder>& order) {
  if (!order->held) return;
  order->held->cancel();
  order->patience.expires_after(parts_.hang_grace);
  order->patience.async_wait([links = links_, parent, order](const boost::system::error_code& error) {
    if (!error && order->held) links->drop(*parent);
  });
}

Task<Result<Forked>> Lifecycle::fork(Admitted parent, ForkSpec spec) {
  if (spec.children < 1 || spec.children > kMostChildren)
    co_return fail(ErrorKind::kInvalid,
                   fmt::format("n: expected 1 to {}, got {}", kMostChildren, spec.children));
  if (!loaded_ || !runtime_->connected())
    co_return fail(ErrorKind::kUnavailable, "the runtime is away: try again in a moment");
  const SandboxInfo& from = parent.sandbox->info;
  WARREN_TRY_CO(check_room(from.account_id, static_cast<std::size_t>(spec.children)));

  auto order = std::make_shared<ForkOrder>(executor_);
  order->spec = spec;
  for (std::int64_t i = 0; i < spec.children; ++i) {
    auto child = std::make_shared<LiveSandbox>();
    child->info = from;
    child->info.id = new_sandbox_id();
    // A name means one sandbox to people.
    child->info.name.clear();
    sandboxes_[child->info.id] = child;
    count_in(from.account_id);
    order->children.push_back(std::move(child));
  }
  const auto sandbox = parent.sandbox;
  run_alone(executor_, run_fork(std::move(parent), order));
  const bool done = co_await order->done->wait(kLongest);
  const auto cancelled = (co_await boost::asio::this_coro::cancellation_state).cancelled();
  if (!done || cancelled != boost::asio::cancellation_type::none) {
    order->withdrawn = true;
    if (!order->begun) give_up(sandbox, order);
    co_return fail(ErrorKind::kCancelled, "the caller withdrew");
  }
  order->taken = true;
  co_return std::move(order->answer);
}

// Runs to its end even if the client is gone, and then undoes what nobody took.
Task<void> Lifecycle::run_fork(Admitted parent, std::shared_ptr<ForkOrder> order) {
  const auto self = shared_from_this();
  const std::string parent_id = parent.sandbox->info.id;
  auto made = co_await make_children(parent, order);
  parent.lease.end();
  if (made) {
    for (const auto& child : order->children) hand_over(child);
    order->answer = std::move(made);
    order->done->set();
    // As in build(): who has not taken the answer by then is gone.
    co_await boost::asio::post(executor_, boost::asio::use_awaitable);
    co_await boost::asio::post(executor_, boost::asio::use_awaitable);
    if (order->taken) {
      log::info("sandbox {}: forked into {}", parent_id, order->children.size());
      co_return;
    }
  } else {
    order->answer = fail(std::move(made).error());
  }
  for (const auto& child : order->children)
    if (child->phase != LiveSandbox::Phase::kGone) co_await unmake(child);
  order->done->set();
}

Task<Result<Forked>> Lifecycle::make_children(Admitted& parent, const std::shared_ptr<ForkOrder>& order) {
  auto left = co_await copy(parent, order);
  order->held.reset();
  order->patience.cancel();
  if (!left) co_return fail(std::move(left).error());
  for (const auto& child : order->children) {
    auto agent = co_await links_->get(child);
    if (!agent) co_return fail(ErrorKind::kUnavailable, "a child did not start: " + agent.error().message());
  }
  Forked forked;
  forked.not_copied = std::move(*left);
  const SandboxInfo& from = parent.sandbox->info;
  // It may have been changed since the children were thought of.
  const runtime::EgressPolicy egress = from.egress;
  for (const auto& child : order->children) {
    if (child->info.egress == egress) continue;
    const auto runtime = runtime_;
    auto changing = runtime->set_egress(child->info.id, egress);
    WARREN_TRY_CO(co_await std::move(changing));
    child->info.egress = egress;
  }
  const auto life = from.expires_at - from.created_at;
  for (const auto& child : order->children) {
    child->info.created_at = parts_.time->wall();
    child->info.expires_at = child->info.created_at + life;
    child->last_call = parts_.time->now();
    child->expires = child->last_call + std::chrono::duration_cast<Millis>(life);
    forked.children.push_back(child->info);
  }
  WARREN_TRY_CO(promise(order->children));
  co_return forked;
}

// Copies the parent's machine, whose agent holds its session meanwhile. Answers what was
// not copied.
Task<Result<json::object>> Lifecycle::copy(Admitted& parent, std::shared_ptr<ForkOrder> order) {
  json::object request;
  request["op"] = "fork";
  request["keep_random"] = order->spec.keep_random;
  const auto sandbox = parent.sandbox;
  // The agent has a queue too, but lets the next one in when the session has forked, which is
  // before the children are made.
  while (const auto other = sandbox->forking) co_await other->wait(kLongest);
  if (order->withdrawn) co_return fail(ErrorKind::kCancelled, "the caller withdrew");
  const Turn turn(*sandbox);
  auto stream = co_await links_->open(sandbox, std::move(request));
  if (!stream) co_return fail(std::move(stream).error());
  order->held = *stream;
  if (order->withdrawn) give_up(sandbox, order);
  auto held = co_await until_held(*stream);
  if (!held) co_return fail(co_await explain(sandbox, links_, std::move(held).error()));
  std::vector<runtime::SandboxSpec> machines;
  for (const auto& child : order->children) machines.push_back(machine_of(child->info));
  const auto runtime = runtime_;
  if (order->withdrawn) co_return fail(ErrorKind::kCancelled, "the caller withdrew");
  order->begun = true;
  auto copied = co_await runtime->fork(sandbox->info.id, std::move(machines));
  // The agent is told by the end of the stream to let the session stay.
  if (!copied) co_return fail(std::move(copied).error());
  // All at once and meanwhile, so that no child waits for another's agent.
  for (const auto& child : order->children) links_->reach(child);
  // What holds the session up from here on is what its user has it do after a fork.
  order->patience.expires_after(parts_.call_limit);
  order->patience.async_wait(
      [this, self = shared_from_this(), sandbox, order](const boost::system::error_code& error) {
        if (error || !order->held) return;
        order->too_long = true;
        give_up(sandbox, order);
      });
  auto left = co_await until_forked(*stream);
  if (left) co_return left;
  if (order->too_long)
    co_return fail(
        ErrorKind::kTimeout,
        "what the Python session does after a fork (os.register_at_fork) took too long, and it was ended");
  co_return fail(co_await explain(sandbox, links_, std::move(left).error()));
}

Task<Result<Merged>> Lifecycle::merge(Admitted parent, Admitted winner, MergeSpec spec) {
  const std::string mode = spec.mode.value_or("replace");
  if (mode != "replace" && mode != "files")
    co_return fail(ErrorKind::kInvalid, "mode: expected replace or files");
  if (spec.on_conflict && *spec.on_conflict != "fail" && *spec.on_conflict != "ours" &&
      *spec.on_conflict != "theirs")
    co_return fail(ErrorKind::kInvalid, "on_conflict: expected fail, ours or theirs");
  if (spec.on_conflict && mode != "files")
    co_return fail(ErrorKind::kInvalid, "on_conflict: means something with mode files only");
  if (parent.sandbox == winner.sandbox)
    co_return fail(ErrorKind::kInvalid, "winner_id: a sandbox cannot be merged into itself");
  if (parent.sandbox->info.template_name != winner.sandbox->info.template_name)
    co_return fail(ErrorKind::kConflict, "the two sandboxes are on different templates");
  if (mode == "files")
    co_return co_await to_its_end(
        executor_, merge_files(std::move(parent), std::move(winner), spec.on_conflict.value_or("fail")));
  co_return co_await to_its_end(executor_, replace(std::move(parent), std::move(winner)));
}

Task<Result<Merged>> Lifecycle::replace(Admitted parent, Admitted winner) {
  const auto self = shared_from_this();
  const auto sandbox = parent.sandbox;
  const auto from = winner.sandbox;
  const std::string winner_id = from->info.id;
  if (sandbox->merging || from->merging)
    co_return fail(ErrorKind::kConflict, "one of the two sandboxes is being merged already");
  // Calls that break meanwhile wait for what became of it.
  const auto decided = std::make_shared<Signal>();
  sandbox->merging = from->merging = decided;
  const auto runtime = runtime_;
  auto replaced = co_await runtime->replace(sandbox->info.id, winner_id);
  if (replaced) {
    // What runs on either ends: the one machine is gone, the other is not by this name there.
    sandbox->dropped_because =
        "another sandbox was merged into this one while the call ran, which has ended it";
    from->gone_because = fmt::format("the sandbox was merged into {} while the call ran, which has ended it",
                                     sandbox->info.id);
    sandbox->silent_attempts = 0;
    links_->drop(*sandbox);
  }
  sandbox->merging.reset();
  from->merging.reset();
  decided->set();
  if (!replaced) co_return fail(std::move(replaced).error());
  winner.lease.end();
  if (from->phase == LiveSandbox::Phase::kThere) take_away(from);
  if (const auto removed = rows_.remove(winner_id); !removed)
    log::error("sandbox {}: its row is left: {}", winner_id, removed.error().message());
  log::info("sandbox {}: replaced by {}", sandbox->info.id, winner_id);
  // So that the next call finds it ready; if not, that call says why.
  auto agent = co_await links_->get(sandbox);
  if (!agent && !sandbox->is_alive()) co_return fail(std::move(agent).error());
  Merged merged;
  merged.sandbox = sandbox->info;
  co_return merged;
}

}  // namespace warren::service
