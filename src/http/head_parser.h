// A complete, scanned head (see head_scanner.h) as values, and what it says about
// the body that follows (RFC 9112, 6.3).
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

#include "http/head_scanner.h"
#include "http/message.h"

namespace warren::http {

struct Framing {
  enum class Kind { kNone, kLength, kChunked, kUntilClose };
  Kind kind = Kind::kNone;
  std::uint64_t length = 0;  // of kLength
};

enum class Version { kHttp10, kHttp11 };

struct RequestHead {
  std::string method;
  std::string target;
  Version version = Version::kHttp11;
  Headers headers;
  Framing framing;
  bool keep_alive = true;
  bool expects_continue = false;
};

struct ResponseHead {
  int status = 0;
  Headers headers;
  Framing framing;
  bool keep_alive = true;
};

// 400 for what is malformed or ambiguous, 417 for an unknown expectation, 501 for
// an unknown transfer coding, 505 for another version.
std::expected<RequestHead, HeadError> parse_request_head(std::string_view head);

// `method` is that of the request it answers.
std::expected<ResponseHead, HeadError> parse_response_head(std::string_view head, std::string_view method);

}  // namespace warren::http
