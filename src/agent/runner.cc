#include "agent/runner.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <utility>

#include "agent/output.h"
#include "agent/pipes.h"
#include "agent/random.h"
#include "agent/spawn.h"
#include "wire/protocol.h"

namespace warren::agent {

namespace asio = boost::asio;
namespace json = boost::json;
using wire::Channel;

namespace {

// The runner goes before commands, and long before the agent, when memory runs out.
constexpr int kOomScore = 300;
// How long one that was killed has to end.
constexpr Seconds kLastWait{3};
constexpr std::size_t kMessageRead = std::size_t{256} * 1024;
// As deep as Python's own JSON goes.
constexpr std::size_t kMaxDepth = 1100;

// In the environment of every process that was forked from a template's, which gives them
// one environment (runtime/namespace/runners.cc).
constexpr const char* kAdoptedMark = "WARREN_RUNNER=session";

// A program that prints line after line is listened to so often, since a frame costs all who
// pass it on about the same however short it is. Its pipe takes longer to fill.
constexpr std::chrono::microseconds kGathering{500};
// What follows other output as closely as this is part of such printing.
constexpr std::chrono::microseconds kBurst{1000};
// As much at once is worth a frame.
constexpr std::size_t kWorthwhile = std::size_t{32} * 1024;

bool watch(int epoll, int fd, int operation, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  return ::epoll_ctl(epoll, operation, fd, &event) == 0;
}

bool watch(int epoll, int fd) { return watch(epoll, fd, EPOLL_CTL_ADD, EPOLLIN); }

}  // namespace

Result<std::shared_ptr<Runner>> Runner::start(const Executor& executor, Reaper& reaper,
                                              const std::vector<std::string>& command, Listener& listener) {
  auto ends = make_pipes(Stdin::kNone);
  if (!ends) return fail(std::move(ends).error());
  auto control = make_pipe();
  if (!control) return fail(std::move(control).error());
  auto messages = make_pipe();
  if (!messages) return fail(std::move(messages).error());
  Parts parts;
  parts.control = std::move(control->second);
  parts.messages = std::move(messages->first);
  parts.output = std::move(ends->output);
  parts.error = std::move(ends->error);
  WARREN_TRY(watch_all(parts));

  const std::string id = random_hex(8);
  Program program;
  program.argv = command;
  program.environment = merged({{"WARREN_RUNNER", id}}, default_environment());
  program.directory = "/root";
  program.input = ends->child_input.get();
  program.output = ends->child_output.get();
  program.error = ends->child_error.get();
  program.control_input = control->first.get();
  program.control_output = messages->second.get();
  program.oom_score = kOomScore;
  auto child = spawn(program);
  if (!child) return fail(std::move(child).error());
  const pid_t pid = child->pid();
  parts.child = *std::move(child);
  parts.pid = pid;
  parts.mark = "WARREN_RUNNER=" + id;
  auto runner = std::make_shared<Runner>(executor, std::move(parts), listener);
  reaper.watch(pid, [runner](int status) { runner->take_end(status); });
  asio::co_spawn(executor, runner->run(), asio::detached);
  return runner;
}

Result<std::shared_ptr<Runner>> Runner::adopt(const Executor& executor, Given given, Listener& listener) {
  Parts parts;
  parts.control = std::move(given.control);
  parts.messages = std::move(given.messages);
  parts.output = std::move(given.output);
  parts.error = std::move(given.error);
  parts.pid = given.pid;
  parts.mark = kAdoptedMark;
  WARREN_TRY(watch_all(parts));
  auto runner = std::make_shared<Runner>(executor, std::move(parts), listener);
  asio::co_spawn(executor, runner->run(), asio::detached);
  return runner;
}

Result<void> Runner::watch_all(Parts& parts) {
  parts.epoll.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!parts.epoll || !watch(parts.epoll.get(), parts.messages.get()) ||
      !watch(parts.epoll.get(), parts.output.get()) || !watch(parts.epoll.get(), parts.error.get()))
    return fail_errno("epoll");
  for (const int fd : {parts.control.get(), parts.messages.get(), parts.output.get(), parts.error.get()})
    ::fcntl(fd, F_SETFL, O_NONBLOCK);
  return {};
}

