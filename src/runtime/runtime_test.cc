// Runtime and client together, over their socket, with real sandboxes. Needs root.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <filesystem>

#include "base/clock.h"
#include "base/ids.h"
#include "linux/packets.h"
#include "linux/text_file.h"
#include "runtime/client.h"
#include "runtime/messages.h"
#include "runtime/namespace/testing/tiny_root.h"
#include "runtime/namespace/testing/undying.h"
#include "runtime/server.h"

namespace warren::runtime {
namespace {

namespace asio = boost::asio;
namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RuntimeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::geteuid(), 0U) << "these tests make real sandboxes and need root";
    home_ = fs::temp_directory_path() / ("warren-runtime-" + random_hex(6));
    fs::create_directories(home_);
    ASSERT_TRUE(testing::make_tiny_root(home_ / "root"));
    auto listener = linux_::listen_packets(socket(), 0600);
    ASSERT_TRUE(listener) << listener.error().message();
    listener_ = std::move(*listener);
    start_runtime(0);
  }
  void TearDown() override {
    stop_runtime(SIGTERM);
    if (!home_.empty()) fs::remove_all(home_);
  }

  std::string socket() const { return home_ / "socket"; }

  void start_runtime(uid_t server_uid) {
    runtime_ = ::fork();
    if (runtime_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    RuntimeOptions options;
    options.home = home_;
    options.listener.reset(::dup(listener_.get()));
    options.server_uid = server_uid;
    options.agent = WARREN_STUB_AGENT;
    options.pool_bytes = 1ULL << 30;
    options.template_root = [this](std::string_view name) -> Result<fs::path> {
      if (name != "default") return fail(ErrorKind::kNotFound, "there is no template of that name");
      return home_ / "root";
    };
    options.templates = [] {
      return std::vector<TemplateInfo>{{.name = "default", .description = "", .digest = "", .built = true}};
    };
    ::_exit(run_runtime(std::move(options)) ? 0 : 1);
  }

  int stop_runtime(int signal) {
    if (runtime_ <= 0) return -1;
    ::kill(runtime_, signal);
    int status = -1;
    ::waitpid(runtime_, &status, 0);
    runtime_ = -1;
    return status;
  }

  // Runs a test's body with a connected client.
  void with_client(std::function<Task<void>(Client&)> body) {
    asio::io_context context(1);
    auto client =
        Client::start(context.get_executor(), socket(),
                      {.on_exit = [this](const Exit& exit) { exits_.push_back(exit); },
                       .on_connected = [this](std::vector<std::string> ids) { known_ = std::move(ids); },
                       .on_lost = [this] { ++lost_; }});
    bool finished = false;
    asio::co_spawn(
        context,
        [&]() -> Task<void> {
          const std::function<bool()> connected = [&] { return client->connected(); };
          co_await until(connected);
          if (!client->connected()) co_return context.stop();
          co_await body(*client);
          finished = true;
          context.stop();
        },
        asio::detached);
    context.run_for(Seconds(30));
    EXPECT_TRUE(finished) << "the test took too long";
  }

  // `condition` must be a named object: GCC 12 mishandles temporaries in a co_await.
  static Task<void> until(const std::function<bool()>& condition) {
    asio::steady_timer timer(co_await asio::this_coro::executor);
    const auto deadline = Clock::now() + Seconds(20);
    while (!condition() && Clock::now() < deadline) {
      timer.expires_after(Millis(2));
      co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
    }
    EXPECT_TRUE(condition());
  }

  static Task<void> make_one(Client& client) {
    const auto wanted = spec();
    const auto made = co_await client.create(wanted);
    EXPECT_TRUE(made) << made.error().message();
  }

  static SandboxSpec spec() {
    SandboxSpec spec;
    spec.id = new_sandbox_id();
    spec.account = "tester";
    spec.template_name = "default";
    spec.limits.memory_bytes = 128ULL << 20;
    return spec;
  }

  fs::path home_;
  UniqueFd listener_;
  pid_t runtime_ = -1;
  std::vector<Exit> exits_;
  std::vector<std::string> known_;
  int lost_ = 0;
};

TEST_F(RuntimeTest, ASandboxIsMadeReachedAndDestroyedOverTheSocket) {
  with_client([](Client& client) -> Task<void> {
    EXPECT_EQ(client.capabilities().isolation, "namespace");
    const auto wanted = spec();
    const auto created = co_await client.create(wanted);
    EXPECT_TRUE(created) << created.error().message();
    const auto connection = co_await client.connect(wanted.id);
    EXPECT_TRUE(connection);
    if (!connection) co_return;
    EXPECT_EQ(::write(connection->get(), "sh echo hello\n", 14), 14);
    std::string said(6, '\0');
    EXPECT_EQ(::read(connection->get(), said.data(), said.size()), 6);
    EXPECT_EQ(said, "hello\n");
    const auto usage = co_await client.usage(wanted.id);
    EXPECT_TRUE(usage);
    const auto destroyed = co_await client.destroy(wanted.id);
    EXPECT_TRUE(destroyed);
    const auto gone = co_await client.usage(wanted.id);
    EXPECT_FALSE(gone);
    const auto templates = co_await client.templates();
    EXPECT_TRUE(templates && templates->size() == 1);
  });
}

TEST_F(RuntimeTest, TheDriversErrorsArriveWithTheirKind) {
  with_client([](Client& client) -> Task<void> {
    auto wanted = spec();
    wanted.template_name = "other";
    const auto created = co_await client.create(wanted);
    EXPECT_EQ(created.error().kind(), ErrorKind::kNotFound);
    EXPECT_THAT(created.error().message(), HasSubstr("no template"));
  });
}

