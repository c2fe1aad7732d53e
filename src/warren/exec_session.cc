#include "warren/exec_session.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json/serialize.hpp>
#include <csignal>
#include <optional>

#include "api/arguments.h"
#include "base/base64.h"
#include "warren/console.h"

namespace warren::cli {
namespace {

namespace asio = boost::asio;
namespace json = boost::json;

bool set_at(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  return value != nullptr && value->is_bool() && value->get_bool();
}

// Shows what one line of the answer says; the exit status if it is the exit.
class EventPrinter {
 public:
  Result<std::optional<int>> show(const std::string& line) {
    auto event = api::parse_object(line, "a line of the server's answer");
    if (!event) return std::unexpected(std::move(event).error());
    const auto type = text_at(*event, "type");
    if (type == "stdout" || type == "stderr")
      return output(*event, type == "stdout" ? STDOUT_FILENO : STDERR_FILENO);
    if (type == "result" || type == "display") return bundle(*event);
    if (type == "error") return error(*event);
    if (type == "exit") return exit(*event);
    return std::nullopt;  // a kind of event that this version knows nothing of
  }

 private:
  static Result<std::optional<int>> output(const json::object& event, int fd) {
    const auto encoded = text_at(event, "data_base64");
    WARREN_TRY(print(fd, encoded.empty() ? text_at(event, "data") : decode_base64(encoded).value_or("")));
    return std::nullopt;
  }

  static Result<std::optional<int>> bundle(const json::object& event) {
    const auto* data = event.if_contains("data");
    if (data == nullptr || !data->is_object()) return std::nullopt;
    const auto& bundle = data->get_object();
    const auto text = text_at(bundle, "text/plain");
    if (!text.empty()) WARREN_TRY(print(STDOUT_FILENO, text + "\n"));
    for (const auto& [mime, value] : bundle) {
      const std::string_view name = mime;
      if (!name.starts_with("image/")) continue;
      WARREN_TRY(print(STDERR_FILENO, fmt::format("[{} not shown here; the API has it]\n", name)));
    }
    return std::nullopt;
  }

  static Result<std::optional<int>> error(const json::object& event) {
    const auto* data = event.if_contains("data");
    if (data == nullptr || !data->is_object()) return std::nullopt;
    const auto& error = data->get_object();
    if (set_at(event, "fatal")) return fail(ErrorKind::kUnavailable, text_at(error, "value"));
    auto text = text_at(error, "traceback");
    if (text.empty()) text = text_at(error, "name") + ": " + text_at(error, "value");
    if (!text.ends_with('\n')) text += '\n';
    WARREN_TRY(print(STDERR_FILENO, text));
    return std::nullopt;
  }

  static Result<std::optional<int>> exit(const json::object& event) {
    const auto* data = event.if_contains("data");
    if (data == nullptr || !data->is_int64())
      return fail(ErrorKind::kInternal, "the server sent an exit without a status");
    if (set_at(event, "timed_out")) WARREN_TRY(print(STDERR_FILENO, "warren: the deadline passed\n"));
    const auto died = text_at(event, "died");
    if (!died.empty())
      WARREN_TRY(print(STDERR_FILENO, fmt::format("warren: the Python process was lost: {}\n", died)));
    if (set_at(event, "oom")) WARREN_TRY(print(STDERR_FILENO, "warren: the sandbox ran out of memory\n"));
    return std::optional(static_cast<int>(data->get_int64()));
  }
};

// Prints the answer's events to their end.
Task<Result<int>> follow(std::shared_ptr<http::ClientResponse> response) {
  LineReader lines(std::move(response));
  EventPrinter printer;
  while (true) {
    auto next = co_await lines.next();
    if (!next) co_return fail(std::move(next).error().in("the output broke off before the command's end"));
    const std::optional<std::string> line = std::move(*next);
    if (!line) co_return fail(ErrorKind::kUnavailable, "the output ended before the command did");
    const auto shown = printer.show(*line);
    if (!shown) co_return std::unexpected(shown.error());
    const std::optional<int> status = *shown;
    if (status) co_return *status;
  }
}

http::ClientRequest post(std::string target, const json::object& body) {
  http::ClientRequest request;
  request.method = "POST";
  request.target = std::move(target);
  request.headers.set("Content-Type", "application/json");
  request.body = json::serialize(body);
  return request;
}

// Standard input as it comes; empty at its end.
class Input {
 public:
  explicit Input(const asio::any_io_executor& executor) {
    struct stat status {};
    if (fstat(STDIN_FILENO, &status) != 0 || S_ISREG(status.st_mode))
      return;  // always ready, and epoll refuses it
    const int own = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    if (own >= 0) stream_.emplace(executor, own);
  }