Runner::Runner(const Executor& executor, Parts parts, Listener& listener)
    : executor_(executor),
      output_(std::move(parts.output)),
      error_(std::move(parts.error)),
      messages_(std::move(parts.messages)),
      control_(executor, parts.control.release()),
      epoll_(executor, parts.epoll.release()),
      child_(std::move(parts.child)),
      adopted_(child_.pid() < 0),
      pid_(parts.pid),
      mark_(std::move(parts.mark)),
      listener_(listener),
      ended_(executor),
      last_wait_(executor),
      gathering_(executor) {}

void Runner::take_end(int status) {
  if (status_) return;
  status_ = status;
  last_wait_.cancel();
  ended_.notify();
  epoll_.cancel();
}

Task<void> Runner::run() {
  auto self = shared_from_this();
  if (!adopted_) {
    auto executed = co_await child_.executed(executor_);
    if (!executed) failure_ = executed.error().message();
  }
  for (;;) {
    // The end is looked at first: what it left behind is then all read below.
    const bool ended = status_.has_value();
    const bool open = read_messages();
    const std::size_t output = readable_bytes(output_.get());
    const std::size_t error = readable_bytes(error_.get());
    co_await forward(output_, Channel::kOutput, output);
    co_await forward(error_, Channel::kError, error);
    co_await take_lines();
    if (ended) break;
    if (!open) {
      // It ends by itself, or has closed its pipe and lives on, of no use to anyone.
      const auto patience = Clock::now() + Seconds(1);
      while (!status_ && Clock::now() < patience) co_await ended_.wait_until(patience);
      if (!status_) offend("closed its connection to the agent");
      while (!status_) co_await ended_.wait();
      continue;
    }
    if (status_) continue;
    co_await wait_after(output + error);
    drop_ended_pipes();
  }
  // Children of it may live on and hold its pipes.
  drain_to_nowhere(executor_, std::move(output_));
  drain_to_nowhere(executor_, std::move(error_));
  listener_.on_ended(*this);
}

Task<void> Runner::wait_after(std::size_t forwarded) {
  const auto now = Clock::now();
  const bool gathers = forwarded > 0 && forwarded < kWorthwhile && now - last_output_ < kBurst;
  if (forwarded > 0) last_output_ = now;
  if (gathers) {
    watch_output(0);
    gathering_.expires_after(kGathering);
    gathering_.async_wait([watched = weak_from_this()](const boost::system::error_code& error) {
      const auto self = watched.lock();
      if (!error && self) self->epoll_.cancel();
    });
  }
  co_await epoll_.async_wait(asio::posix::descriptor_base::wait_read, asio::as_tuple(asio::use_awaitable));
  if (gathers) {
    gathering_.cancel();
    watch_output(EPOLLIN);
  }
}

void Runner::watch_output(std::uint32_t events) {
  for (const int fd : {output_.get(), error_.get()})
    if (fd >= 0) watch(epoll_.native_handle(), fd, EPOLL_CTL_MOD, events);
}

void Runner::drop_ended_pipes() {
  std::array<epoll_event, 3> events{};
  const int count = ::epoll_wait(epoll_.native_handle(), events.data(), events.size(), 0);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    if ((event.events & EPOLLHUP) == 0 || readable_bytes(event.data.fd) > 0) continue;
    // It would be reported for ever.
    if (event.data.fd == output_.get()) output_.reset();
    if (event.data.fd == error_.get()) error_.reset();
  }
}

