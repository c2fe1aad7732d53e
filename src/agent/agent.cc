#include "agent/agent.h"

#include <sys/socket.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

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

// The descriptor of one message; nothing if the socket is at its end.
std::optional<UniqueFd> receive(int control) {
  char text = 0;
  iovec part{&text, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> ancillary{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = ancillary.data();
  message.msg_controllen = ancillary.size();
  const ssize_t bytes = ::recvmsg(control, &message, MSG_CMSG_CLOEXEC);
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return UniqueFd();
  if (bytes <= 0) return std::nullopt;
  UniqueFd received;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
    received.reset(fd);
  }
  if (text != 'C') received.reset();
  return received;
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
  asio::co_spawn(context_, take_connections(), asio::detached);
  context_.run();
}

Task<void> Agent::take_connections() {
  for (;;) {
    auto [error] = co_await control_.async_wait(asio::posix::descriptor_base::wait_read,
                                                asio::as_tuple(asio::use_awaitable));
    if (error) break;
    auto socket = receive(control_.native_handle());
    if (!socket) break;
    if (*socket) accept(*std::move(socket));
  }
  context_.stop();
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
  if (op == "python") return begin(python_.call(stream, std::move(request)));
  if (op == "read") return begin(read_file(stream, std::move(request)));
  if (op == "write") return begin(write_file(stream, std::move(request)));
  if (op == "list") return begin(list_directory(stream, std::move(request)));
  if (op == "stat") return begin(stat_path(stream, std::move(request)));
  if (op == "remove") return begin(remove_path(stream, std::move(request)));
  if (op == "info") return info(*stream, std::move(request));
  stream->close(Error(ErrorKind::kInvalid, "unknown op \"" + op + "\""));
}

}  // namespace warren::agent
