#include "runtime/client.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <map>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "linux/packets.h"
#include "runtime/messages.h"
#include "runtime/packet_socket.h"

namespace warren::runtime {
namespace {

namespace asio = boost::asio;
constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);

constexpr Seconds kCallLimit{30};
constexpr Millis kFirstPause{20};
constexpr Millis kLongestPause{500};

struct Response {
  Answer answer;
  std::vector<UniqueFd> descriptors;
};

class RealClient final : public Client, public std::enable_shared_from_this<RealClient> {
 public:
  RealClient(Executor executor, std::string path, Events events)
      : executor_(std::move(executor)), path_(std::move(path)), events_(std::move(events)) {}

  // Connects for as long as somebody holds the client.
  static Task<void> keep_connected(std::weak_ptr<RealClient> weak, Executor executor) {
    Millis pause = kFirstPause;
    while (true) {
      if (const auto self = weak.lock()) {
        auto socket = linux_::connect_packets(self->path_);
        if (socket) {
          pause = kFirstPause;
          const auto connection = PacketSocket::adopt(executor, std::move(*socket));
          self->socket_ = connection;
        }
      }
      if (const auto connection = current(weak)) co_await converse(weak, connection);
      if (weak.expired()) co_return;
      asio::steady_timer timer(executor, pause);
      co_await timer.async_wait(kAwait);
      pause = std::min(pause * 2, kLongestPause);
    }
  }

  ~RealClient() override {
    if (socket_) socket_->close();
  }

  Task<Result<void>> create(SandboxSpec spec) override {
    const std::string id = spec.id;
    Call what = CreateCall{std::move(spec)};
    auto response = co_await call(std::move(what));
    if (response) co_return Result<void>{};
    // It may have been made all the same, and nobody would know of it.
    if (response.error().kind() == ErrorKind::kTimeout) forget(id);
    co_return fail(std::move(response.error()));
  }

  Task<Result<void>> fork(std::string parent, std::vector<SandboxSpec> children) override {
    std::vector<std::string> ids;
    ids.reserve(children.size());
    for (const auto& child : children) ids.push_back(child.id);
    Call what = ForkCall{.parent = std::move(parent), .children = std::move(children)};
    auto response = co_await call(std::move(what));
    if (response) co_return Result<void>{};
    if (response.error().kind() == ErrorKind::kTimeout)
      for (const auto& id : ids) forget(id);
    co_return fail(std::move(response.error()));
  }

  Task<Result<void>> replace(std::string id, std::string winner) override {
    Call what = ReplaceCall{.id = std::move(id), .winner = std::move(winner)};
    auto response = co_await call(std::move(what));
    if (!response) co_return fail(std::move(response.error()));
    co_return Result<void>{};
  }

  Task<Result<UniqueFd>> compare(CompareSpec spec) override {
    Call what = CompareCall{std::move(spec)};
    co_return co_await descriptor_of(std::move(what));
  }

  Task<Result<UniqueFd>> plan_merge(MergeSpec spec) override {
    Call what = PlanMergeCall{std::move(spec)};
    co_return co_await descriptor_of(std::move(what));
  }

  Task<Result<UniqueFd>> connect(std::string id) override {
    Call what = ConnectCall{std::move(id)};
    co_return co_await descriptor_of(std::move(what));
  }

  Task<Result<void>> destroy(std::string id) override {
    Call what = DestroyCall{std::move(id)};
    auto response = co_await call(std::move(what));
    if (!response) co_return fail(std::move(response.error()));
    co_return Result<void>{};
  }

  Task<Result<void>> set_egress(std::string id, EgressPolicy policy) override {
    Call what = SetEgressCall{.id = std::move(id), .policy = std::move(policy)};
    auto response = co_await call(std::move(what));
    if (!response) co_return fail(std::move(response.error()));
    co_return Result<void>{};
  }

  Task<Result<EgressReport>> egress(std::string id) override {
    Call what = EgressCall{std::move(id)};
    auto response = co_await call(std::move(what));
    if (!response) co_return fail(std::move(response.error()));
    auto* report = std::get_if<EgressReport>(&response->answer);
    if (!report) co_return fail(ErrorKind::kInternal, "the runtime answered another question");
    co_return std::move(*report);
  }

  Task<Result<Usage>> usage(std::string id) override {
    Call what = UsageCall{std::move(id)};
    auto response = co_await call(std::move(what));
    if (!response) co_return fail(std::move(response.error()));
    const auto* usage = std::get_if<Usage>(&response->answer);
    if (!usage) co_return fail(ErrorKind::kInternal, "the runtime answered another question");
    co_return *usage;
  }

  Task<Result<std::vector<TemplateInfo>>> templates() override {
    Call what = TemplatesCall{};
    auto response = co_await call(std::move(what));
    if (!response) co_return fail(std::move(response.error()));
    auto* list = std::get_if<std::vector<TemplateInfo>>(&response->answer);
    if (!list) co_return fail(ErrorKind::kInternal, "the runtime answered another question");
    co_return std::move(*list);
  }

  Task<Result<StockInfo>> stock() override {
    Call what = StockCall{};
    auto response = co_await call(std::move(what));
    if (!response) co_return fail(std::move(response.error()));
    const auto* info = std::get_if<StockInfo>(&response->answer);
    if (!info) co_return fail(ErrorKind::kInternal, "the runtime answered another question");
    co_return *info;
  }

