#include "http/client.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <charconv>
#include <deque>
#include <exception>
#include <utility>

#include "http/incoming_body.h"
#include "http/response_head.h"
#include "http/stream.h"

namespace warren::http {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

constexpr auto kAwaitTuple = asio::as_tuple(asio::use_awaitable);
constexpr Clock::time_point kNever = Clock::time_point::max();
constexpr Millis kConnectTime{10'000};
// Far shorter than a server's idle limit, so that a kept connection is seldom one
// that the server is just closing.
constexpr Millis kKeepTime{30'000};
constexpr std::size_t kKept = 8;
// A write waits as long as the server needs: its back-pressure is its right.
constexpr Millis kWriteStall{24 * 3600 * 1000};

struct Base {
  std::string host;
  std::uint16_t port = 80;
  std::string authority;
};

std::optional<Base> parse_base(std::string_view text) {
  constexpr std::string_view kScheme = "http://";
  if (!text.starts_with(kScheme)) return std::nullopt;
  text.remove_prefix(kScheme.size());
  if (text.ends_with('/')) text.remove_suffix(1);
  if (text.empty() || text.find_first_of("/?#@ \r\n") != std::string_view::npos) return std::nullopt;
  Base base;
  base.authority = std::string(text);
  std::string_view port;
  if (text.front() == '[') {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    base.host = std::string(text.substr(1, end - 1));
    port = text.substr(end + 1);
  } else {
    const std::size_t colon = std::min(text.find(':'), text.size());
    base.host = std::string(text.substr(0, colon));
    port = text.substr(colon);
  }
  if (base.host.empty()) return std::nullopt;
  if (!port.empty()) {
    if (port.front() != ':') return std::nullopt;
    port.remove_prefix(1);
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), base.port);
    if (error != std::errc() || end != port.data() + port.size() || base.port == 0) return std::nullopt;
  }
  return base;
}

bool is_idempotent(std::string_view method) {
  return method == "GET" || method == "HEAD" || method == "PUT" || method == "DELETE" || method == "OPTIONS";
}

// Whether the kept connection is still good: nothing to read, not even its end.
bool is_quiet(Stream& stream) {
  char byte = 0;
  const ssize_t got = ::recv(stream.socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) && stream.buffered().empty();
}

class TcpClient;

// One request on its connection, and the sending of its body while the answer is read.
struct Exchange {
  std::shared_ptr<Stream> stream;
  std::function<Task<Result<std::string>>()> source;
  asio::cancellation_signal cancel_pump;
  bool sent = true;
  std::optional<Error> source_error;
};

Task<void> pump(std::shared_ptr<Exchange> exchange) {
  Stream& stream = *exchange->stream;
  for (;;) {
    Result<std::string> piece;
    try {
      piece = co_await exchange->source();
    } catch (const std::exception& error) {
      piece = fail(ErrorKind::kInternal, std::string("the body's source threw: ") + error.what());
    }
    if (!piece) {
      // A body that broke off must not pass for a whole one.
      exchange->source_error = std::move(piece).error();
      stream.close();
      co_return;
    }
    Stream::Buffers buffers;
    const std::string line = fmt::format("{:x}\r\n", piece->size());
    const bool last = piece->empty();
    buffers[0] = asio::buffer(line);
    buffers[1] = asio::buffer(*piece);
    buffers[2] = asio::buffer("\r\n", 2);
    auto written = co_await stream.write(buffers, kWriteStall);
    // If the server takes no more it may have answered: that is the reader's to find.
    if (!written) co_return;
    if (last) break;
  }
  exchange->sent = true;
}

class TcpResponse final : public ClientResponse {
 public:
  TcpResponse(std::shared_ptr<TcpClient> client, std::shared_ptr<Exchange> exchange, ResponseHead head);
  ~TcpResponse() override;
  TcpResponse(const TcpResponse&) = delete;
  TcpResponse& operator=(const TcpResponse&) = delete;

  int status() const override { return head_.status; }
  const Headers& headers() const override { return head_.headers; }
  Task<Result<std::string>> read() override;

