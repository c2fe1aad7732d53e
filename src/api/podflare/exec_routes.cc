#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <optional>

#include "api/podflare/answers.h"
#include "api/podflare/event_lines.h"
#include "api/podflare/requests.h"
#include "api/podflare/routes.h"

namespace warren::api::podflare {
namespace {

namespace asio = boost::asio;

// How long the head of an answer may wait for the first event, which may be a
// refusal that deserves a status of its own.
constexpr Millis kHeadPatience{200};

// What has come already goes out in one piece, up to so many bytes.
constexpr std::size_t kGathered = 64 << 10;

// Lines of an answer, and whether more follow.
struct Piece {
  enum class End { kOpen, kWhole, kBrokenOff };
  std::string text;
  End end = End::kOpen;
};

// The lines of `event` and of what has come behind it.
Task<Piece> gather(std::shared_ptr<service::Execution> execution, EventLines& lines,
                   Result<service::ExecEvent> event) {
  Piece piece;
  while (true) {
    if (!event) {
      piece.text += lines.broken(event.error());
      piece.end = Piece::End::kBrokenOff;
      break;
    }
    piece.text += lines.lines(*event);
    if (std::holds_alternative<service::Finished>(*event)) {
      piece.end = Piece::End::kWhole;
      break;
    }
    if (piece.text.size() >= kGathered || !execution->has_next()) break;
    event = co_await execution->next();
  }
  co_return piece;
}

// The first event of an execution, awaited beside a timer that its arrival cancels.
struct First {
  explicit First(const Executor& executor) : timer(executor) {}
  asio::steady_timer timer;
  std::optional<Result<service::ExecEvent>> event;
};

Task<void> await_first(std::shared_ptr<service::Execution> execution, std::shared_ptr<First> first) {
  first->event = co_await execution->next();
  first->timer.cancel();
}

Task<void> wait(First& first) {
  boost::system::error_code ignored;  // cancelled: the event is there
  co_await first.timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
}

// What the service calls a command is this face's `code`.
Error in_own_words(Error error) {
  constexpr std::string_view kServiceName = "command:";
  if (!error.message().starts_with(kServiceName)) return error;
  return {error.kind(), "code:" + error.message().substr(kServiceName.size())};
}

Task<void> exec(std::shared_ptr<Face> face, service::Caller caller, http::Request& request,
                http::ResponseWriter& writer) {
  const auto body = co_await request.body->read_all(kMaxBody);
  auto wanted = body ? read_exec(*body, face->settings) : std::unexpected(body.error());
  if (!wanted) {
    co_await refuse(writer, std::move(wanted).error());
    co_return;
  }
  auto& id = request.params.at("id");
  Result<std::shared_ptr<service::Execution>> execution;
  if (auto* bash = std::get_if<service::BashCall>(&*wanted)) {
    execution = co_await face->sandboxes.run_bash(std::move(caller), id, std::move(*bash));
  } else {
    auto& python = std::get<service::PythonCall>(*wanted);
    execution = co_await face->sandboxes.run_python(std::move(caller), id, std::move(python));
  }
  if (!execution) {
    co_await refuse(writer, in_own_words(std::move(execution).error()));
    co_return;
  }
  http::Headers headers;
  co_await stream_execution(std::move(*execution), std::move(headers), writer);
}

}  // namespace

Task<void> stream_execution(std::shared_ptr<service::Execution> execution, http::Headers headers,
                            http::ResponseWriter& writer) {
  writer.on_disconnect([weak = std::weak_ptr(execution)] {
    if (const auto held = weak.lock()) held->cancel();
  });

  const auto executor = co_await asio::this_coro::executor;
  const auto held_first = std::make_shared<First>(executor);
  First& first = *held_first;
  first.timer.expires_after(kHeadPatience);
  asio::co_spawn(executor, await_first(execution, held_first), asio::detached);
  if (!first.event) co_await wait(first);
  if (first.event && !*first.event) {
    co_await refuse(writer, first.event->error());
    co_return;
  }

  headers.set("Content-Type", "application/x-ndjson");
  headers.set("Cache-Control", "no-store");
  headers.set("X-Accel-Buffering", "no");
  EventLines lines;
  // Of the first event, which may come at any wait from here on.
  std::optional<Piece> gathered;
  if (first.event) {
    auto gathering = gather(execution, lines, std::move(*first.event));
    gathered = co_await std::move(gathering);
    if (gathered->end == Piece::End::kWhole) {
      writer.on_disconnect({});
      http::Response whole{.status = 200, .headers = std::move(headers), .body = std::move(gathered->text)};
      (void)co_await writer.send(std::move(whole));
      co_return;
    }
  }
  const auto begun = co_await writer.begin(200, std::move(headers));
  if (!begun) execution->cancel();
  while (!first.event) {
    first.timer.expires_at(Clock::time_point::max());
    co_await wait(first);
  }
  if (!begun) co_return;
  if (!gathered) {
    auto gathering = gather(execution, lines, std::move(*first.event));
    gathered = co_await std::move(gathering);
  }

  Piece piece = *std::move(gathered);
  while (true) {
    if (!piece.text.empty()) {
      const auto written = co_await writer.write(std::move(piece.text));
      if (!written) co_return;
    }
    // Without finish(): what came is not the whole, and the client sees it.
    if (piece.end == Piece::End::kBrokenOff) co_return;
    if (piece.end == Piece::End::kWhole) break;
    auto event = co_await execution->next();
    auto gathering = gather(execution, lines, std::move(event));
    piece = co_await std::move(gathering);
  }
  writer.on_disconnect({});
  (void)co_await writer.finish();
}

void add_exec_routes(http::Router& router, const std::shared_ptr<Face>& face) {
  add_route(router, face, "POST", "/v1/sandboxes/{id}/exec", exec);
}

}  // namespace warren::api::podflare
