#include "http/connection.h"

#include <exception>
#include <utility>

#include "base/ids.h"
#include "base/log.h"
#include "http/target.h"

namespace warren::http {
namespace {

constexpr std::size_t kHeadReadBytes = 8UL * 1024;
// What a client may still send after an answer that ends the connection.
constexpr std::size_t kLingerBytes = 4UL * 1024 * 1024;
constexpr Millis kLingerTime{2'000};
// What a client that speaks TLS may take to say that it is through, too.
constexpr Millis kGoodbyeTime{500};
constexpr std::size_t kDrainBytes = 256UL * 1024;

Clock::time_point in(Millis time) { return Clock::now() + time; }

// The request line of a head that was refused, as far as it can be told, so that the
// error has the shape of the face it was meant for.
Request guess_request(std::string_view head) {
  Request request;
  const std::string_view line = head.substr(0, head.find_first_of("\r\n"));
  const std::size_t begin = line.find(' ');
  if (begin == std::string_view::npos) return request;
  request.method = line.substr(0, begin);
  request.target = line.substr(begin + 1, line.find(' ', begin + 1) - begin - 1);
  request.path = request.target.substr(0, request.target.find('?'));
  return request;
}

}  // namespace

Connection::Connection(boost::asio::ip::tcp::socket socket, std::string peer,
                       std::shared_ptr<const Shared> shared)
    : stream_(std::move(socket), shared->certificate ? shared->certificate() : nullptr),
      peer_(std::move(peer)),
      shared_(std::move(shared)) {
  if (!shared_->watch) return;
  watch_id_ = shared_->watch->add(stream_.socket().native_handle(), [this] {
    gone_ = true;
    if (writer_ != nullptr) writer_->client_lost();
  });
}

Connection::~Connection() {
  if (shared_->watch) shared_->watch->remove(watch_id_);
}

void Connection::retire() {
  retiring_ = true;
  if (writer_ != nullptr) writer_->end_connection();
  if (idle_) stream_.stop_reading();
  // Nothing says when it would end by itself.
  if (writer_ != nullptr && writer_->upgraded()) stream_.abort();
}

void Connection::kill() {
  retire();
  gone_ = true;
  // The callback may do anything, but end this connection's task it cannot.
  if (writer_ != nullptr) writer_->client_lost();
  stream_.abort();
}

Task<bool> Connection::greet() {
  if (!stream_.is_encrypted()) co_return true;
  idle_ = true;
  const auto established = co_await stream_.handshake(in(shared_->limits.header_timeout));
  co_return established.has_value();
}

Task<void> Connection::run() {
  const bool greeted = co_await greet();
  while (greeted && !retiring_) {
    auto head = co_await read_head();
    if (!head) break;
    if (!*head) {
      co_await refuse(std::move(*head).error());
      break;
    }
    const bool goes_on = co_await serve(**std::move(head));
    if (!goes_on) break;
    ++requests_;
  }
  co_await stream_.say_goodbye(in(kGoodbyeTime));
  if (shared_->watch) shared_->watch->remove(std::exchange(watch_id_, 0));
  stream_.close();
}

Task<std::optional<std::expected<RequestHead, HeadError>>> Connection::read_head() {
  using Found = std::optional<std::expected<RequestHead, HeadError>>;
  const ServerLimits& limits = shared_->limits;
  idle_ = true;
  const auto idle_deadline =
      in(requests_ == 0 ? std::min(limits.header_timeout, limits.idle_timeout) : limits.idle_timeout);
  for (;;) {
    // An empty line before a request is overlooked (RFC 9112, 2.2).
    while (stream_.buffered().starts_with("\r\n")) stream_.consume(2);
    if (!stream_.buffered().empty() && stream_.buffered() != "\r") break;
    stream_.release_buffer();
    const auto got = co_await stream_.fill(kHeadReadBytes, idle_deadline);
    if (!got || *got == 0) co_return Found{};
  }
  idle_ = false;
  const auto deadline = in(limits.header_timeout);
  HeadScanner scanner({.target_bytes = limits.target_bytes, .head_bytes = limits.header_bytes});
  for (;;) {
    const auto state = scanner.scan(stream_.buffered());
    if (state == HeadScanner::State::kBad) co_return Found(std::unexpected(scanner.error()));
    if (state == HeadScanner::State::kComplete) {
      Found found = parse_request_head(stream_.buffered().substr(0, scanner.head_bytes()));
      if (*found) stream_.consume(scanner.head_bytes());
      co_return found;
    }
    const auto got = co_await stream_.fill(kHeadReadBytes, deadline);
    if (!got && got.error().kind() == ErrorKind::kTimeout)
      co_return Found(std::unexpected(HeadError{408, "the header did not come in time"}));
    if (!got || *got == 0) co_return Found{};
  }
}

Task<void> Connection::refuse(HeadError error) {
  const Request request = guess_request(stream_.buffered());
  const RequestHead nothing;
  RequestBody body(stream_, nothing, shared_->limits.body_timeout);
  StreamResponseWriter writer(stream_, body,
                              {.is_head = request.method == "HEAD",
                               .client_keeps_alive = false,
                               .stall = shared_->limits.write_timeout});
  Response response = shared_->router->error(request, error.status, error.message);
  const auto sent = co_await writer.send(std::move(response));
  tell_answered(request, writer);
  if (sent) co_await linger();
}

Task<bool> Connection::serve(RequestHead head) {
  RequestBody body(stream_, head, shared_->limits.body_timeout);
  StreamResponseWriter writer(stream_, body,
                              {.is_head = head.method == "HEAD",
                               .version = head.version,
                               .client_keeps_alive = head.keep_alive && !retiring_,
                               .stall = shared_->limits.write_timeout});
  Request request;
  request.method = std::move(head.method);
  request.target = std::move(head.target);
  request.headers = std::move(head.headers);
  request.peer = peer_;
  if (stream_.is_encrypted()) request.scheme = "https";
  request.body = &body;
  auto target = parse_target(request.target);
  if (!target) {
    request.path = request.target.substr(0, request.target.find('?'));
    Response response = shared_->router->error(request, 400, target.error().message());
    (void)co_await writer.send(std::move(response));
    tell_answered(request, writer);
    co_return co_await settle(body, writer);
  }
  request.raw_path = std::move(target->raw_path);
  request.path = std::move(target->path);
  request.query = std::move(target->query);
  // The absolute form's host counts, not the field's (RFC 9112, 3.2.2).
  if (!target->authority.empty()) request.headers.set("Host", std::move(target->authority));

  writer_ = &writer;
  if (gone_) writer.client_lost();
  co_await answer(request, writer);
  writer_ = nullptr;
  tell_answered(request, writer);
  co_return co_await settle(body, writer);
}

void Connection::tell_answered(const Request& request, const StreamResponseWriter& writer) const {
  if (shared_->answered && writer.begun()) shared_->answered(request, writer.status());
}

Task<void> Connection::answer(Request& request, StreamResponseWriter& writer) {
  std::optional<std::string> failure;
  try {
    const Handler handler = shared_->router->find(request);
    co_await handler(request, writer);
    if (!writer.begun()) failure = "it gave no answer";
  } catch (const std::exception& error) {
    failure = error.what();
  } catch (...) {
    failure = "it threw something unknown";
  }
  if (!failure) co_return;
  const std::string id = random_hex(4);
  log::error("the handler of {} {} failed (error {}): {}", request.method, request.route, id, *failure);
  if (writer.begun()) co_return;
  Response response =
      shared_->router->error(request, 500, "internal error; the server's log has it under " + id);
  (void)co_await writer.send(std::move(response));
}

Task<bool> Connection::settle(RequestBody& body, StreamResponseWriter& writer) {
  if (!writer.complete()) {
    // The client must not take what it got for the whole.
    if (writer.ends_by_close()) stream_.abort();
    co_return false;
  }
  if (writer.keeps_alive()) {
    const bool drained = co_await body.drain(kDrainBytes, in(shared_->limits.body_timeout));
    if (drained) co_return !retiring_;
  }
  if (!body.finished() || !stream_.buffered().empty()) co_await linger();
  co_return false;
}

Task<void> Connection::linger() {
  co_await stream_.say_goodbye(in(kGoodbyeTime));
  stream_.shut_down_writing();
  const auto deadline = in(kLingerTime);
  std::string scratch(16UL * 1024, '\0');
  const boost::asio::mutable_buffer room(scratch.data(), scratch.size());
  for (std::size_t dropped = 0; dropped < kLingerBytes;) {
    const auto got = co_await stream_.read_direct(room, deadline);
    if (!got || *got == 0) co_return;
    dropped += *got;
  }
}

}  // namespace warren::http