  Task<Result<void>> drop_stock(std::string account) override {
    Call what = DropStockCall{.account = std::move(account)};
    auto response = co_await call(std::move(what));
    if (!response) co_return fail(std::move(response.error()));
    co_return Result<void>{};
  }

  const Capabilities& capabilities() const override { return capabilities_; }
  bool connected() const override { return ready_; }

 private:
  // A call that waits for its reply; the timer is its deadline and its alarm clock.
  struct Pending {
    explicit Pending(const Executor& executor) : timer(executor, kCallLimit) {}
    asio::steady_timer timer;
    std::optional<Result<Response>> outcome;
  };

  static std::shared_ptr<PacketSocket> current(const std::weak_ptr<RealClient>& weak) {
    const auto self = weak.lock();
    return self ? self->socket_ : nullptr;
  }

  // Takes what comes on one connection until it ends. Holds the client only while it
  // handles a packet, so that dropping the client ends this.
  static Task<void> converse(std::weak_ptr<RealClient> weak, std::shared_ptr<PacketSocket> connection) {
    while (true) {
      auto packet = co_await connection->receive(kMaxPacket);
      const auto self = weak.lock();
      if (!self) co_return;
      Result<void> taken = packet ? self->take(std::move(*packet)) : fail(std::move(packet.error()));
      if (taken) continue;
      if (taken.error().kind() != ErrorKind::kUnavailable)
        log::error("the runtime's connection ends: {}", taken.error().message());
      connection->close();
      self->lose();
      co_return;
    }
  }

  // `what` must be a named object: GCC 12 mishandles temporaries in a co_await.
  Task<Result<Response>> call(Call what) {
    const auto self = shared_from_this();
    if (!ready_) co_return fail(ErrorKind::kUnavailable, "the runtime is away; try again");
    const std::uint64_t number = ++last_number_;
    const auto pending = std::make_shared<Pending>(executor_);
    pending_.emplace(number, pending);
    socket_->send(encode(Request{.number = number, .call = std::move(what)}));
    co_await pending->timer.async_wait(kAwait);
    pending_.erase(number);
    auto& outcome = pending->outcome;
    if (!outcome) co_return fail(ErrorKind::kTimeout, "the runtime did not answer in time");
    co_return std::move(*outcome);
  }

  // The descriptor that comes with the answer.
  Task<Result<UniqueFd>> descriptor_of(Call what) {
    auto response = co_await call(std::move(what));
    if (!response) co_return fail(std::move(response.error()));
    if (response->descriptors.size() != 1)
      co_return fail(ErrorKind::kInternal, "the runtime sent no descriptor");
    co_return std::move(response->descriptors.front());
  }

  void settle(std::uint64_t number, Result<Response> outcome) {
    const auto found = pending_.find(number);
    // An answer that came too late; its descriptors close here.
    if (found == pending_.end()) return;
    found->second->outcome = std::move(outcome);
    found->second->timer.cancel();
  }

  Result<void> take(linux_::Packet packet) {
    auto message = parse_from_runtime(packet.bytes);
    if (!message) return fail(std::move(message.error()));
    if (auto* reply = std::get_if<Reply>(&*message)) {
      if (reply->outcome)
        settle(reply->number,
               Response{.answer = std::move(*reply->outcome), .descriptors = std::move(packet.descriptors)});
      else
        settle(reply->number, fail(std::move(reply->outcome.error())));
    } else if (auto* known = std::get_if<Known>(&*message)) {
      std::ranges::move(known->ids, std::back_inserter(known_));
    } else if (auto* ready = std::get_if<Ready>(&*message)) {
      capabilities_ = std::move(ready->capabilities);
      ready_ = true;
      if (events_.on_connected) events_.on_connected(std::exchange(known_, {}));
    } else if (const auto* exit = std::get_if<Exit>(&*message)) {
      if (events_.on_exit) events_.on_exit(*exit);
    }
    return {};
  }

  void lose() {
    socket_.reset();
    known_.clear();
    const bool was_ready = std::exchange(ready_, false);
    for (const auto& [number, pending] : pending_) {
      pending->outcome = fail(ErrorKind::kUnavailable, "the runtime went away");
      pending->timer.cancel();
    }
    if (was_ready && events_.on_lost) events_.on_lost();
  }

  void forget(const std::string& id) {
    asio::co_spawn(
        executor_,
        [](std::shared_ptr<RealClient> self, std::string unwanted) -> Task<void> {
          const auto destroyed = co_await self->destroy(std::move(unwanted));
          if (!destroyed) log::debug("{}", destroyed.error().message());
        }(shared_from_this(), id),
        asio::detached);
  }

  Executor executor_;
  std::string path_;
  Events events_;
  std::shared_ptr<PacketSocket> socket_;
  Capabilities capabilities_;
  bool ready_ = false;
  std::vector<std::string> known_;
  std::uint64_t last_number_ = 0;
  std::map<std::uint64_t, std::shared_ptr<Pending>> pending_;
};

}  // namespace

std::shared_ptr<Client> Client::start(const Executor& executor, std::string path, Events events) {
  auto client = std::make_shared<RealClient>(executor, std::move(path), std::move(events));
  asio::co_spawn(executor, RealClient::keep_connected(client, executor), asio::detached);
  return client;
}

}  // namespace warren::runtime
