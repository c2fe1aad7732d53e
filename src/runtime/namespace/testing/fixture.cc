#include "runtime/namespace/testing/fixture.h"

#include <poll.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include "base/ids.h"
#include "linux/mounts.h"
#include "runtime/namespace/testing/tiny_root.h"

namespace warren::runtime::testing {
namespace {

constexpr Seconds kPatience{30};

// What WARREN_TEST_ROOT names, else one made of the host's own programs.
std::filesystem::path test_root(const std::filesystem::path& home) {
  if (const char* given = std::getenv("WARREN_TEST_ROOT")) return given;
  return home / "root";
}

}  // namespace

std::filesystem::path NamespaceFixture::home_;
std::unique_ptr<NamespaceDriver> NamespaceFixture::driver_;

NamespaceOptions NamespaceFixture::options() {
  NamespaceOptions options;
  options.home = home_;
  options.agent = WARREN_STUB_AGENT;
  options.template_root = [](std::string_view name) -> Result<std::filesystem::path> {
    // Two that break a create half-way: at its layers, and inside.
    if (name == "absent") return home_ / "absent";
    if (name == "no-folder") return home_ / "root/etc/passwd";
    if (name != "default") return fail(ErrorKind::kNotFound, "no such template");
    return test_root(home_);
  };
  options.pool_bytes = 4ULL << 30;
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
  ASSERT_EQ(::geteuid(), 0U) << "these tests make real sandboxes and need root";
  home_ = std::filesystem::temp_directory_path() / ("warren-test-" + random_hex(6));
  std::filesystem::create_directories(home_);
  const auto made = make_tiny_root(home_ / "root");
  ASSERT_TRUE(made) << made.error().message();
  ASSERT_TRUE(linux_::enter_private_mounts());
  auto driver = NamespaceDriver::open(options());
  ASSERT_TRUE(driver) << driver.error().message();
  driver_ = std::move(*driver);
}

void NamespaceFixture::TearDownTestSuite() {
  driver_.reset();
  if (home_.empty()) return;
  ::umount2((home_ / "pool").c_str(), 0);
  std::filesystem::remove_all(home_);
}

void NamespaceFixture::SetUp() { ASSERT_TRUE(driver_) << "the driver did not start"; }

void NamespaceFixture::TearDown() {
  if (!driver_) return;
  for (const auto& id : driver_->sandboxes()) EXPECT_TRUE(driver_->destroy(id));
}

std::string NamespaceFixture::make(const SandboxSpec& wanted) {
  const auto created = driver_->create(wanted);
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
