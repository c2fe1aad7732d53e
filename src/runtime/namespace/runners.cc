#include "runtime/namespace/runners.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <thread>
#include <utility>

#include "base/log.h"
#include "linux/affinity.h"
#include "linux/namespaces.h"
#include "linux/packets.h"
#include "linux/text_file.h"
#include "linux/tracee.h"
#include "runtime/waiting.h"

namespace warren::runtime {
namespace {

namespace asio = boost::asio;
using Descriptor = asio::posix::stream_descriptor;

// How long one copy may take. What exceeds it holds up everybody, and is killed.
constexpr Millis kForkLimit{2'000};
// The same where the memory is a user's, who may have spoilt it.
constexpr Millis kCopyLimit{1'000};
// So often an attempt on one sandbox's session may end its keeper.
constexpr int kMostSpoiltForks = 3;
constexpr Seconds kWarmLimit{60};

// Where src/repl lies in every sandbox, and where its messages come.
KeeperProgram python_of(const std::filesystem::path& root) {
  return {
      .root = root,
      .argv = {"/usr/bin/python3", "/usr/lib/warren/repl/main.py", std::to_string(kRunnerDescriptors[3])},
      // As the agent's default_environment(), and its mark of a given process.
      .environment = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root",
                      "USER=root", "LOGNAME=root", "LANG=C.UTF-8", "SHELL=/bin/bash", "WARREN_RUNNER=session",
                      // Large blocks lie on huge pages, which a fork copies the quicker
                      // (mallopt(3) has no such parameter). src/repl/main.py hides it.
                      "GLIBC_TUNABLES=glibc.malloc.hugetlb=1"}};
}

std::shared_ptr<Descriptor> watched(const Executor& executor, int descriptor) {
  return std::make_shared<Descriptor>(executor, ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
}

Result<void> say(int control, std::string_view line) {
  if (::write(control, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    return fail_errno("talk to a template's Python");
  return {};
}

// Waits for a message of a template's Python, which has run nobody's code yet.
Task<Result<void>> hear(std::shared_ptr<Descriptor> messages, std::string op, Clock::time_point deadline) {
  std::string heard;
  const std::string wanted = fmt::format("{{\"op\":\"{}\"", op);
  std::array<char, 4096> piece;
  while (heard.find(wanted) == std::string::npos) {
    const bool ready = co_await wait_readable(messages, deadline);
    if (!ready) co_return fail(ErrorKind::kTimeout, "the template's Python does not start");
    const ssize_t got = ::read(messages->native_handle(), piece.data(), piece.size());
    if (got == 0) co_return fail(ErrorKind::kUnavailable, "the template's Python has ended");
    if (got > 0) heard.append(piece.data(), static_cast<std::size_t>(got));
  }
  co_return Result<void>{};
}

// Whether a session that stands at a fork does so since it was asked to: src/repl/runner.py
// gives its process this name for so long.
bool is_asked_for(pid_t runner) {
  const auto name = linux_::read_text(fmt::format("/proc/{}/comm", runner));
  return name && linux_::trimmed(*name) == "warren-fork";
}

// Waits for the session to come to its fork, on the same processor.
Result<Approach> approach_at_once(const Twin& twin, Clock::time_point deadline) {
  const linux_::WaitLimit limit(deadline);
  const linux_::OneProcessor here;
  const linux_::Companion session(here, twin.runner);
  return approach_fork(twin, limit);
}

// The process's number as its own sandbox counts.
Result<int> number_inside(pid_t pid) {
  const auto status = linux_::read_text(fmt::format("/proc/{}/status", pid));
  if (!status) return fail(status.error());
  const auto line = status->find("\nNSpid:");
  if (line == std::string::npos) return fail(ErrorKind::kInternal, "no NSpid");
  const auto end = status->find('\n', line + 1);
  const auto last = status->find_last_of('\t', end);
  return std::atoi(status->c_str() + last + 1);
}

// Waits for the end of a child, and gives its wait status. `pid` is -1 for one that has been
// reaped elsewhere.
Task<int> reap(std::shared_ptr<Descriptor> pidfd, pid_t pid) {
  // A pidfd can be readable a moment before there is something to reap.
  constexpr Millis kBetween{2};
  int status = SIGKILL;
  while (pid > 0) {
    co_await wait_readable(pidfd, Clock::time_point::max());
    const pid_t got = ::waitpid(pid, &status, __WALL | WNOHANG);
    if (got == pid && (WIFEXITED(status) || WIFSIGNALED(status))) break;
    if (got < 0) break;
    co_await pause(kBetween);
  }
  co_return status;
}

}  // namespace

struct Runners::Mooring {
  Berth berth;
  linux_::TwinEntry entry;
  UniqueFd mounts;
  std::array<UniqueFd, kRunnerDescriptors.size()> inside;
  // Messages to it and from it, output, error output, as the agent takes them.
  std::array<UniqueFd, 4> outside;
};

struct Runners::Aboard {
  Mooring mooring;
  Boarding boarding;
};

Runners::Runners(Executor executor, Sources sources)
    : executor_(std::move(executor)), sources_(std::move(sources)) {}

std::string Runners::group_of(const Sandbox& sandbox) const {
  return fmt::format("{}/{}/{}", sources_.instance, sandbox.account, sandbox.machine);
}

Result<Runners::Mooring> Runners::moor(const Sandbox& sandbox) const {
  Mooring mooring;
  if (!sandbox.slot) return fail(ErrorKind::kInternal, "the sandbox has no range of host ids");
  auto entry = sources_.cgroups.twin_entry(group_of(sandbox));
  if (!entry) return fail(entry.error());
  mooring.entry = std::move(*entry);
  auto mounts = linux_::open_namespace(sandbox.pid, "mnt");
  if (!mounts) return fail(mounts.error());
  mooring.mounts = std::move(*mounts);
  mooring.inside[0].reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!mooring.inside[0]) return fail_errno("open /dev/null");
  const auto join = [](UniqueFd& reader, UniqueFd& writer) -> Result<void> {
    std::array<int, 2> pipe{};
    if (::pipe2(pipe.data(), O_CLOEXEC) < 0) return fail_errno("pipe2");
    reader.reset(pipe[0]);
    writer.reset(pipe[1]);
    return {};
  };
  WARREN_TRY(join(mooring.inside[3], mooring.outside[0]));
  WARREN_TRY(join(mooring.outside[1], mooring.inside[4]));
  WARREN_TRY(join(mooring.outside[2], mooring.inside[1]));
  WARREN_TRY(join(mooring.outside[3], mooring.inside[2]));
  mooring.berth = {.process_one = sandbox.pid,
                   .process_one_pidfd = sandbox.process->native_handle(),
                   .mount_namespace = mooring.mounts.get(),
                   .first_id = sources_.slots.first_id(*sandbox.slot),
                   // What these point to moves along with the mooring.
                   .memory_join = mooring.entry.keeper,
                   .join = mooring.entry.runner,
                   .run_join = mooring.entry.run,
                   .thaw = [this, group = group_of(sandbox)] { return sources_.cgroups.thaw(group); },
                   .filter = &sources_.filter,
                   .open_files = sandbox.limits.open_files,
                   .streams = {}};
  for (std::size_t i = 0; i < mooring.inside.size(); ++i) mooring.berth.streams[i] = mooring.inside[i].get();
  return mooring;
}

void Runners::keep(const std::shared_ptr<Sandbox>& sandbox, Twin twin) {
  sandbox->twin = std::make_shared<Twin>(std::move(twin));
  asio::co_spawn(executor_, watch(sandbox, sandbox->twin), asio::detached);
}

Task<Result<void>> Runners::warm(std::shared_ptr<Sandbox> sandbox, std::filesystem::path root,
                                 std::vector<std::string> imports) {
  const auto deadline = Clock::now() + kWarmLimit;
  const auto warm = std::make_shared<Warm>();
  warm->root = root;
  warm->sandbox = sandbox;
  warm_.insert_or_assign(sandbox->template_name, warm);
  auto mooring = moor(*sandbox);
  if (!mooring) co_return fail(mooring.error());
  {
    const linux_::WaitLimit limit(Clock::now() + kForkLimit);
    auto twin = boot_twin(python_of(root), mooring->berth, limit);
    if (!twin) co_return fail(twin.error());
    keep(sandbox, std::move(*twin));
  }
  warm->ends = std::move(mooring->outside);
  const int control = warm->ends[0].get();
  const auto messages = watched(executor_, warm->ends[1].get());
  const auto ready = co_await hear(messages, "ready", deadline);
  if (!ready) co_return ready;
  // Names of modules need no escapes.
  auto said =
      say(control, fmt::format("{{\"op\":\"warm\",\"imports\":[{}]}}\n",
                               imports.empty() ? "" : fmt::format("\"{}\"", fmt::join(imports, "\",\""))));
  if (!said) co_return said;
  const auto warmed = co_await hear(messages, "warmed", deadline);
  if (!warmed) co_return warmed;
  said = say(control, "{\"op\":\"fork\"}\n");
  if (!said) co_return said;
  const auto packed = co_await hear(messages, "packed", deadline);
  if (!packed) co_return packed;
  const auto twin = sandbox->twin;
  if (!twin) co_return fail(ErrorKind::kUnavailable, "the template's Python has ended");
  WARREN_TRY_CO(hold(*twin));
  said = say(control, "{\"op\":\"go\"}\n");
  if (!said) co_return said;
  auto point = co_await approach(twin, deadline);
  if (!point) co_return fail(std::move(point.error()));
  warm->point = std::move(*point);
  co_return Result<void>{};
}

Task<Result<ForkPoint>> Runners::approach(std::shared_ptr<Twin> twin, Clock::time_point deadline) {
  // A few system calls, as a rule; what the user's own at-fork handlers do may be more.
  constexpr Millis kAtOnce{5};
  constexpr Millis kBetween{1};
  const auto at_once = Clock::now() + kAtOnce;
  Result<ForkPoint> point = fail(ErrorKind::kTimeout, "the session did not come to its fork in time");
  while (Clock::now() < deadline) {
    if (twin->runner < 0) co_return fail(ErrorKind::kUnavailable, "the session has ended");
    const auto at = Clock::now() < at_once ? approach_at_once(*twin, at_once) : approach_fork(*twin);
    if (!at) {
      point = fail(at.error());
      break;
    }
    if (*at == Approach::kThere && is_asked_for(twin->runner)) {
      point = halt_at_fork(*twin);
      break;
    }
    // The user's own, which happens.
    if (*at == Approach::kThere)
      if (const auto passed = linux_::resume_to_call(twin->runner); !passed) {
        point = fail(passed.error());
        break;
      }
    if (Clock::now() > at_once) co_await pause(kBetween);
  }
  co_return point;
}

Task<void> Runners::release(std::shared_ptr<Twin> twin) {
  constexpr Millis kLongest{100};
  for (Millis between{1}; twin->runner > 0; between = std::min(between * 2, kLongest)) {
    const auto done = let_run(*twin);
    if (!done || *done) break;
    co_await pause(between);
  }
  twin->is_held = false;
}

Task<void> Runners::return_to(std::shared_ptr<Twin> twin, ForkPoint point) {
  constexpr Millis kLongest{100};
  if (const auto resumed = return_from_fork(point); !resumed)
    log::info("a forked session does not go on: {}", resumed.error().message());
  for (Millis between{1}; twin->runner > 0; between = std::min(between * 2, kLongest)) {
    const auto done = runtime::let_go(point);
    if (!done || *done) break;
    co_await pause(between);
  }
  twin->is_held = false;
}

Task<Result<ForkPoint>> Runners::halt(std::shared_ptr<Sandbox> sandbox) {
  const auto twin = sandbox->twin;
  if (!twin)
    co_return fail(ErrorKind::kConflict,
                   "the session was not forked from a template's, so it cannot be forked");
  if (twin->is_held)
    co_return fail(ErrorKind::kConflict,
                   "the session has not gone on yet after a fork; try again in a moment");
  if (sandbox->spoilt_forks >= kMostSpoiltForks)
    co_return fail(ErrorKind::kConflict,
                   "the session's memory cannot be copied: it was tried and failed too often");
  twin->is_held = true;
  auto held = hold(*twin);
  if (!held) {
    asio::co_spawn(executor_, release(twin), asio::detached);
    co_return fail(std::move(held.error()));
  }
  if (sandbox->control) (void)linux_::send_packet(sandbox->control.get(), "F");
  // As long as what its user has it do before a fork may take.
  constexpr Seconds kBeforeFork{5};
  auto point = co_await approach(twin, Clock::now() + kBeforeFork);
  if (!point) {
    asio::co_spawn(executor_, release(twin), asio::detached);
    co_return point;
  }
  auto frozen = co_await freeze(sandbox);
  if (frozen) co_return point;
  let_go(sandbox, *point);
  co_return fail(std::move(frozen.error()));
}

Task<Result<void>> Runners::freeze(std::shared_ptr<Sandbox> sandbox) {
  // Tens of milliseconds where much runs, a few tenths of one elsewhere.
  constexpr Millis kLimit{1'000};
  constexpr Millis kAtOnce{1};
  constexpr std::chrono::microseconds kMoment{50};
  constexpr Millis kBetween{1};
  const std::string group = group_of(*sandbox);
  const auto began = Clock::now();
  while (true) {
    const auto frozen = sources_.cgroups.try_freeze(group);
    if (!frozen) co_return fail(frozen.error());
    if (*frozen) co_return Result<void>{};
    const auto took = Clock::now() - began;
    if (took >= kLimit) break;
    if (took < kAtOnce)
      std::this_thread::sleep_for(kMoment);
    else
      co_await pause(kBetween);
  }
  WARREN_TRY_CO(sources_.cgroups.thaw(group));
  co_return fail(ErrorKind::kTimeout, "the sandbox's processes did not stop in time");
}

Result<MemoryCopy> Runners::copy(Sandbox& sandbox, const ForkPoint& point, const std::string& charged) const {
  WARREN_TRY(sources_.cgroups.make(charged));
  const auto roomy = sources_.cgroups.charge_entry(charged);
  if (!roomy) return fail(roomy.error());
  const auto home = sources_.cgroups.twin_entry(group_of(sandbox));
  if (!home) return fail(home.error());
  const linux_::WaitLimit limit(Clock::now() + kCopyLimit);
  auto copied = copy_memory(
      point, {.most_bytes = sandbox.limits.memory_bytes, .charged = *roomy, .home = home->keeper}, limit);
  if (!copied && copied.error().kind() != ErrorKind::kTooLarge) ++sandbox.spoilt_forks;
  return copied;
}

void Runners::let_go(const std::shared_ptr<Sandbox>& sandbox, const ForkPoint& point) {
  // Nothing is left of it if the sandbox has ended meanwhile.
  (void)sources_.cgroups.thaw(group_of(*sandbox));
  // The session may have ended too, and there be another one.
  const auto twin = sandbox->twin;
  if (twin && twin->runner == point.runner) asio::co_spawn(executor_, return_to(twin, point), asio::detached);
}

std::shared_ptr<Sandbox> Runners::instance_of(std::string_view template_name) const {
  const auto found = warm_.find(template_name);
  return found == warm_.end() ? nullptr : found->second->sandbox;
}

bool Runners::is_warm(std::string_view template_name, const std::filesystem::path& root) const {
  const auto found = warm_.find(template_name);
  return found != warm_.end() && found->second->point && found->second->root == root &&
         found->second->sandbox->twin;
}

void Runners::forget(std::string_view template_name) {
  const auto found = warm_.find(template_name);
  if (found != warm_.end()) warm_.erase(found);
}

Result<void> Runners::give(const std::shared_ptr<Sandbox>& sandbox) {
  const auto found = warm_.find(sandbox->template_name);
  const Warm* warm = found == warm_.end() ? nullptr : found->second.get();
  if (warm == nullptr || !warm->point || !warm->sandbox->twin)
    return fail(ErrorKind::kUnavailable, "the template is not warm yet");
  const ForkPoint& point = *warm->point;
  auto copy = [&point] {
    const linux_::WaitLimit limit(Clock::now() + kForkLimit);
    return copy_memory(point, {}, limit);
  }();
  if (!copy) {
    // Its keeper may be of no more use; watch() sees the end, and a new one is made.
    ::kill(point.runner, SIGKILL);
    return fail(copy.error());
  }
  const auto aboard = board(*sandbox, *std::move(copy));
  if (!aboard) return fail(aboard.error());
  auto settled = settle(sandbox, **aboard, point);
  if (settled) set_off(*sandbox);
  return settled;
}

Result<std::shared_ptr<Runners::Aboard>> Runners::board(const Sandbox& sandbox, MemoryCopy copy) const {
  auto mooring = moor(sandbox);
  if (!mooring) return fail(mooring.error());
  const linux_::WaitLimit limit(Clock::now() + kCopyLimit);
  auto boarding = std::move(copy).board(mooring->berth, limit);
  if (!boarding) return fail(boarding.error());
  return std::make_shared<Aboard>(std::move(*mooring), std::move(*boarding));
}

Result<void> Runners::settle(const std::shared_ptr<Sandbox>& sandbox, Aboard& aboard,
                             const ForkPoint& point) {
  const linux_::WaitLimit limit(Clock::now() + kCopyLimit);
  auto twin = std::move(aboard.boarding).settle(point, aboard.mooring.berth, limit);
  if (!twin) return fail(twin.error());
  const auto number = number_inside(twin->runner);
  const pid_t runner = twin->runner;
  keep(sandbox, std::move(*twin));
  auto told = [&]() -> Result<void> {
    if (!number) return fail(number.error());
    std::array<int, 4> descriptors{};
    for (std::size_t i = 0; i < descriptors.size(); ++i) descriptors[i] = aboard.mooring.outside[i].get();
    return linux_::send_packet(sandbox->control.get(), fmt::format("R {}", *number), descriptors);
  }();
  // One that the agent does not know is of no use.
  if (!told) ::kill(runner, SIGKILL);
  return told;
}

void Runners::set_off(const Sandbox& sandbox) {
  if (!sandbox.twin || sandbox.twin->runner < 0) return;
  if (const auto gone = runtime::set_off(*sandbox.twin); !gone)
    log::info("sandbox {}: a new session does not go on: {}", sandbox.id, gone.error().message());
}

Task<void> Runners::watch(std::shared_ptr<Sandbox> sandbox, std::shared_ptr<Twin> twin) {
  const int status = co_await reap(watched(executor_, twin->runner_pidfd.get()), twin->runner);
  twin->runner = -1;
  // It holds the memory still.
  if (twin->keeper > 0) (void)linux_::send_signal(twin->keeper_pidfd.get(), SIGKILL);
  co_await reap(watched(executor_, twin->keeper_pidfd.get()), twin->keeper);
  twin->keeper = -1;
  if (sandbox->twin == twin) sandbox->twin.reset();
  if (!sandbox->control) co_return;
  (void)linux_::send_packet(sandbox->control.get(), fmt::format("E {}", status));
  co_await replace(sandbox);
}

Task<void> Runners::replace(std::shared_ptr<Sandbox> sandbox) {
  // Sessions that end again and again are replaced so often at most.
  constexpr Millis kInterval{500};
  constexpr int kAttempts = 20;
  Result<void> given = fail(ErrorKind::kUnavailable, "its template is not warm");
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    while (Clock::now() < sandbox->next_session) co_await pause(kInterval / 10);
    sandbox->next_session = Clock::now() + kInterval;
    // A fork whose session has ended has the sandbox stand still for its files.
    while (sandbox->is_forking) co_await pause(kInterval / 10);
    if (!is_warm(sandbox->template_name, sandbox->template_root)) continue;
    given = co_await freeze(sandbox);
    // It may have come to its end meanwhile, or its template.
    if (given) {
      given = sandbox->control ? give(sandbox) : Result<void>{};
      (void)sources_.cgroups.thaw(group_of(*sandbox));
    }
    if (given && sandbox->spoilt_forks > 0) --sandbox->spoilt_forks;  // the new one may be tried
    if (given || !sandbox->control) co_return;
  }
  if (!sandbox->control) co_return;
  log::warn("sandbox {}: {}; its session starts by itself", sandbox->id, given.error().message());
  (void)linux_::send_packet(sandbox->control.get(), "P");
}

}  // namespace warren::runtime