TEST_F(RuntimeTest, AnEndIsToldAtOnceAndToWhoeverComesLater) {
  const auto wanted = spec();
  with_client([&](Client& client) -> Task<void> {
    const auto made = co_await client.create(wanted);
    EXPECT_TRUE(made);
    const auto connection = co_await client.connect(wanted.id);
    EXPECT_EQ(::write(connection->get(), "exit 3\n", 7), 7);
    const std::function<bool()> told = [&] { return !exits_.empty(); };
    co_await until(told);
    EXPECT_EQ(exits_.at(0).reason, "exited with status 3");
  });
  exits_.clear();
  with_client([&](Client& client) -> Task<void> {
    EXPECT_THAT(known_, ElementsAre(wanted.id)) << "it is there until somebody destroys it";
    const std::function<bool()> told = [&] { return !exits_.empty(); };
    co_await until(told);
    const auto destroyed = co_await client.destroy(wanted.id);
    EXPECT_TRUE(destroyed);
  });
}

TEST_F(RuntimeTest, TheClientFindsARuntimeThatWasKilledAndCameBack) {
  with_client([this](Client& client) -> Task<void> {
    co_await make_one(client);
    stop_runtime(SIGKILL);
    const std::function<bool()> lost = [&] { return !client.connected(); };
    co_await until(lost);
    EXPECT_EQ(lost_, 1);
    const auto wanted = spec();
    const auto refused = co_await client.create(wanted);
    EXPECT_EQ(refused.error().kind(), ErrorKind::kUnavailable);
    start_runtime(0);
    const std::function<bool()> back = [&] { return client.connected(); };
    co_await until(back);
    EXPECT_TRUE(known_.empty()) << "what the old one had is gone";
    co_await make_one(client);
  });
}

TEST_F(RuntimeTest, StopsCleanlyWithSandboxesRunning) {
  with_client([](Client& client) -> Task<void> {
    for (int i = 0; i < 3; ++i) co_await make_one(client);
  });
  EXPECT_EQ(stop_runtime(SIGTERM), 0);
}

TEST_F(RuntimeTest, WhileOneSandboxIsDyingOthersAreMadeAndAnEndIsClean) {
  std::unique_ptr<testing::Undying> process;
  with_client([&](Client& client) -> Task<void> {
    const auto dying = spec();
    const auto made = co_await client.create(dying);
    EXPECT_TRUE(made);
    const auto connection = co_await client.connect(dying.id);
    EXPECT_TRUE(connection);
    if (!connection) co_return;
    EXPECT_EQ(::write(connection->get(), "sh sleep 1000 >/dev/null 2>&1 & echo x\n", 39), 39);
    // Only when the shell has ended is the process the child of process 1.
    std::string said(10, '\0');
    EXPECT_EQ(::recv(connection->get(), said.data(), said.size(), MSG_WAITALL), 10);
    EXPECT_THAT(said, HasSubstr("exit 0"));
    process = std::make_unique<testing::Undying>(testing::child_of(runtime_));
    bool destroyed = false;
    const Executor executor = co_await asio::this_coro::executor;
    asio::co_spawn(
        executor,
        [](Client& by, std::string id, bool& into) -> Task<void> {
          const auto result = co_await by.destroy(std::move(id));
          into = result.has_value();
        }(client, dying.id, destroyed),
        asio::detached);
    co_await make_one(client);
    const auto usage = co_await client.usage(dying.id);
    EXPECT_EQ(usage.error().kind(), ErrorKind::kNotFound) << "its end has begun";
    EXPECT_FALSE(destroyed);
  });
  ::kill(runtime_, SIGTERM);
  process->let_go();
  EXPECT_EQ(stop_runtime(SIGTERM), 0);
}

TEST_F(RuntimeTest, HangsUpOnWhoSpeaksNonsense) {
  for (const std::string& nonsense :
       {std::string("hello"), std::string("{}"), std::string(kMaxPacket + 1, 'x')}) {
    const auto stranger = linux_::connect_packets(socket());
    ASSERT_TRUE(stranger);
    ASSERT_TRUE(linux_::send_packet(stranger->get(), nonsense));
    const auto deadline = Clock::now() + Seconds(20);
    bool ended = false;
    while (!ended && Clock::now() < deadline) {
      const auto packet = linux_::receive_packet(stranger->get(), kMaxPacket);
      ended = !packet;
      if (packet && !*packet) ::usleep(1000);
    }
    EXPECT_TRUE(ended);
  }
  with_client([](Client& client) -> Task<void> { co_await make_one(client); });
}

TEST_F(RuntimeTest, HangsUpOnAnotherUser) {
  stop_runtime(SIGTERM);
  constexpr uid_t kSomebodyElse = 12345;
  start_runtime(kSomebodyElse);
  const auto stranger = linux_::connect_packets(socket());
  ASSERT_TRUE(stranger);
  const auto deadline = Clock::now() + Seconds(20);
  auto packet = linux_::receive_packet(stranger->get(), kMaxPacket);
  while (packet && !*packet && Clock::now() < deadline) {
    ::usleep(1000);
    packet = linux_::receive_packet(stranger->get(), kMaxPacket);
  }
  EXPECT_FALSE(packet) << "it was told something";
}

}  // namespace
}  // namespace warren::runtime
