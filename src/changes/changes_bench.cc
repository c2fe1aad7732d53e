// Run by hand: changes_bench TEMPLATE_ROOT. How long a worker takes from its start to the end
// of its answer, over a template's root, with snapshots on btrfs.
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <thread>

#include "changes/overlay_under_test.h"

namespace {

using namespace warren::changes;

double child_ms() {
  rusage usage{};
  ::getrusage(RUSAGE_CHILDREN, &usage);
  const auto ms = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) * 1000 + static_cast<double>(time.tv_usec) / 1000;
  };
  return ms(usage.ru_utime) + ms(usage.ru_stime);
}

void measure(const std::string& what, const std::function<void()>& body) {
  std::vector<double> times;
  const double before = child_ms();
  for (int i = 0; i < 30; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    body();
    times.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
  }
  std::ranges::sort(times);
  fmt::print("{:50} median {:7.2f} ms, best {:7.2f}, worst {:7.2f}; worker's processor {:6.2f} ms\n", what,
             times[15], times[0], times[29], (child_ms() - before) / 30);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  Overlays overlays(Overlays::Disk::kBtrfs);
  auto& parent = overlays.make("parent", argv[1]);
  for (int i = 0; i < 3000; ++i)
    parent.write(fmt::format("root/packages/{}/{}", i % 50, i), std::string(4000, 'x'));
  // As in a runtime that has something in its memory.
  std::string ballast(64 << 20, 'x');
  auto& quiet = overlays.make("quiet", argv[1]);
  auto& busy = overlays.make("busy", argv[1]);
  for (int i = 0; i < 10; ++i) busy.write(fmt::format("root/results/{}", i), std::string(2000, 'y') + "\n");
  measure("diff of 10 files, nothing else in the uppers", [&] {
    overlays.diff(quiet, busy, {"/root", "/tmp"});
  });
  measure("the same of /", [&] { overlays.diff(quiet, busy); });
  measure("the same with text", [&] { overlays.diff(quiet, busy, {"/root", "/tmp"}, WithText::kYes); });

  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const auto now = std::chrono::duration_cast<std::chrono::nanoseconds>(
                       std::chrono::system_clock::now().time_since_epoch())
                       .count();
  auto& child = overlays.fork(parent, "child");
  auto& sibling = overlays.fork(parent, "sibling");
  for (int i = 0; i < 10; ++i) child.write(fmt::format("root/results/{}", i), std::string(2000, 'y') + "\n");
  measure("diff of 10 files, 3000 in both uppers, all read", [&] { overlays.diff(sibling, child); });
  measure("the same, settled", [&] { overlays.diff(sibling, child, {"/"}, WithText::kNo, now); });
  measure("merge of 10 new files, settled", [&] { overlays.merge(sibling, child, OnConflict::kFail, now); });
  for (int i = 0; i < 10; ++i)
    sibling.write(fmt::format("root/results/{}", i), std::string(2000, 'y') + "\nmore\n");
  measure("merge of 10 conflicts, settled", [&] { overlays.merge(sibling, child, OnConflict::kOurs, now); });
  return ballast.back() == 'x' ? 0 : 1;
}
