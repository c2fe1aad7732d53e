#include "runtime/session.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/this_coro.hpp>
#include <utility>

#include "base/log.h"

namespace warren::runtime {
namespace {

namespace asio = boost::asio;

struct Outcome {
  Result<Answer> answer;
  std::vector<UniqueFd> descriptors;
};

Outcome done(Result<void> result) {
  if (!result) return {.answer = fail(std::move(result.error())), .descriptors = {}};
  return {.answer = Answer{}, .descriptors = {}};
}

Outcome with_descriptor(Result<UniqueFd> descriptor) {
  if (!descriptor) return done(fail(std::move(descriptor.error())));
  Outcome outcome{.answer = Answer{}, .descriptors = {}};
  outcome.descriptors.push_back(std::move(*descriptor));
  return outcome;
}

// Lives for as long as the task that it has given out.
struct Caller {
  Shared& shared;

  Task<Outcome> operator()(CreateCall call) const {
    auto created = co_await shared.driver.create(std::move(call.spec));
    co_return done(std::move(created));
  }

  Task<Outcome> operator()(ForkCall call) const {
    auto forked = co_await shared.driver.fork(std::move(call.parent), std::move(call.children));
    co_return done(std::move(forked));
  }

  Task<Outcome> operator()(ReplaceCall call) const {
    auto replaced = shared.driver.replace(call.id, call.winner);
    if (replaced) shared.exits.erase(call.id);
    if (replaced) shared.exits.erase(call.winner);
    co_return done(std::move(replaced));
  }

  Task<Outcome> operator()(ConnectCall call) const {
    co_return with_descriptor(shared.driver.connect(call.id));
  }

  Task<Outcome> operator()(CompareCall call) const {
    co_return with_descriptor(shared.driver.compare(call.spec));
  }

  Task<Outcome> operator()(PlanMergeCall call) const {
    co_return with_descriptor(shared.driver.plan_merge(call.spec));
  }

  Task<Outcome> operator()(DestroyCall call) const {
    const std::string id = call.id;
    auto destroyed = co_await shared.driver.destroy(std::move(call.id));
    if (destroyed) shared.exits.erase(id);
    co_return done(std::move(destroyed));
  }

  Task<Outcome> operator()(SetEgressCall call) const {
    co_return done(shared.driver.set_egress(call.id, call.policy));
  }

  Task<Outcome> operator()(EgressCall call) const {
    auto report = shared.driver.egress(call.id);
    if (!report) co_return done(fail(std::move(report.error())));
    Outcome outcome{.answer = Answer(std::move(*report)), .descriptors = {}};
    co_return outcome;
  }

  Task<Outcome> operator()(UsageCall call) const {
    auto usage = shared.driver.usage(call.id);
    if (!usage) co_return done(fail(std::move(usage.error())));
    Outcome outcome{.answer = Answer(*usage), .descriptors = {}};
    co_return outcome;
  }

  Task<Outcome> operator()(StockCall) const {
    Outcome outcome{.answer = Answer(shared.driver.stock()), .descriptors = {}};
    co_return outcome;
  }

  Task<Outcome> operator()(DropStockCall call) const {
    shared.driver.drop_stock(call.account);
    co_return done(Result<void>{});
  }

  Task<Outcome> operator()(TemplatesCall) const {
    Outcome outcome{.answer = Answer(shared.templates()), .descriptors = {}};
    co_return outcome;
  }
};

// The sandboxes that the call makes.
std::vector<std::string> made_by(const Call& call) {
  std::vector<std::string> ids;
  if (const auto* create = std::get_if<CreateCall>(&call)) ids.push_back(create->spec.id);
  if (const auto* fork = std::get_if<ForkCall>(&call))
    for (const auto& child : fork->children) ids.push_back(child.id);
  return ids;
}

std::string encode_reply(std::uint64_t number, Result<Answer> answer) {
  auto bytes = encode(FromRuntime(Reply{.number = number, .outcome = std::move(answer)}));
  if (bytes.size() <= kMaxPacket) return bytes;
  log::error("an answer of {} bytes does not fit", bytes.size());
  return encode(
      FromRuntime(Reply{.number = number, .outcome = fail(ErrorKind::kTooLarge, "the answer is too long")}));
}

}  // namespace

Task<void> Session::run(std::shared_ptr<Session> self) {
  const Executor executor = co_await asio::this_coro::executor;
  self->introduce();
  while (true) {
    const auto packet = co_await self->socket_->receive(kMaxPacket);
    if (!packet) {
      if (packet.error().kind() != ErrorKind::kUnavailable)
        log::warn("the server's connection ends: {}", packet.error().message());
      break;
    }
    // Nobody has a reason to send the runtime a descriptor; `packet` closes it.
    auto request = parse_request(packet->bytes);
    if (!request || !packet->descriptors.empty()) {
      log::warn("the server sent what it should not: {}",
                request ? "a descriptor" : request.error().message());
      break;
    }
    if (self->pending_ >= kMostPending) {
      log::warn("the server waits for {} answers: its connection ends", self->pending_);
      break;
    }
    ++self->pending_;
    asio::co_spawn(executor, serve(self, std::move(*request)), asio::detached);
  }
  self->close();
}

void Session::introduce() {
  const auto ids = shared_.driver.sandboxes();
  for (std::size_t first = 0; first < ids.size(); first += kIdsPerPacket) {
    const auto last = std::min(first + kIdsPerPacket, ids.size());
    socket_->send(encode(FromRuntime(Known{.ids = {ids.begin() + static_cast<std::ptrdiff_t>(first),
                                                   ids.begin() + static_cast<std::ptrdiff_t>(last)}})));
  }
  socket_->send(encode(FromRuntime(Ready{.capabilities = shared_.driver.capabilities()})));
  for (const auto& [id, exit] : shared_.exits) tell(exit);
}

void Session::tell(const Exit& exit) { socket_->send(encode(FromRuntime(exit))); }

Task<void> Session::serve(std::shared_ptr<Session> self, Request request) {
  const Caller caller{self->shared_};
  std::vector<std::string> created = made_by(request.call);
  auto task = std::visit([&caller](auto&& call) { return caller(std::forward<decltype(call)>(call)); },
                         std::move(request.call));
  auto outcome = co_await std::move(task);
  if (!outcome.answer && outcome.answer.error().kind() == ErrorKind::kInternal)
    log::error("{}", outcome.answer.error().message());
  if (!outcome.answer) created.clear();
  auto bytes = encode_reply(request.number, std::move(outcome.answer));
  self->socket_->send(std::move(bytes), std::move(outcome.descriptors));
  --self->pending_;
  // A server that comes later was told of what there was then, without this one.
  if (self->socket_->is_open()) co_return;
  for (const auto& id : created) {
    log::info("sandbox {}: its creator went away before it was there, ended", id);
    const auto ended = co_await self->shared_.driver.destroy(id);
    if (!ended) log::warn("{}", ended.error().message());
  }
}

}  // namespace warren::runtime