bool Runner::read_messages() {
  const std::size_t old_size = lines_.size();
  lines_.resize(old_size + kMessageRead);
  ssize_t bytes = 0;
  do {
    bytes = ::read(messages_.get(), lines_.data() + old_size, kMessageRead);
  } while (bytes < 0 && errno == EINTR);
  lines_.resize(old_size + (bytes > 0 ? static_cast<std::size_t>(bytes) : 0));
  return bytes > 0 || (bytes < 0 && errno == EAGAIN);
}

Task<void> Runner::forward(UniqueFd& pipe, Channel channel, std::size_t bytes) {
  if (!pipe) co_return;
  while (bytes > 0) {
    const std::size_t room = co_await listener_.output_room(channel);
    auto piece = read_some(pipe.get(), std::min(room, bytes));
    if (!piece || piece->empty()) break;
    bytes -= piece->size();
    listener_.on_output(channel, *std::move(piece));
  }
}

Task<void> Runner::take_lines() {
  std::size_t begin = 0;
  for (;;) {
    const std::size_t end = lines_.find('\n', std::max(begin, searched_));
    if (end == std::string::npos) break;
    const std::string_view line(lines_.data() + begin, end - begin);
    json::parse_options options;
    options.max_depth = kMaxDepth;
    boost::system::error_code error;
    json::value value = json::parse(line, error, {}, options);
    begin = end + 1;
    searched_ = begin;
    if (error || !value.is_object()) {
      offend("sent garbage to the agent");
      lines_.clear();
      searched_ = 0;
      co_return;
    }
    co_await listener_.on_message(std::move(value.get_object()));
  }
  lines_.erase(0, begin);
  searched_ = lines_.size();
  if (lines_.size() > wire::kMaxMessage) {
    offend("sent too long a message to the agent");
    lines_ = {};
    searched_ = 0;
  }
}

void Runner::offend(std::string offence) {
  if (status_ || killed_) return;
  offence_ = std::move(offence);
  kill_itself();
}

void Runner::kill_itself() {
  killed_ = true;
  ::kill(pid_, SIGKILL);
  last_wait_.expires_after(kLastWait);
  last_wait_.async_wait([watched = weak_from_this()](const boost::system::error_code& error) {
    const auto self = watched.lock();
    // As waitpid(2) would have it.
    if (!error && self) self->take_end(SIGKILL);
  });
}

void Runner::send(const json::object& message) {
  asio::co_spawn(executor_, write(json::serialize(message) + "\n"), asio::detached);
}

Task<void> Runner::write(std::string line) {
  auto self = shared_from_this();
  std::string_view rest = line;
  while (!rest.empty() && !status_) {
    const ssize_t bytes = ::write(control_.native_handle(), rest.data(), rest.size());
    if (bytes > 0) {
      rest.remove_prefix(static_cast<std::size_t>(bytes));
    } else if (bytes < 0 && errno == EAGAIN) {
      auto [error] = co_await control_.async_wait(asio::posix::descriptor_base::wait_write,
                                                  asio::as_tuple(asio::use_awaitable));
      if (error) break;
    } else if (errno != EINTR) {
      break;  // run() sees the end
    }
  }
}

std::vector<ProcessInfo> Runner::descendants(const StartOrder& since) const {
  std::vector<ProcessInfo> found = Family(pid_, mark_).find();
  std::erase_if(found, [&](const ProcessInfo& process) {
    return process.pid == pid_ || !started_after(process, since);
  });
  return found;
}

void Runner::interrupt(const StartOrder& since) const {
  if (status_) return;
  // Children first, so that the runner does not wait for one that has not been told.
  signal_all(descendants(since), SIGINT);
  ::kill(pid_, SIGINT);
}

void Runner::kill(const StartOrder& since) {
  const auto found = descendants(since);
  if (!status_) kill_itself();
  signal_all(found, SIGKILL);
  // Those that were started while the others were being looked for.
  signal_all(descendants(since), SIGKILL);
}

}  // namespace warren::agent