 private:
  std::shared_ptr<TcpClient> client_;
  std::shared_ptr<Exchange> exchange_;
  ResponseHead head_;
  IncomingBody body_;
};

class TcpClient final : public Client, public std::enable_shared_from_this<TcpClient> {
 public:
  TcpClient(Executor executor, std::string base, Base parts)
      : executor_(std::move(executor)), base_(std::move(base)), parts_(std::move(parts)) {}

  Task<Result<std::shared_ptr<ClientResponse>>> send(ClientRequest request) override {
    const auto self = shared_from_this();
    std::string head = format_head(request);
    for (;;) {
      std::shared_ptr<Stream> stream = take_kept();
      const bool kept = stream != nullptr;
      if (!kept) {
        auto connected = co_await connect();
        if (!connected) co_return std::unexpected(std::move(connected).error());
        stream = *std::move(connected);
      }
      auto exchange = std::make_shared<Exchange>();
      exchange->stream = stream;
      auto answer = co_await converse(exchange, request, head);
      if (answer) {
        std::shared_ptr<ClientResponse> response =
            std::make_shared<TcpResponse>(self, std::move(exchange), *std::move(answer));
        co_return response;
      }
      stop(*exchange);
      // The server may close a kept connection at the moment it is used again.
      const bool untouched =
          kept && stream->buffered().empty() && !exchange->source && is_idempotent(request.method);
      if (!untouched) co_return std::unexpected(std::move(answer).error());
    }
  }

  void keep(std::shared_ptr<Stream> stream) {
    if (kept_.size() >= kKept) kept_.pop_front();
    kept_.emplace_back(std::move(stream), Clock::now());
  }

  static void stop(Exchange& exchange) {
    exchange.stream->close();
    if (!exchange.sent) exchange.cancel_pump.emit(asio::cancellation_type::terminal);
  }

  std::unexpected<Error> unavailable(std::string_view why) const {
    return fail(ErrorKind::kUnavailable, fmt::format("{}: {}", base_, why));
  }

 private:
  std::string format_head(const ClientRequest& request) const {
    std::string head = fmt::format("{} {} HTTP/1.1\r\n", request.method, request.target);
    if (!request.headers.get("Host")) append_field(head, "Host", parts_.authority);
    for (const auto& [name, value] : request.headers.fields()) append_field(head, name, value);
    if (request.body_source)
      append_field(head, "Transfer-Encoding", "chunked");
    else if (!request.body.empty() || request.method == "POST" || request.method == "PUT" ||
             request.method == "PATCH")
      append_field(head, "Content-Length", std::to_string(request.body.size()));
    head += "\r\n";
    return head;
  }

  std::shared_ptr<Stream> take_kept() {
    while (!kept_.empty()) {
      auto [stream, since] = std::move(kept_.back());
      kept_.pop_back();
      if (Clock::now() - since < kKeepTime && is_quiet(*stream)) return stream;
    }
    return nullptr;
  }

  Task<Result<std::shared_ptr<Stream>>> connect() {
    std::vector<tcp::endpoint> endpoints;
    boost::system::error_code error;
    if (const auto address = asio::ip::make_address(parts_.host, error); !error) {
      endpoints.emplace_back(address, parts_.port);
    } else {
      tcp::resolver resolver(executor_);
      const auto [failure, found] =
          co_await resolver.async_resolve(parts_.host, std::to_string(parts_.port), kAwaitTuple);
      if (failure) co_return unavailable("the name cannot be resolved: " + failure.message());
      for (const auto& entry : found) endpoints.push_back(entry.endpoint());
    }
    std::string why = "the name has no address";
    for (const tcp::endpoint& endpoint : endpoints) {
      auto stream = std::make_shared<Stream>(tcp::socket(executor_));
      asio::steady_timer timer(executor_, kConnectTime);
      timer.async_wait([stream](const boost::system::error_code& aborted) {
        boost::system::error_code ignored;
        if (!aborted) stream->socket().cancel(ignored);
      });
      const auto [failure] = co_await stream->socket().async_connect(endpoint, kAwaitTuple);
      timer.cancel();
      if (!failure) {
        boost::system::error_code ignored;
        stream->socket().set_option(tcp::no_delay(true), ignored);
        stream->socket().set_option(asio::socket_base::keep_alive(true), ignored);
        co_return stream;
      }
      why = failure == asio::error::operation_aborted ? "no answer to the connection in time"
                                                      : failure.message();
    }
    co_return unavailable(why);
  }

