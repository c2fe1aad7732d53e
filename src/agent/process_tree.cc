#include "agent/process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <string_view>

#include "agent/event.h"
#include "base/unique_fd.h"
#include "wire/protocol.h"

namespace warren::agent {
namespace {

// More of an environment than this is not searched for the mark.
constexpr std::size_t kEnvironmentLimit = std::size_t{256} * 1024;
constexpr Millis kKillPatience{3000};

std::string read_file(const std::string& path, std::size_t limit) {
  std::string text;
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return text;
  char part[4096];
  while (text.size() < limit) {
    const ssize_t bytes = ::read(file.get(), part, sizeof part);
    if (bytes <= 0) break;
    text.append(part, static_cast<std::size_t>(bytes));
  }
  return text;
}

std::optional<ProcessInfo> read_process(pid_t pid) {
  const std::string stat = read_file("/proc/" + std::to_string(pid) + "/stat", 4096);
  // The name, in parentheses, may contain anything; the last ")" ends it.
  const std::size_t end = stat.rfind(')');
  if (end == std::string::npos) return std::nullopt;
  ProcessInfo info;
  info.pid = pid;
  std::size_t at = end + 2;
  for (int field = 3; field <= 22 && at < stat.size(); ++field) {
    const std::size_t next = std::min(stat.find(' ', at), stat.size());
    const std::string_view text(stat.data() + at, next - at);
    at = next + 1;
    std::uint64_t number = 0;
    std::from_chars(text.data(), text.data() + text.size(), number);
    if (field == 3) info.state = text.empty() ? '?' : text[0];
    if (field == 4) info.parent = static_cast<pid_t>(number);
    if (field == 5) info.group = static_cast<pid_t>(number);
    if (field == 6) info.session = static_cast<pid_t>(number);
    if (field == 22) info.started = number;
  }
  return info;
}

bool carries(pid_t pid, const std::string& mark) {
  if (mark.empty()) return false;
  const std::string environment = read_file("/proc/" + std::to_string(pid) + "/environ", kEnvironmentLimit);
  const std::size_t at = environment.find(mark);
  if (at == std::string::npos || (at > 0 && environment[at - 1] != '\0')) return false;
  return at + mark.size() >= environment.size() || environment[at + mark.size()] == '\0';
}

Task<bool> wait_for_end(Event& event, const FindProcesses& find, Clock::time_point until, int signal) {
  Millis pause{2};
  for (;;) {
    const auto left = find();
    if (left.empty()) co_return true;
    if (signal != 0) signal_all(left, signal);
    if (Clock::now() >= until) co_return false;
    co_await event.wait_until(std::min(until, Clock::now() + pause));
    pause = std::min(pause * 2, Millis{50});
  }
}

}  // namespace

std::vector<ProcessInfo> all_processes() {
  std::vector<ProcessInfo> processes;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc"), ::closedir);
  if (!folder) return processes;
  while (const dirent* entry = ::readdir(folder.get())) {
    pid_t pid = 0;
    const char* end = entry->d_name + std::strlen(entry->d_name);
    const auto [rest, error] = std::from_chars(entry->d_name, end, pid);
    if (error != std::errc{} || rest != end) continue;
    if (auto info = read_process(pid); info && info->state != 'Z' && info->state != 'X')
      processes.push_back(*info);
  }
  return processes;
}

std::vector<std::string> command_lines(pid_t without) {
  constexpr std::size_t kMost = 64;
  constexpr std::size_t kLongest = 200;
  std::vector<std::string> lines;
  for (const ProcessInfo& process : all_processes()) {
    if (process.pid == 1 || process.pid == without || lines.size() == kMost) continue;
    std::string line = read_file("/proc/" + std::to_string(process.pid) + "/cmdline", kLongest);
    while (!line.empty() && line.back() == '\0') line.pop_back();
    if (line.empty()) continue;  // it is ending
    if (line.size() > kLongest) line.resize(kLongest);
    for (char& letter : line) {
      if (letter == '\0') letter = ' ';
      if (letter < ' ' || letter > '~') letter = '?';
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

std::vector<ProcessInfo> Family::find() {
  const auto all = all_processes();
  const pid_t self = ::getpid();
  std::set<pid_t> mine{root_};
  std::vector<ProcessInfo> found;
  std::vector<ProcessInfo> others;
  for (const ProcessInfo& process : all) {
    if (process.pid == self || process.pid == 1) continue;
    const bool member = process.pid == root_ || process.session == root_ || process.group == root_ ||
                        known_.contains({process.pid, process.started}) || carries(process.pid, mark_);
    (member ? found : others).push_back(process);
    if (member) mine.insert(process.pid);
  }
  for (bool grown = true; grown;) {
    grown = false;
    for (auto process = others.begin(); process != others.end();) {
      if (!mine.contains(process->parent)) {
        ++process;
        continue;
      }
      mine.insert(process->pid);
      found.push_back(*process);
      process = others.erase(process);
      grown = true;
    }
  }
  for (const ProcessInfo& process : found) known_.emplace(process.pid, process.started);
  return found;
}

StartOrder start_order_now() {
  StartOrder order;
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  const auto rate = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
  order.ticks = static_cast<std::uint64_t>(now.tv_sec) * rate +
                static_cast<std::uint64_t>(now.tv_nsec) * rate / 1'000'000'000;
  // The last word is the id given out last in this namespace.
  const std::string load = read_file("/proc/loadavg", 256);
  const std::size_t at = load.rfind(' ');
  if (at != std::string::npos)
    std::from_chars(load.data() + at + 1, load.data() + load.size(), order.last_pid);
  return order;
}

bool started_after(const ProcessInfo& process, const StartOrder& moment) {
  // Within one tick the ids tell the order.
  if (process.started == moment.ticks) return process.pid > moment.last_pid;
  return process.started > moment.ticks;
}

void signal_all(const std::vector<ProcessInfo>& processes, int signal) {
  for (const ProcessInfo& process : processes) {
    ::kill(process.pid, signal);
    // A stopped one takes no signal but SIGKILL.
    if (signal != SIGKILL && process.state == 'T') ::kill(process.pid, SIGCONT);
  }
}

Task<void> end_processes(Executor executor, FindProcesses find) {
  Event event(executor);
  signal_all(find(), SIGTERM);
  const bool ended = co_await wait_for_end(event, find, Clock::now() + wire::kKillGrace, 0);
  if (!ended) co_await kill_processes(executor, std::move(find));
}

Task<void> kill_processes(Executor executor, FindProcesses find) {
  Event event(executor);
  co_await wait_for_end(event, find, Clock::now() + kKillPatience, SIGKILL);
}

}  // namespace warren::agent
