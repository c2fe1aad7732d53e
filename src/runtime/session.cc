#include "runtime/session.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace warren::runtime {
namespace {

struct Outcome {
  Result<Answer> answer;
  std::vector<UniqueFd> descriptors;
};

Outcome done(Result<void> result) {
  if (!result) return {.answer = fail(std::move(result.error())), .descriptors = {}};
  return {.answer = Answer{}, .descriptors = {}};
}

struct Caller {
  Shared& shared;

  Outcome operator()(const CreateCall& call) const { return done(shared.driver.create(call.spec)); }

  Outcome operator()(const ConnectCall& call) const {
    auto connection = shared.driver.connect(call.id);
    if (!connection) return {.answer = fail(std::move(connection.error())), .descriptors = {}};
    Outcome outcome{.answer = Answer{}, .descriptors = {}};
    outcome.descriptors.push_back(std::move(*connection));
    return outcome;
  }

  Outcome operator()(const DestroyCall& call) const {
    auto result = shared.driver.destroy(call.id);
    if (result) shared.exits.erase(call.id);
    return done(std::move(result));
  }

  Outcome operator()(const UsageCall& call) const {
    auto usage = shared.driver.usage(call.id);
    if (!usage) return {.answer = fail(std::move(usage.error())), .descriptors = {}};
    return {.answer = *usage, .descriptors = {}};
  }

  Outcome operator()(const TemplatesCall&) const { return {.answer = shared.templates(), .descriptors = {}}; }
};

}  // namespace

Task<void> Session::run(std::shared_ptr<Session> self) {
  self->introduce();
  while (true) {
    const auto packet = co_await self->socket_->receive(kMaxPacket);
    if (!packet) {
      if (packet.error().kind() != ErrorKind::kUnavailable)
        log::warn("the server's connection ends: {}", packet.error().message());
      break;
    }
    // Nobody has a reason to send the runtime a descriptor; `packet` closes it.
    const auto request = parse_request(packet->bytes);
    if (!request || !packet->descriptors.empty()) {
      log::warn("the server sent what it should not: {}",
                request ? "a descriptor" : request.error().message());
      break;
    }
    self->serve(*request);
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

void Session::serve(const Request& request) {
  auto outcome = std::visit(Caller{shared_}, request.call);
  if (!outcome.answer && outcome.answer.error().kind() == ErrorKind::kInternal)
    log::error("{}", outcome.answer.error().message());
  auto bytes = encode(FromRuntime(Reply{.number = request.number, .outcome = std::move(outcome.answer)}));
  if (bytes.size() > kMaxPacket) {
    log::error("an answer of {} bytes does not fit", bytes.size());
    bytes = encode(FromRuntime(
        Reply{.number = request.number, .outcome = fail(ErrorKind::kTooLarge, "the answer is too long")}));
  }
  socket_->send(std::move(bytes), std::move(outcome.descriptors));
}

}  // namespace warren::runtime
