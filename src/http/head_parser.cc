#include "http/head_parser.h"

#include <boost/asio/buffer.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>

namespace warren::http {
namespace {

namespace beast = boost::beast;

std::string_view view(beast::string_view text) { return {text.data(), text.size()}; }

template <bool kIsRequest>
using HeadParser = beast::http::parser<kIsRequest, beast::http::empty_body>;

template <bool kIsRequest>
std::expected<void, HeadError> parse(HeadParser<kIsRequest>& parser, std::string_view head) {
  parser.header_limit(static_cast<std::uint32_t>(head.size() + 1));
  parser.body_limit(boost::none);
  beast::error_code error;
  parser.put(boost::asio::buffer(head.data(), head.size()), error);
  if (error == beast::http::error::bad_version)
    return std::unexpected(HeadError{505, "the version of HTTP must be 1.0 or 1.1"});
  if (error) return std::unexpected(HeadError{400, "the header cannot be understood: " + error.message()});
  if (!parser.is_header_done()) return std::unexpected(HeadError{400, "the header is not complete"});
  return {};
}

// What the parser lets pass and the next hop might read otherwise.
template <bool kIsRequest>
std::expected<Framing, HeadError> framing_of(const HeadParser<kIsRequest>& parser, const Headers& headers,
                                             Version version) {
  const auto codings = headers.all("Transfer-Encoding");
  const auto lengths = headers.all("Content-Length");
  if (!codings.empty()) {
    if (!lengths.empty())
      return std::unexpected(
          HeadError{400, "a message has either Content-Length or Transfer-Encoding, not both"});
    if (version == Version::kHttp10)
      return std::unexpected(HeadError{400, "HTTP/1.0 has no Transfer-Encoding"});
    if (codings.size() > 1) return std::unexpected(HeadError{400, "Transfer-Encoding stands twice"});
    if (!beast::iequals(beast::string_view(codings[0].data(), codings[0].size()), "chunked"))
      return std::unexpected(HeadError{501, "the only Transfer-Encoding taken is chunked"});
    return Framing{.kind = Framing::Kind::kChunked};
  }
  if (lengths.size() > 1) return std::unexpected(HeadError{400, "Content-Length stands twice"});
  if (lengths.size() == 1) {
    if (lengths[0].empty() || lengths[0].find_first_not_of("0123456789") != std::string_view::npos ||
        !parser.content_length())
      return std::unexpected(HeadError{400, "Content-Length must be one decimal number"});
    return Framing{.kind = Framing::Kind::kLength, .length = *parser.content_length()};
  }
  return Framing{};
}

template <bool kIsRequest>
Headers take_headers(const HeadParser<kIsRequest>& parser) {
  Headers headers;
  for (const auto& field : parser.get())
    headers.add(std::string(field.name_string()), std::string(field.value()));
  return headers;
}

}  // namespace

std::expected<RequestHead, HeadError> parse_request_head(std::string_view head) {
  HeadParser<true> parser;
  if (auto parsed = parse(parser, head); !parsed) return std::unexpected(std::move(parsed).error());
  const auto& message = parser.get();
  RequestHead result;
  result.method = view(message.method_string());
  result.target = view(message.target());
  result.version = message.version() == 10 ? Version::kHttp10 : Version::kHttp11;
  result.headers = take_headers(parser);
  auto framing = framing_of(parser, result.headers, result.version);
  if (!framing) return std::unexpected(std::move(framing).error());
  result.framing = *framing;
  result.keep_alive = parser.keep_alive();
  const auto hosts = result.headers.all("Host");
  if (hosts.size() > 1 || (hosts.empty() && result.version == Version::kHttp11))
    return std::unexpected(HeadError{400, "a request has exactly one Host field"});
  if (const auto expect = result.headers.get("Expect"); expect && result.version == Version::kHttp11) {
    if (!beast::iequals(beast::string_view(expect->data(), expect->size()), "100-continue"))
      return std::unexpected(HeadError{417, "the only expectation met is 100-continue"});
    result.expects_continue = framing->kind == Framing::Kind::kChunked || framing->length > 0;
  }
  return result;
}

std::expected<ResponseHead, HeadError> parse_response_head(std::string_view head, std::string_view method) {
  HeadParser<false> parser;
  const bool bodiless_method = method == "HEAD";
  parser.skip(bodiless_method);
  if (auto parsed = parse(parser, head); !parsed) return std::unexpected(std::move(parsed).error());
  const auto& message = parser.get();
  ResponseHead result;
  result.status = static_cast<int>(message.result_int());
  result.headers = take_headers(parser);
  const Version version = message.version() == 10 ? Version::kHttp10 : Version::kHttp11;
  auto framing = framing_of(parser, result.headers, version);
  if (!framing) return std::unexpected(std::move(framing).error());
  result.framing = *framing;
  if (bodiless_method || result.status / 100 == 1 || result.status == 204 || result.status == 304)
    result.framing = {};
  else if (framing->kind == Framing::Kind::kNone)
    result.framing.kind = Framing::Kind::kUntilClose;
  result.keep_alive = result.framing.kind != Framing::Kind::kUntilClose && message.keep_alive();
  return result;
}

}  // namespace warren::http
