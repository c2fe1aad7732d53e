// A connection of the runtime's, over a driver that does things when the test says so.
#include "runtime/session.h"

#include <gmock/gmock.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <map>
#include <optional>

#include "base/ids.h"
#include "linux/packets.h"
#include "runtime/waiting.h"

namespace warren::runtime {
namespace {

namespace asio = boost::asio;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Each create and destroy of an id that is held waits until it is let go.
class SlowDriver final : public Driver {
 public:
  Capabilities capabilities() const override {
    return {.isolation = "slow", .fork_copies = "runner", .no_network = {}};
  }

  Task<Result<void>> create(SandboxSpec spec) override {
    begun.push_back("create " + spec.id);
    co_await held(spec.id);
    made.push_back(spec.id);
    co_return Result<void>{};
  }
  Task<Result<void>> fork(std::string parent, std::vector<SandboxSpec> children) override {
    begun.push_back("fork " + parent);
    co_await held(parent);
    for (const auto& child : children) made.push_back(child.id);
    co_return Result<void>{};
  }
  Result<void> replace(const std::string&, const std::string& winner) override {
    std::erase(made, winner);
    return {};
  }
  Result<UniqueFd> compare(const CompareSpec&) override { return fail(ErrorKind::kUnavailable, "not here"); }
  Result<UniqueFd> plan_merge(const MergeSpec&) override { return fail(ErrorKind::kUnavailable, "not here"); }
  Result<UniqueFd> connect(std::string_view) override {
    auto ends = linux_::socket_pair(linux_::SocketKind::kStream);
    if (!ends) return fail(ends.error());
    return std::move(ends->first);
  }
  Task<Result<void>> destroy(std::string id) override {
    begun.push_back("destroy " + id);
    co_await held(id);
    std::erase(made, id);
    co_return Result<void>{};
  }
  Result<void> freeze(std::string_view) override { return {}; }
  Result<void> thaw(std::string_view) override { return {}; }
  Result<void> set_egress(const std::string&, const EgressPolicy&) override { return {}; }
  Result<EgressReport> egress(const std::string&) override { return EgressReport{}; }
  Result<Usage> usage(std::string_view) override { return Usage{}; }
  StockInfo stock() const override { return {}; }
  void drop_stock(const std::string& account) override { begun.push_back("drop_stock " + account); }
  std::vector<std::string> sandboxes() const override { return made; }
  void on_exit(std::function<void(const Exit&)>) override {}

  void hold(const std::string& id) { events_[id] = std::make_shared<Event>(); }
  void let_go(const std::string& id) { events_.at(id)->set(); }

  std::vector<std::string> begun;
  std::vector<std::string> made;

 private:
  Task<void> held(std::string id) {
    const auto found = events_.find(id);
    if (found == events_.end()) co_return;
    const auto event = found->second;
    co_await event->wait(Clock::time_point::max());
  }

  std::map<std::string, std::shared_ptr<Event>> events_;
};

class SessionTest : public ::testing::Test {
 protected:
  void SetUp() override { server_ = connect(); }

  // The server's end of a new connection that has been greeted.
  UniqueFd connect() {
    auto ends = linux_::socket_pair(linux_::SocketKind::kPacket);
    EXPECT_TRUE(ends);
    const auto socket = PacketSocket::adopt(context_.get_executor(), std::move(ends->second));
    asio::co_spawn(context_, Session::run(std::make_shared<Session>(shared_, socket)), asio::detached);
    run();
    UniqueFd server = std::move(ends->first);
    known_.clear();
    while (const auto message = next_of(server.get()))
      if (const auto* known = std::get_if<Known>(&*message)) known_ = known->ids;
    return server;
  }

  // Until everybody waits for something.
  void run() {
    context_.restart();
    context_.poll();
  }

  void ask(std::uint64_t number, Call call) {
    ASSERT_TRUE(
        linux_::send_packet(server_.get(), encode(Request{.number = number, .call = std::move(call)})));
    run();
  }
  static CreateCall create(const std::string& id) {
    CreateCall call;
    call.spec.id = id;
    call.spec.account = "tester";
    call.spec.template_name = "default";
    return call;
  }