  Task<std::string> read() {
    std::array<char, 16384> buffer{};
    if (!stream_) {
      const auto got = ::read(STDIN_FILENO, buffer.data(), buffer.size());
      co_return std::string(buffer.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
    }
    // Waits without O_NONBLOCK, which would be the shell's descriptor's too.
    boost::system::error_code error;
    co_await stream_->async_wait(asio::posix::stream_descriptor::wait_read,
                                 asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return std::string();
    const auto got = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    co_return std::string(buffer.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
  }

 private:
  std::optional<asio::posix::stream_descriptor> stream_;
};

Task<void> send_input(std::shared_ptr<ApiClient> client, std::string terminal) {
  const auto executor = co_await asio::this_coro::executor;
  Input input(executor);
  while (true) {
    auto bytes = co_await input.read();
    const bool end = bytes.empty();
    http::ClientRequest request;
    request.method = "POST";
    request.target = terminal + "/input";
    request.headers.set("Content-Type", "application/octet-stream");
    request.body = end ? std::string("\x04") : std::move(bytes);  // Ctrl-D is how a terminal says end of file
    const auto sent = co_await client->send(std::move(request));
    if (!sent || end) co_return;
  }
}

Task<void> send_sizes(std::shared_ptr<ApiClient> client, std::string terminal) {
  const auto executor = co_await asio::this_coro::executor;
  asio::signal_set changed(executor, SIGWINCH);
  while (true) {
    boost::system::error_code error;
    co_await changed.async_wait(asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return;
    const auto size = window_size();
    json::object body{{"rows", size.rows}, {"columns", size.columns}};
    const auto sent = co_await client->call("POST", terminal + "/resize", std::move(body));
    if (!sent) co_return;
  }
}

}  // namespace

Task<Result<int>> follow_exec(std::shared_ptr<ApiClient> client, std::string id, json::object body) {
  auto request = post("/v1/sandboxes/" + id + "/exec", body);
  auto response = co_await client->send(std::move(request));
  if (!response) co_return std::unexpected(std::move(response).error());
  co_return co_await follow(std::move(*response));
}

Task<Result<int>> follow_terminal(std::shared_ptr<ApiClient> client, std::string id, json::object body) {
  const auto size = window_size();
  body["rows"] = size.rows;
  body["columns"] = size.columns;
  const auto terminals = "/v1/sandboxes/" + id + "/terminals";
  auto request = post(terminals, body);
  auto response = co_await client->send(std::move(request));
  if (!response) co_return std::unexpected(std::move(response).error());
  const auto name = (*response)->headers().get("Warren-Terminal");
  if (!name) co_return fail(ErrorKind::kInternal, "the server opened a terminal but did not name it");
  const auto terminal = terminals + "/" + std::string(*name);

  const RawTerminal raw;
  const auto executor = co_await asio::this_coro::executor;
  asio::co_spawn(executor, send_input(client, terminal), asio::detached);
  asio::co_spawn(executor, send_sizes(client, terminal), asio::detached);
  co_return co_await follow(std::move(*response));
}

}  // namespace warren::cli
