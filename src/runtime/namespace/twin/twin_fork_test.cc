// Twin forks between real sandboxes. Needs root; fails without.
#include "runtime/namespace/twin/twin_fork.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "linux/namespaces.h"
#include "linux/packets.h"
#include "linux/process.h"
#include "linux/text_file.h"
#include "runtime/namespace/testing/fixture.h"

namespace warren::runtime {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// The host's end of a runner.
struct Line {
  UniqueFd control;
  UniqueFd answers;
  UniqueFd output;

  void send(const std::string& line) const {
    const std::string text = line + "\n";
    EXPECT_EQ(::write(control.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  std::string hear() const {
    std::string line;
    char byte = 0;
    while (true) {
      pollfd ready{.fd = answers.get(), .events = POLLIN, .revents = 0};
      if (::poll(&ready, 1, 10'000) <= 0) return line + "(silence)";
      if (::read(answers.get(), &byte, 1) <= 0) return line + "(end)";
      if (byte == '\n') return line;
      line += byte;
    }
  }
  std::string ask(const std::string& line) const {
    send(line);
    return hear();
  }
};

Result<Twin> fork_into(const ForkPoint& point, const Berth& berth, const linux_::WaitLimit& limit) {
  auto copy = copy_memory(point, {}, limit);
  if (!copy) return fail(copy.error());
  auto boarding = std::move(*copy).board(berth, limit);
  if (!boarding) return fail(boarding.error());
  auto twin = std::move(*boarding).settle(point, berth, limit);
  if (twin) WARREN_TRY(set_off(*twin));
  return twin;
}

// Brings the runner to the fork that `line` is asked for.
Result<ForkPoint> halt(const Twin& twin, const Line& line, const linux_::WaitLimit& limit) {
  WARREN_TRY(hold(twin));
  line.send("fork");
  while (true) {
    const auto at = approach_fork(twin);
    if (!at) return fail(at.error());
    if (*at == Approach::kThere) return halt_at_fork(twin);
    if (limit.is_over()) return fail(ErrorKind::kTimeout, "no fork");
  }
}

// Until the old runner runs on.
Result<void> go_on(const ForkPoint& point, const linux_::WaitLimit& limit) {
  WARREN_TRY(return_from_fork(point));
  while (!limit.is_over()) {
    const auto done = let_go(point);
    if (!done) return fail(done.error());
    if (*done) return {};
  }
  return fail(ErrorKind::kTimeout, "it does not go on");
}

class TwinForkTest : public testing::NamespaceFixture {
 protected:
  static void SetUpTestSuite() {
    NamespaceFixture::SetUpTestSuite();
    fs::copy_file(WARREN_FORK_PROBE, home_ / "root/usr/bin/probe");
    auto filter = linux_::SeccompFilter::for_sandbox();
    ASSERT_TRUE(filter);
    filter_.emplace(std::move(*filter));
  }

  void TearDown() override {
    for (auto& twin : twins_) end_twin(twin);
    twins_.clear();
    NamespaceFixture::TearDown();
  }

  // A berth in the sandbox, and the other ends of its streams.
  struct Moored {
    Berth berth;
    Line line;
    UniqueFd pidfd;
    UniqueFd mounts;
    std::vector<UniqueFd> memory, join, run_join;
    std::array<UniqueFd, kRunnerDescriptors.size()> inside;
  };
  static std::unique_ptr<Moored> moor(const std::string& id) {
    auto moored = std::make_unique<Moored>();
    const pid_t pid = driver_->process_of(id);
    moored->pidfd = std::move(*linux_::open_pidfd(pid));
    for (const char* controller : {"memory", "pids", "cpu", "cpuacct", "freezer"}) {
      const std::string path =
          fs::path("/sys/fs/cgroup") / controller / driver_->instance() / "tester" / id / "tasks";
      UniqueFd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
      EXPECT_TRUE(file) << path;
      const std::string_view name = controller;
      auto& files = name == "memory" ? moored->memory : name == "freezer" ? moored->run_join : moored->join;
      files.push_back(std::move(file));
    }
    const auto join = [](UniqueFd& reader, UniqueFd& writer) {
      std::array<int, 2> pipe{};
      EXPECT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
      reader.reset(pipe[0]);
      writer.reset(pipe[1]);
    };
    moored->inside[0].reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    join(moored->line.output, moored->inside[1]);
    moored->inside[2].reset(::dup(moored->inside[1].get()));
    join(moored->inside[3], moored->line.control);
    join(moored->line.answers, moored->inside[4]);
    auto mounts = linux_::open_namespace(pid, "mnt");
    EXPECT_TRUE(mounts);
    moored->mounts = std::move(*mounts);
    std::uint32_t first_id = 0;
    const auto map = linux_::read_text("/proc/" + std::to_string(pid) + "/uid_map");
    std::sscanf(map->c_str(), "%*u %u", &first_id);
    moored->berth = {.process_one = pid,
                     .process_one_pidfd = moored->pidfd.get(),
                     .mount_namespace = moored->mounts.get(),
                     .first_id = first_id,
                     .memory_join = moored->memory,
                     .join = moored->join,
                     .run_join = moored->run_join,
                     .thaw = {},
                     .filter = &*filter_,
                     .open_files = 1000,
                     .streams = {}};
    for (std::size_t i = 0; i < moored->inside.size(); ++i)
      moored->berth.streams[i] = moored->inside[i].get();
    return moored;
  }

  Line take(std::unique_ptr<Moored> moored) { return std::move(moored->line); }

  // A template's runner in a sandbox of its own.
  Line boot(const std::string& id) {
    auto moored = moor(id);
    const linux_::WaitLimit limit(Clock::now() + Seconds(10));
    auto twin = boot_twin({.root = home_ / "root", .argv = {"/usr/bin/probe"}, .environment = {}},
                          moored->berth, limit);
    EXPECT_TRUE(twin) << twin.error().message();
    if (twin) twins_.push_back(std::move(*twin));
    Line line = take(std::move(moored));
    EXPECT_EQ(line.hear(), "ready");
    return line;
  }

  // Forks the runner into a new sandbox.
  Line fork(const Twin& source, const Line& line, const std::string& into) {
    auto moored = moor(into);
    const linux_::WaitLimit limit(Clock::now() + Seconds(10));
    const auto point = halt(source, line, limit);
    EXPECT_TRUE(point) << point.error().message();
    if (!point) return {};
    auto twin = fork_into(*point, moored->berth, limit);
    EXPECT_TRUE(twin) << twin.error().message();
    if (twin) twins_.push_back(std::move(*twin));
    EXPECT_TRUE(go_on(*point, limit));
    EXPECT_EQ(line.hear(), "parent");
    Line child = take(std::move(moored));
    EXPECT_EQ(child.hear(), "child");
    return child;
  }

  static std::optional<linux_::SeccompFilter> filter_;
  std::vector<Twin> twins_;
};

std::optional<linux_::SeccompFilter> TwinForkTest::filter_;

TEST_F(TwinForkTest, ARunnerBootsInsideItsSandbox) {
  const auto id = make();
  const Line line = boot(id);
  EXPECT_THAT(line.ask("who"), HasSubstr(" 0 sbx-" + id.substr(4, 12) + " none 0"));
  EXPECT_EQ(line.ask("fds"), " 0 1 2 250 251");
}

TEST_F(TwinForkTest, AForkHasTheMemoryAndAnotherSandbox) {
  const auto first = make(), second = make();
  const Line parent = boot(first);
  parent.ask("set kept");
  parent.ask("grow 20");
  parent.ask("share here");
  const Line child = fork(twins_[0], parent, second);
  EXPECT_THAT(child.ask("who"), HasSubstr(" 0 sbx-" + second.substr(4, 12) + " kept 20"));
  EXPECT_EQ(child.ask("fds"), " 0 1 2 250 251");
  EXPECT_EQ(child.ask("shared"), "here");
  EXPECT_EQ(child.ask("share there"), "ok");
  EXPECT_EQ(child.ask("set mine"), "ok");
  EXPECT_EQ(parent.ask("shared"), "here") << "what was shared is shared no more";
  EXPECT_THAT(parent.ask("who"), HasSubstr(" kept 20"));
  EXPECT_EQ(child.ask("out written"), "ok");
  std::array<char, 16> written{};
  EXPECT_EQ(::read(child.output.get(), written.data(), written.size()), 7);
}

TEST_F(TwinForkTest, ForksOfForksGoOnWhenTheirAncestorsHaveEnded) {
  auto id = make();
  Line line = boot(id);
  line.ask("set 0");
  for (int depth = 1; depth <= 12; ++depth) {
    const auto next = make();
    Line child = fork(twins_[0], line, next);
    EXPECT_THAT(child.ask("who"), HasSubstr(fmt::format(" {} 0", depth - 1)));
    child.ask("set " + std::to_string(depth));
    end_twin(twins_[0]);
    twins_.erase(twins_.begin());
    EXPECT_TRUE(destroy(id));
    id = next;
    line = std::move(child);
  }
}

TEST_F(TwinForkTest, ManyForksComeOfOneHalt) {
  const auto first = make();
  const Line parent = boot(first);
  parent.ask("set same");
  const linux_::WaitLimit limit(Clock::now() + Seconds(10));
  const auto point = halt(twins_[0], parent, limit);
  ASSERT_TRUE(point) << point.error().message();
  std::vector<Line> children;
  for (int i = 0; i < 5; ++i) {
    auto moored = moor(make());
    auto twin = fork_into(*point, moored->berth, limit);
    ASSERT_TRUE(twin) << twin.error().message();
    twins_.push_back(std::move(*twin));
    children.push_back(take(std::move(moored)));
  }
  ASSERT_TRUE(go_on(*point, limit));
  EXPECT_EQ(parent.hear(), "parent");
  for (const auto& child : children) {
    EXPECT_EQ(child.hear(), "child");
    EXPECT_THAT(child.ask("who"), HasSubstr(" same 0"));
  }
}

}  // namespace
}  // namespace warren::runtime
