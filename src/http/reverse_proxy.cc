#include "http/reverse_proxy.h"

#include <fmt/format.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <optional>
#include <utility>

#include "http/incoming_body.h"
#include "http/relay.h"

namespace warren::http {
namespace {

namespace asio = boost::asio;

constexpr auto kAwaitTuple = asio::as_tuple(asio::use_awaitable);
constexpr Clock::time_point kNever = Clock::time_point::max();
constexpr HeadLimits kHeadLimits{.target_bytes = 8UL * 1024, .head_bytes = 64UL * 1024};
constexpr std::size_t kHeadReadBytes = 64UL * 1024;
// Answers of 1xx before the one that counts.
constexpr int kMostInterim = 32;
// How long the body waits for a server that does not say whether it wants it (RFC 9110, 10.1.1).
constexpr Millis kContinueLimit{1'000};

// The request's body on its way to the server, while the answer may come already.
struct Upload {
  Upload(const Executor& executor, std::shared_ptr<RawConnection> to)
      : server(std::move(to)), changed(executor), ended(executor) {}

  std::shared_ptr<RawConnection> server;
  asio::cancellation_signal stop;
  asio::steady_timer changed;  // woken when go_on is
  asio::steady_timer ended;
  bool go_on = true;  // false while the server's 100 is waited for
  bool running = false;
  bool at_server = true;  // it is the server that is waited for, since:
  Clock::time_point since = Clock::now();
  std::optional<Error> client_error;
};

// Sends one piece as it is or as a chunk.
Task<Result<void>> send_piece(RawConnection& server, std::string piece, const ForwardedHead& head) {
  if (!head.chunked) co_return co_await server.write(std::move(piece));
  std::string chunk = fmt::format("{:x}\r\n", piece.size());
  chunk.reserve(chunk.size() + piece.size() + 2);
  chunk += piece;
  chunk += "\r\n";
  co_return co_await server.write(std::move(chunk));
}

Task<void> send_body(std::shared_ptr<Upload> upload, BodyReader& body, const ForwardedHead& head) {
  if (!upload->go_on) {
    upload->changed.expires_after(kContinueLimit);
    co_await upload->changed.async_wait(kAwaitTuple);
  }
  for (;;) {
    upload->at_server = false;
    auto piece = co_await body.read();
    upload->at_server = true;
    upload->since = Clock::now();
    if (!piece) {
      upload->client_error = std::move(piece).error();
      // What was promised does not come: the server must not take what it has for all.
      upload->server->close();
      co_return;
    }
    const bool last = piece->empty();
    if (last && !head.chunked) co_return;
    auto sent = co_await send_piece(*upload->server, *std::move(piece), head);
    upload->since = Clock::now();
    // A server that takes no more may have answered: that is the reader's to find.
    if (!sent || last) co_return;
  }
}

void start(const Executor& executor, const std::shared_ptr<Upload>& upload, BodyReader& body,
           const ForwardedHead& head) {
  upload->running = true;
  asio::co_spawn(executor, send_body(upload, body, head),
                 asio::bind_cancellation_slot(upload->stop.slot(), [upload](const std::exception_ptr&) {
                   upload->running = false;
                   upload->ended.cancel();
                 }));
}

// After which nothing uses the request's body any more.
Task<void> stop(std::shared_ptr<Upload> upload) {
  upload->server->close();
  if (!upload->running) co_return;
  upload->stop.emit(asio::cancellation_type::terminal);
  while (upload->running) {
    upload->ended.expires_at(kNever);
    co_await upload->ended.async_wait(kAwaitTuple);
  }
}

class Exchange {
 public:
  Exchange(Request& request, ResponseWriter& writer, std::shared_ptr<RawConnection> server, ForwardTo to)
      : request_(request),
        writer_(writer),
        server_(std::move(server)),
        to_(std::move(to)),
        source_(server_) {}

  Task<void> run() {
    const Executor executor = co_await asio::this_coro::executor;
    const ForwardedHead head = forwarded_request(request_, to_);
    upgrades_ = head.upgrades;
    upload_ = std::make_shared<Upload>(executor, server_);
    writer_.on_disconnect([server = server_, this] {
      client_gone_ = true;
      server->close();
    });
    auto sent = co_await server_->write(head.bytes);
    const auto length = request_.body->length();
    const bool has_body = !length || *length > 0;
    upload_->go_on = !head.expects_continue;
    if (sent && has_body) start(executor, upload_, *request_.body, head);
    co_await answer();
    co_await stop(upload_);
    writer_.on_disconnect({});
  }

 private:
  Task<void> answer() {
    auto head = co_await read_answer_head();
    if (client_gone_) {
      // Nobody hears it; every request has an answer.
      Error gone(ErrorKind::kCancelled, "the client went away");
      co_return co_await refuse(std::move(gone), 502);
    }
    if (!head) {
      const auto& of_client = upload_->client_error;
      Error error = of_client ? *of_client : std::move(head).error();
      const int status = of_client ? 400 : error.kind() == ErrorKind::kTimeout ? 504 : 502;
      co_return co_await refuse(std::move(error), status);
    }
    const bool upgraded = head->status == 101;
    if (upgraded) co_return co_await tunnel(std::move(*head));
    co_await pass_on(std::move(*head));
  }

  Task<void> refuse(Error error, int status) {
    Response response = json_response(status, error_body(error.message()));
    response.headers.set("Connection", "close");
    (void)co_await writer_.send(std::move(response));
  }

  static std::string error_body(std::string_view message) {
    std::string text = R"({"error":")";
    for (const char c : message) {
      if (c == '"' || c == '\\') text += '\\';
      text += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
    return text + "\"}\n";
  }

  // Waits for the next bytes of the answer's head: without limit while the client still sends.
  Task<Result<std::size_t>> fill() {
    for (;;) {
      const auto deadline = upload_->since + to_.answer_limit;
      auto got = co_await source_.fill(kHeadReadBytes, deadline);
      if (got || got.error().kind() != ErrorKind::kTimeout) co_return got;
      const bool slow_client = upload_->running && !upload_->at_server;
      if (slow_client) upload_->since = Clock::now();
      if (!slow_client && Clock::now() >= upload_->since + to_.answer_limit)
        co_return fail(ErrorKind::kTimeout,
                       fmt::format("the server in the sandbox did not answer within {} s",
                                   std::chrono::duration_cast<Seconds>(to_.answer_limit).count()));
    }
  }

  Task<Result<ResponseHead>> read_answer_head() {
    for (int interim = 0; interim <= kMostInterim; ++interim) {
      HeadScanner scanner(kHeadLimits);
      auto state = scanner.scan(source_.buffered());
      while (state == HeadScanner::State::kMore) {
        auto got = co_await fill();
        if (!got) co_return std::unexpected(std::move(got).error());
        if (*got == 0)
          co_return fail(ErrorKind::kUnavailable,
                         "the server in the sandbox closed the connection without an answer");
        state = scanner.scan(source_.buffered());
      }
      if (state == HeadScanner::State::kBad) co_return nonsense(scanner.error().message);
      auto head = parse_response_head(source_.buffered().substr(0, scanner.head_bytes()), request_.method);
      if (!head) co_return nonsense(head.error().message);
      source_.consume(scanner.head_bytes());
      if (head->status < 100 || head->status > 599) co_return nonsense("its status is none");
      if (head->status == 101 && !upgrades_)
        co_return nonsense("it upgrades a connection that nobody wants upgraded");
      if (head->status == 101 || head->status >= 200) co_return *std::move(head);
      if (head->status == 100) {
        upload_->go_on = true;
        upload_->changed.cancel();
      }
    }
    co_return nonsense("it says nothing but 1xx");
  }

  static std::unexpected<Error> nonsense(const std::string& why) {
    return fail(ErrorKind::kUnavailable, "what the server in the sandbox answers is not HTTP: " + why);
  }

  Headers dressed(const ResponseHead& head) const {
    Headers headers = forwarded_answer(head.headers, head.framing.kind);
    if (to_.dress_answer) to_.dress_answer(headers, head.status);
    return headers;
  }

  Task<void> pass_on(ResponseHead head) {
    Headers headers = dressed(head);
    auto begun = co_await writer_.begin(head.status, std::move(headers));
    if (!begun) co_return;
    IncomingBody body(source_, head.framing);
    while (!body.finished()) {
      auto piece = co_await body.read(kNever);
      // Without the end, so that the client can tell.
      if (!piece) co_return;
      if (piece->empty()) break;
      auto written = co_await writer_.write(*std::move(piece));
      if (!written) co_return;
    }
    (void)co_await writer_.finish();
  }

  Task<void> tunnel(ResponseHead head) {
    Headers headers = dressed(head);
    if (const auto protocol = head.headers.get("Upgrade")) headers.set("Upgrade", std::string(*protocol));
    auto client = co_await writer_.upgrade(std::move(headers));
    if (!client) co_return;
    // From here on both ends are heard by being read.
    writer_.on_disconnect({});
    const std::string early(source_.buffered());
    co_await relay(**client, server_, early);
  }

  Request& request_;
  ResponseWriter& writer_;
  std::shared_ptr<RawConnection> server_;
  ForwardTo to_;
  RawSource source_;
  std::shared_ptr<Upload> upload_;
  bool upgrades_ = false;
  bool client_gone_ = false;
};

}  // namespace

Task<void> forward(Request& request, ResponseWriter& writer, std::shared_ptr<RawConnection> server,
                   ForwardTo to) {
  Exchange exchange(request, writer, std::move(server), std::move(to));
  co_await exchange.run();
}

}  // namespace warren::http
