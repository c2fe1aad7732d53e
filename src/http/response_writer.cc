#include "http/response_writer.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "http/response_head.h"
#include "http/syntax.h"

namespace warren::http {
namespace {

namespace asio = boost::asio;

// Small, since many connections do little but wait.
constexpr std::size_t kRawBytes = 32UL * 1024;

// 1xx, 204 and 304 have no body whatever their fields say (RFC 9112, 6.3).
bool has_no_body(int status) { return status / 100 == 1 || status == 204 || status == 304; }

std::unexpected<Error> misuse(const char* what) { return fail(ErrorKind::kInternal, what); }

std::optional<std::uint64_t> to_length(std::string_view text) {
  std::uint64_t length = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return length;
}

}  // namespace

StreamResponseWriter::StreamResponseWriter(Stream& stream, RequestBody& body, Context context)
    : stream_(stream), body_(body), context_(context), keep_alive_(context.client_keeps_alive) {}

void StreamResponseWriter::append_connection(std::string& head, const Headers& headers) {
  for (const std::string_view value : headers.all("Connection"))
    if (list_has(value, "close")) keep_alive_ = false;
  if (!body_.is_cheap_to_drain()) keep_alive_ = false;
  body_.answer_begun();
  if (!keep_alive_)
    append_field(head, "Connection", "close");
  else if (context_.version == Version::kHttp10)
    append_field(head, "Connection", "keep-alive");
  head += "\r\n";
}

Task<Result<void>> StreamResponseWriter::put(Stream::Buffers buffers) {
  auto written = co_await stream_.write(buffers, context_.stall);
  if (!written) {
    state_ = State::kBroken;
    client_lost();
  }
  co_return written;
}

Task<Result<void>> StreamResponseWriter::send(Response response) {
  if (state_ != State::kNothing) co_return misuse("an answer has already been begun");
  std::string head = format_response_head(response.status, response.headers);
  const bool bodiless = has_no_body(response.status);
  if (!bodiless) {
    // For HEAD a handler may know the size of a body that it did not make.
    auto length =
        context_.is_head && response.body.empty() ? response.headers.get("Content-Length") : std::nullopt;
    append_field(head, "Content-Length",
                 length && to_length(*length) ? *length : std::to_string(response.body.size()));
  }
  append_connection(head, response.headers);
  status_ = response.status;
  state_ = State::kDone;
  Stream::Buffers buffers;
  buffers[0] = asio::buffer(head);
  if (!bodiless && !context_.is_head) buffers[1] = asio::buffer(response.body);
  co_return co_await put(buffers);
}

Task<Result<void>> StreamResponseWriter::begin(int status, Headers headers) {
  if (state_ != State::kNothing) co_return misuse("an answer has already been begun");
  std::string head = format_response_head(status, headers);
  bodiless_ = context_.is_head || has_no_body(status);
  if (const auto given = headers.get("Content-Length"); given && !has_no_body(status)) {
    const auto length = to_length(*given);
    if (!length) co_return misuse("the Content-Length of the answer is not a number");
    framing_ = Framing::Kind::kLength;
    left_ = *length;
    append_field(head, "Content-Length", *given);
  } else if (!has_no_body(status) && context_.version == Version::kHttp11) {
    framing_ = Framing::Kind::kChunked;
    append_field(head, "Transfer-Encoding", "chunked");
  } else if (!has_no_body(status)) {
    framing_ = Framing::Kind::kUntilClose;
    keep_alive_ = false;
  }
  append_connection(head, headers);
  status_ = status;
  state_ = State::kStreaming;
  Stream::Buffers buffers;
  buffers[0] = asio::buffer(head);
  co_return co_await put(buffers);
}

Task<Result<void>> StreamResponseWriter::write(std::string bytes) {
  if (state_ == State::kBroken) co_return fail(ErrorKind::kCancelled, "the client went away");
  if (state_ != State::kStreaming) co_return misuse("write() stands between begin() and finish()");
  // An empty chunk would be the last one.
  if (bytes.empty() || bodiless_) co_return Result<void>{};
  if (framing_ == Framing::Kind::kLength) {
    if (bytes.size() > left_) co_return misuse("the answer is longer than its Content-Length");
    left_ -= bytes.size();
  }
  Stream::Buffers buffers;
  std::array<char, 24> line;
  if (framing_ == Framing::Kind::kChunked) {
    const auto end = fmt::format_to(line.data(), "{:x}\r\n", bytes.size());
    buffers[0] = asio::buffer(line.data(), static_cast<std::size_t>(end - line.data()));
    buffers[2] = asio::buffer("\r\n", 2);
  }
  buffers[1] = asio::buffer(bytes);
  co_return co_await put(buffers);
}

Task<Result<void>> StreamResponseWriter::finish() {
  if (state_ == State::kBroken) co_return fail(ErrorKind::kCancelled, "the client went away");
  if (state_ != State::kStreaming) co_return misuse("finish() follows begin()");
  if (framing_ == Framing::Kind::kLength && left_ > 0 && !bodiless_) {
    state_ = State::kBroken;
    co_return misuse("the answer is shorter than its Content-Length");
  }
  state_ = State::kDone;
  if (framing_ != Framing::Kind::kChunked || bodiless_) co_return Result<void>{};
  Stream::Buffers buffers;
  buffers[0] = asio::buffer("0\r\n\r\n", 5);
  co_return co_await put(buffers);
}

Task<Result<RawConnection*>> StreamResponseWriter::upgrade(Headers headers) {
  if (state_ != State::kNothing) co_return misuse("an answer has already been begun");
  if (context_.version != Version::kHttp11 || !body_.finished())
    co_return misuse("only a request of HTTP/1.1 without a body can be upgraded");
  std::string head = format_response_head(101, headers);
  append_field(head, "Connection", "Upgrade");
  head += "\r\n";
  keep_alive_ = false;
  status_ = 101;
  state_ = State::kDone;
  Stream::Buffers buffers;
  buffers[0] = asio::buffer(head);
  auto sent = co_await put(buffers);
  if (!sent) co_return std::unexpected(std::move(sent).error());
  co_return &raw_.emplace(stream_, context_.stall);
}

Task<Result<std::string>> StreamResponseWriter::Raw::read(Clock::time_point deadline) {
  if (const std::string_view buffered = stream_.buffered(); !buffered.empty()) {
    std::string piece(buffered);
    stream_.consume(piece.size());
    co_return piece;
  }
  stream_.release_buffer();
  co_return co_await stream_.read_piece(kRawBytes, deadline);
}

Task<Result<void>> StreamResponseWriter::Raw::write(std::string bytes) {
  Stream::Buffers buffers;
  buffers[0] = asio::buffer(bytes);
  co_return co_await stream_.write(buffers, stall_);
}

Task<void> StreamResponseWriter::Raw::end_writing() {
  // In TLS too it is the connection that ends: what it carries has an end of its own, if it needs one.
  stream_.shut_down_writing();
  co_return;
}

void StreamResponseWriter::Raw::close() { stream_.abort(); }

void StreamResponseWriter::on_disconnect(std::function<void()> callback) {
  on_disconnect_ = std::move(callback);
  if (lost_) client_lost();
}

void StreamResponseWriter::client_lost() {
  lost_ = true;
  if (auto callback = std::exchange(on_disconnect_, nullptr)) callback();
}

}  // namespace warren::http
