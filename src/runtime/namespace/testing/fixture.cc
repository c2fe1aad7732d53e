#include "runtime/namespace/testing/fixture.h"

#include <poll.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <optional>

#include "base/ids.h"
#include "linux/mounts.h"
#include "runtime/namespace/testing/tiny_root.h"

namespace warren::runtime::testing {
namespace {

constexpr Seconds kPatience{30};
constexpr Seconds kLongPatience{60};

// Stores what `task` comes to.
Task<void> keep(Task<Result<void>> task, std::shared_ptr<std::optional<Result<void>>> outcome) {
  auto result = co_await std::move(task);
  *outcome = std::move(result);
}

// What WARREN_TEST_ROOT names, else one made of the host's own programs.
std::filesystem::path test_root(const std::filesystem::path& home) {
  if (const char* given = std::getenv("WARREN_TEST_ROOT")) return given;
  return home / "root";
}

}  // namespace

std::unique_ptr<boost::asio::io_context> NamespaceFixture::context_;
std::filesystem::path NamespaceFixture::home_;
std::unique_ptr<NamespaceDriver> NamespaceFixture::driver_;

NamespaceOptions NamespaceFixture::options() {
  NamespaceOptions options;
  options.home = home_;
  options.agent = WARREN_STUB_AGENT;
  options.template_root = [](std::string_view name) -> Result<std::filesystem::path> {
    // Two that break a create half-way: at its layers, and inside.
    if (name == "absent") return home_ / "absent";
    if (name == "no-folder") return test_root(home_) / "etc/passwd";
    if (name != "default") return fail(ErrorKind::kNotFound, "no such template");
    return test_root(home_);
  };
  options.pool_bytes = 4ULL << 30;
  // Another run of the same tests says that here: a plain folder, as where btrfs is missing.
  if (std::getenv("WARREN_TEST_PLAIN_POOL")) options.pool_bytes = 0;
  return options;
}

SandboxSpec NamespaceFixture::spec() {
  SandboxSpec spec;
  spec.id = new_sandbox_id();
  spec.account = "tester";
  spec.template_name = "default";
  spec.limits.memory_bytes = 256ULL << 20;
  spec.limits.disk_bytes = 256ULL << 20;
  spec.limits.pids = 64;
  return spec;
}

void NamespaceFixture::SetUpTestSuite() {
  prepare();
  if (context_) open_driver(options());
}

void NamespaceFixture::prepare() {
  ASSERT_EQ(::geteuid(), 0U) << "these tests make real sandboxes and need root";
  home_ = std::filesystem::temp_directory_path() / ("warren-test-" + random_hex(6));
  std::filesystem::create_directories(home_);
  if (test_root(home_) == home_ / "root") {
    const auto made = make_tiny_root(home_ / "root");
    ASSERT_TRUE(made) << made.error().message();
  }
  ASSERT_TRUE(linux_::enter_private_mounts());
  context_ = std::make_unique<boost::asio::io_context>(1);
  // Brings up what the event loop opens once and keeps, so that tests can compare descriptors.
  const boost::asio::steady_timer first(*context_);
}

void NamespaceFixture::open_driver(NamespaceOptions options) {
  auto driver = NamespaceDriver::open(context_->get_executor(), std::move(options));
  ASSERT_TRUE(driver) << driver.error().message();
  driver_ = std::move(*driver);
}

void NamespaceFixture::TearDownTestSuite() {
  driver_.reset();
  context_.reset();
  if (home_.empty()) return;
  ::umount2((home_ / "pool").c_str(), 0);
  std::filesystem::remove_all(home_);
}

void NamespaceFixture::SetUp() { ASSERT_TRUE(driver_) << "the driver did not start"; }

void NamespaceFixture::TearDown() {
  if (!driver_) return;
  for (const auto& id : driver_->sandboxes()) EXPECT_TRUE(destroy(id));
  driver_->on_exit({});
}

bool NamespaceFixture::run_until(const std::function<bool()>& done) {
  const auto deadline = Clock::now() + kLongPatience;
  context_->restart();
  while (!done() && Clock::now() < deadline) {
    context_->restart();
    context_->run_one_for(Millis(100));
  }
  return done();
}

void NamespaceFixture::settle() {
  EXPECT_TRUE(run_until([] { return driver_->held() == driver_->sandboxes().size(); }));
  // What has been called off still has to hear of it.
  context_->restart();
  context_->poll();
}

Result<void> NamespaceFixture::create(const SandboxSpec& wanted) {
  const auto outcome = std::make_shared<std::optional<Result<void>>>();
  boost::asio::co_spawn(*context_, keep(driver_->create(wanted), outcome), boost::asio::detached);
  if (run_until([&] { return outcome->has_value(); })) return **outcome;
  return fail(ErrorKind::kTimeout, "the create does not come to an end");
}

Result<void> NamespaceFixture::destroy(const std::string& id) {
  const auto outcome = std::make_shared<std::optional<Result<void>>>();
  boost::asio::co_spawn(*context_, keep(driver_->destroy(id), outcome), boost::asio::detached);
  if (run_until([&] { return outcome->has_value(); })) return **outcome;
  return fail(ErrorKind::kTimeout, "the destroy does not come to an end");
}

std::string NamespaceFixture::make(const SandboxSpec& wanted) {
  const auto created = create(wanted);
  EXPECT_TRUE(created) << created.error().message();
  return wanted.id;
}

Said NamespaceFixture::run(const std::string& id, const std::string& command) {
  const auto connection = driver_->connect(id);
  EXPECT_TRUE(connection) << connection.error().message();
  if (!connection) return {};
  const std::string line = "sh " + command + "\n";
  if (::send(connection->get(), line.data(), line.size(), MSG_NOSIGNAL) < 0) return {};
  Said said;
  const auto deadline = Clock::now() + kPatience;
  std::array<char, 4096> piece;
  while (Clock::now() < deadline) {
    pollfd ready{.fd = connection->get(), .events = POLLIN, .revents = 0};
    if (::poll(&ready, 1, 100) <= 0) continue;
    const ssize_t got = ::recv(connection->get(), piece.data(), piece.size(), 0);
    if (got <= 0) break;
    said.output.append(piece.data(), static_cast<std::size_t>(got));
    const auto last = said.output.rfind('\0');
    if (last == std::string::npos || said.output.back() != '\n') continue;
    said.exit_code = std::stoi(said.output.substr(last + std::string_view("_exit ").size()));
    said.output.erase(last);
    break;
  }
  return said;
}

}  // namespace warren::runtime::testing