  // Sends the request and reads the answer's head.
  Task<Result<ResponseHead>> converse(const std::shared_ptr<Exchange>& exchange, ClientRequest& request,
                                      const std::string& head) {
    Stream& stream = *exchange->stream;
    Stream::Buffers buffers;
    buffers[0] = asio::buffer(head);
    if (!request.body_source) buffers[1] = asio::buffer(request.body);
    auto written = co_await stream.write(buffers, kWriteStall);
    // An answer may be there although the server did not take the whole request.
    if (written && request.body_source) {
      exchange->source = std::move(request.body_source);
      exchange->sent = false;
      // The signal must outlive what is bound to it, by a little.
      asio::co_spawn(
          executor_, pump(exchange),
          asio::bind_cancellation_slot(exchange->cancel_pump.slot(),
                                       [exchange, executor = executor_](const std::exception_ptr&) {
                                         asio::post(executor, [exchange] {});
                                       }));
    }
    for (;;) {
      auto answer = co_await read_head(stream, request.method);
      if (const auto& broken = exchange->source_error; !answer && broken) co_return std::unexpected(*broken);
      if (!answer && !written) co_return unavailable(written.error().message());
      // 1xx answers come before the one that counts.
      if (!answer || answer->status / 100 != 1) co_return answer;
    }
  }

  Task<Result<ResponseHead>> read_head(Stream& stream, const std::string& method) {
    HeadScanner scanner({.target_bytes = 8UL * 1024, .head_bytes = 64UL * 1024});
    for (;;) {
      const auto state = scanner.scan(stream.buffered());
      if (state == HeadScanner::State::kBad)
        co_return unavailable("the answer is not HTTP: " + scanner.error().message);
      if (state == HeadScanner::State::kComplete) break;
      const auto got = co_await stream.fill(16UL * 1024, kNever);
      if (!got) co_return unavailable(got.error().message());
      if (*got == 0) co_return unavailable("the connection was closed before the answer");
    }
    auto head = parse_response_head(stream.buffered().substr(0, scanner.head_bytes()), method);
    if (!head) co_return unavailable("the answer is not HTTP: " + head.error().message);
    stream.consume(scanner.head_bytes());
    co_return *std::move(head);
  }

  Executor executor_;
  std::string base_;
  Base parts_;
  std::deque<std::pair<std::shared_ptr<Stream>, Clock::time_point>> kept_;
};

TcpResponse::TcpResponse(std::shared_ptr<TcpClient> client, std::shared_ptr<Exchange> exchange,
                         ResponseHead head)
    : client_(std::move(client)),
      exchange_(std::move(exchange)),
      head_(std::move(head)),
      body_(*exchange_->stream, head_.framing) {}

TcpResponse::~TcpResponse() {
  if (body_.finished() && head_.keep_alive && exchange_->sent && exchange_->stream->is_open())
    client_->keep(exchange_->stream);
  else
    TcpClient::stop(*exchange_);
}

Task<Result<std::string>> TcpResponse::read() {
  auto piece = co_await body_.read(kNever);
  if (piece) co_return piece;
  if (const auto& broken = exchange_->source_error) co_return std::unexpected(*broken);
  co_return client_->unavailable("the answer broke off: " + piece.error().message());
}

}  // namespace

Task<Result<std::string>> ClientResponse::read_all(std::size_t limit) {
  std::string whole;
  for (;;) {
    auto piece = co_await read();
    if (!piece) co_return std::unexpected(std::move(piece).error());
    if (piece->empty()) co_return whole;
    if (piece->size() > limit - whole.size())
      co_return fail(ErrorKind::kTooLarge, fmt::format("the answer is larger than {} bytes", limit));
    whole += *piece;
  }
}

Result<std::shared_ptr<Client>> Client::make(Executor executor, std::string base) {
  auto parts = parse_base(base);
  if (!parts) return fail(ErrorKind::kInvalid, "not of the form http://HOST:PORT: " + base);
  while (base.ends_with('/')) base.pop_back();
  return std::make_shared<TcpClient>(std::move(executor), std::move(base), *std::move(parts));
}

}  // namespace warren::http
