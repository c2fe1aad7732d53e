#include "agent/agent.h"

#include <sys/socket.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "agent/apply.h"
#include "agent/connect.h"
#include "agent/directory.h"
#include "agent/exec.h"
#include "agent/file_read.h"
#include "agent/file_write.h"
#include "agent/process_tree.h"
#include "agent/request.h"

namespace warren::agent {

namespace asio = boost::asio;
namespace json = boost::json;

namespace {

struct ControlMessage {
  std::string text;
  std::vector<UniqueFd> descriptors;
};

// The next message, an empty one while there is none; nothing at the socket's end.
std::optional<ControlMessage> receive(int control) {
  constexpr std::size_t kMostDescriptors = 4;
  std::array<char, 64> text{};
  iovec part{text.data(), text.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostDescriptors * sizeof(int))> ancillary{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = ancillary.data();
  message.msg_controllen = ancillary.size();
  const ssize_t bytes = ::recvmsg(control, &message, MSG_CMSG_CLOEXEC);
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return ControlMessage();
  if (bytes <= 0) return std::nullopt;
  ControlMessage received;
  received.text.assign(text.data(), static_cast<std::size_t>(bytes));
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) return received;
  for (std::size_t at = CMSG_LEN(0); at + sizeof(int) <= header->cmsg_len; at += sizeof(int)) {
    int fd = -1;
    std::memcpy(&fd, reinterpret_cast<const char*>(header) + at, sizeof fd);
    received.descriptors.emplace_back(fd);
  }
  return received;
}

// The number behind the message's letter and a blank.
int number_in(std::string_view message) {
  int number = -1;
  if (message.size() > 2) std::from_chars(message.data() + 2, message.data() + message.size(), number);
  return number;
}

// A failure that nothing below could handle ends the call, not the sandbox.
Task<void> guarded(std::shared_ptr<Stream> stream, Task<void> task) {
  std::string message;
  try {
    co_await std::move(task);
  } catch (const std::exception& error) {
    message = error.what();
  }
  if (!stream->gone()) stream->close(Error(ErrorKind::kInternal, "agent: " + message));
}

}  // namespace

Agent::Agent(asio::io_context& context, UniqueFd control, Options options)
    : context_(context),
      control_(context, control.release()),
      reaper_(context.get_executor()),
      python_(context.get_executor(), reaper_, std::move(options.runner)),
      warm_(options.warm) {}

void Agent::run() {
  control_.non_blocking(true);
  asio::co_spawn(context_, listen(), asio::detached);
  context_.run();
}

Task<void> Agent::listen() {
  for (;;) {
    auto [error] = co_await control_.async_wait(asio::posix::descriptor_base::wait_read,
                                                asio::as_tuple(asio::use_awaitable));
    if (error) break;
    auto message = receive(control_.native_handle());
    if (!message) break;
    if (!message->text.empty()) take(message->text, std::move(message->descriptors));
  }
  context_.stop();
}

void Agent::take(std::string_view message, std::vector<UniqueFd> descriptors) {
  switch (message.front()) {
    case 'C':
      if (descriptors.size() == 1) accept(std::move(descriptors.front()));
      break;
    case 'R':
      if (descriptors.size() == 4)
        python_.give({.pid = number_in(message),
                      .control = std::move(descriptors[0]),
                      .messages = std::move(descriptors[1]),
                      .output = std::move(descriptors[2]),
                      .error = std::move(descriptors[3])});
      break;
    case 'E':
      python_.given_ended(number_in(message));
      break;
    case 'P':
      python_.give_up_waiting();
      break;
    case 'F':
      python_.may_fork();
      break;
    default:
      break;
  }
}

void Agent::accept(UniqueFd socket) {
  if (connection_) connection_->close();
  connection_ = std::make_shared<Connection>(context_.get_executor(), std::move(socket),
                                             [this](std::shared_ptr<Stream> stream, json::object request) {
                                               serve(std::move(stream), std::move(request));
                                             });
  connection_->start();
  if (std::exchange(warm_, false)) python_.warm();
}

void Agent::info(Stream& stream, json::object object) {
  Request request(std::move(object));
  if (auto valid = request.finish(); !valid) return stream.close(valid.error());
  json::object result;
  // Every process but this one.
  result["processes"] = all_processes().size() - 1;
  result["runner"] = python_.state();
  stream.close(result);
}

void Agent::serve(std::shared_ptr<Stream> stream, json::object request) {
  const Executor executor = context_.get_executor();
  const json::value* named = request.if_contains("op");
  const std::string op = named != nullptr && named->is_string() ? std::string(named->get_string()) : "";
  const auto begin = [&](Task<void> task) {
    asio::co_spawn(executor, guarded(stream, std::move(task)), asio::detached);
  };
  if (op == "exec") return begin(exec(executor, reaper_, stream, std::move(request)));
  if (op == "fork") return begin(python_.fork(stream, std::move(request)));
  if (op == "python") return begin(python_.call(stream, std::move(request)));
  if (op == "read") return begin(read_file(stream, std::move(request)));
  if (op == "write") return begin(write_file(stream, std::move(request)));
  if (op == "list") return begin(list_directory(stream, std::move(request)));
  if (op == "stat") return begin(stat_path(stream, std::move(request)));
  if (op == "remove") return begin(remove_path(stream, std::move(request)));
  if (op == "apply") return begin(apply_operations(stream, std::move(request)));
  if (op == "connect") return begin(connect_port(executor, stream, std::move(request)));
  if (op == "info") return info(*stream, std::move(request));
  stream->close(Error(ErrorKind::kInvalid, "unknown op \"" + op + "\""));
}

}  // namespace warren::agent
