#include "http/chunk_decoder.h"

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>

namespace warren::http {

namespace beast = boost::beast;

namespace {

std::unexpected<Error> too_long() {
  return fail(ErrorKind::kInvalid, "the chunked body is broken: a chunk's header or the trailer is too long");
}

}  // namespace

struct ChunkDecoder::Parser {
  beast::http::request_parser<beast::http::buffer_body> parser;
};

// The library decodes chunks only behind a head, so it is given one.
ChunkDecoder::ChunkDecoder() : parser_(std::make_unique<Parser>()) {
  constexpr std::string_view kHead = "PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
  beast::error_code error;
  parser_->parser.header_limit(kMaxLineBytes);
  parser_->parser.body_limit(boost::none);
  parser_->parser.put(boost::asio::buffer(kHead.data(), kHead.size()), error);
  // One step a call, so that the size of each line is seen.
  parser_->parser.eager(false);
}

ChunkDecoder::~ChunkDecoder() = default;
ChunkDecoder::ChunkDecoder(ChunkDecoder&&) noexcept = default;
ChunkDecoder& ChunkDecoder::operator=(ChunkDecoder&&) noexcept = default;

bool ChunkDecoder::done() const { return parser_->parser.is_done(); }

Result<ChunkDecoder::Progress> ChunkDecoder::decode(std::string_view coded, char* out) {
  auto& parser = parser_->parser;
  auto& body = parser.get().body();
  Progress progress;
  body.data = out;
  body.size = coded.size();
  body.more = true;
  while (progress.consumed < coded.size() && !parser.is_done()) {
    beast::error_code error;
    const std::string_view rest = coded.substr(progress.consumed);
    const std::size_t room = body.size;
    const std::size_t consumed = parser.put(boost::asio::buffer(rest.data(), rest.size()), error);
    progress.consumed += consumed;
    if (body.size == room && consumed > kMaxLineBytes) return too_long();
    if (error == beast::http::error::need_more || (!error && consumed == 0)) break;
    if (error) return fail(ErrorKind::kInvalid, "the chunked body is broken: " + error.message());
  }
  progress.produced = coded.size() - body.size;
  if (!parser.is_done() && coded.size() - progress.consumed > kMaxLineBytes) return too_long();
  return progress;
}

}  // namespace warren::http
