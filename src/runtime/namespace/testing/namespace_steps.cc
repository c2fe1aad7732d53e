// Makes and destroys sandboxes with the stub agent and prints the median of each step:
//   namespace_steps [COUNT [ROOT]]
#include <fmt/format.h>
#include <sys/mount.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/ids.h"
#include "linux/mounts.h"
#include "runtime/namespace/namespace_driver.h"
#include "runtime/namespace/testing/tiny_root.h"

namespace warren::runtime {
namespace {

// Medians by step, in the order in which the steps came.
class Table {
 public:
  void add(const Steps& steps) {
    double total = 0;
    for (const auto& step : steps.done()) {
      const double micros = std::chrono::duration<double, std::micro>(step.took).count();
      column(step.name).push_back(micros);
      total += micros;
    }
    column("total").push_back(total);
  }
  void print(std::string_view title) {
    fmt::print("{}\n", title);
    for (auto& [name, values] : columns_) {
      std::ranges::sort(values);
      fmt::print("  {:16} p50 {:8.0f} us   p95 {:8.0f} us\n", name, values[values.size() / 2],
                 values[values.size() * 95 / 100]);
    }
  }

 private:
  std::vector<double>& column(std::string_view name) {
    for (auto& [known, values] : columns_)
      if (known == name) return values;
    columns_.emplace_back(name, std::vector<double>{});
    return columns_.back().second;
  }
  std::vector<std::pair<std::string_view, std::vector<double>>> columns_;
};

Task<void> make(NamespaceDriver& driver, SandboxSpec spec) {
  const auto made = co_await driver.create(std::move(spec));
  if (made) co_return;
  fmt::print(stderr, "{}\n", made.error().message());
  std::exit(1);
}

Task<void> end(NamespaceDriver& driver, std::string id) {
  const auto ended = co_await driver.destroy(std::move(id));
  if (!ended) std::exit(1);
}

int measure(int count, const std::filesystem::path& home, const std::filesystem::path& root) {
  NamespaceOptions options;
  options.home = home;
  options.agent = WARREN_STUB_AGENT;
  options.template_root = [&](std::string_view) -> Result<std::filesystem::path> { return root; };
  options.pool_bytes = 4ULL << 30;
  boost::asio::io_context context(1);
  auto driver = NamespaceDriver::open(context.get_executor(), std::move(options));
  if (!driver) {
    fmt::print(stderr, "{}\n", driver.error().message());
    return 1;
  }
  Table create;
  Table destroy;
  for (int i = 0; i < count; ++i) {
    SandboxSpec spec;
    spec.id = new_sandbox_id();
    spec.account = "bench";
    spec.template_name = "default";
    boost::asio::co_spawn(context, make(**driver, spec), boost::asio::detached);
    while ((*driver)->sandboxes().empty()) context.run_one();
    create.add((*driver)->steps());
    boost::asio::co_spawn(context, end(**driver, spec.id), boost::asio::detached);
    while ((*driver)->held() > 0) context.run_one();
    destroy.add((*driver)->steps());
  }
  create.print("create");
  destroy.print("destroy");
  return 0;
}

}  // namespace
}  // namespace warren::runtime

int main(int argc, char** argv) {
  const auto home = std::filesystem::temp_directory_path() / ("warren-steps-" + warren::random_hex(6));
  std::filesystem::create_directories(home);
  const std::filesystem::path root = argc > 2 ? argv[2] : (home / "root").string();
  if (argc <= 2 && !warren::runtime::testing::make_tiny_root(root)) return 1;
  if (!warren::linux_::enter_private_mounts()) return 1;
  const int outcome = warren::runtime::measure(argc > 1 ? std::atoi(argv[1]) : 200, home, root);
  ::umount2((home / "pool").c_str(), 0);
  std::filesystem::remove_all(home);
  return outcome;
}