  static std::optional<FromRuntime> next_of(int socket) {
    const auto packet = linux_::receive_packet(socket, kMaxPacket);
    if (!packet || !*packet) return std::nullopt;
    auto message = parse_from_runtime((*packet)->bytes);
    EXPECT_TRUE(message);
    return std::move(*message);
  }
  // The numbers of the answers that have come.
  std::vector<std::uint64_t> answered() {
    std::vector<std::uint64_t> numbers;
    while (const auto message = next_of(server_.get()))
      if (const auto* reply = std::get_if<Reply>(&*message)) numbers.push_back(reply->number);
    return numbers;
  }

  asio::io_context context_{1};
  SlowDriver driver_;
  Shared shared_{.driver = driver_, .templates = [] { return std::vector<TemplateInfo>{}; }, .exits = {}};
  UniqueFd server_;
  std::vector<std::string> known_;
};

TEST_F(SessionTest, WhileOneSandboxEndsOthersAreMadeReachedAndEnded) {
  const auto slow = new_sandbox_id();
  const auto other = new_sandbox_id();
  driver_.hold(slow);
  ask(1, DestroyCall{slow});
  EXPECT_THAT(answered(), IsEmpty());
  ask(2, create(other));
  ask(3, ConnectCall{other});
  ask(4, DestroyCall{other});
  EXPECT_THAT(answered(), ElementsAre(2, 3, 4));
  driver_.let_go(slow);
  run();
  EXPECT_THAT(answered(), ElementsAre(1));
}

TEST_F(SessionTest, WhileOneSandboxStartsOthersAreMade) {
  const auto slow = new_sandbox_id();
  driver_.hold(slow);
  ask(1, create(slow));
  ask(2, create(new_sandbox_id()));
  EXPECT_THAT(answered(), ElementsAre(2));
  driver_.let_go(slow);
  run();
  EXPECT_THAT(answered(), ElementsAre(1));
}

// A new server is told of what there is when it comes; what is made for one that has gone
// would be nobody's.
TEST_F(SessionTest, ASandboxWhoseServerHasGoneMeanwhileIsDestroyed) {
  const auto slow = new_sandbox_id();
  const auto kept = new_sandbox_id();
  ask(1, create(kept));
  driver_.hold(slow);
  ask(2, create(slow));
  server_.reset();
  server_ = connect();
  EXPECT_THAT(known_, ElementsAre(kept));
  driver_.let_go(slow);
  run();
  EXPECT_THAT(driver_.made, ElementsAre(kept));
}

TEST_F(SessionTest, ADestroyGoesOnWithoutItsServer) {
  const auto slow = new_sandbox_id();
  driver_.made.push_back(slow);
  driver_.hold(slow);
  ask(1, DestroyCall{slow});
  server_.reset();
  run();
  driver_.let_go(slow);
  run();
  EXPECT_THAT(driver_.made, IsEmpty());
}

TEST_F(SessionTest, AnEndThatWasToldIsForgottenOnlyWhenTheSandboxIsGone) {
  const auto slow = new_sandbox_id();
  shared_.exits.emplace(slow, Exit{.id = slow, .reason = "killed by SIGKILL"});
  driver_.hold(slow);
  ask(1, DestroyCall{slow});
  EXPECT_TRUE(shared_.exits.contains(slow));
  driver_.let_go(slow);
  run();
  EXPECT_FALSE(shared_.exits.contains(slow));
}

TEST_F(SessionTest, AServerThatAsksWithoutEndIsHungUpOn) {
  const auto slow = new_sandbox_id();
  driver_.hold(slow);
  bool open = true;
  for (std::size_t i = 0; i < Session::kMostPending + 1 && open; ++i) {
    open = linux_::send_packet(server_.get(), encode(Request{.number = i, .call = DestroyCall{slow}}))
               .has_value();
    run();
  }
  const auto after = linux_::receive_packet(server_.get(), kMaxPacket);
  EXPECT_FALSE(after) << "the connection is still open";
  driver_.let_go(slow);
  run();
}

}  // namespace
}  // namespace warren::runtime
