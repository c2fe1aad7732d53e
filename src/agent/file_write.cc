#include "agent/file_write.h"

// The plain functions, so that the static binary holds a hash and not a library of them.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "agent/replacement.h"
#include "agent/request.h"

namespace warren::agent {

namespace json = boost::json;

namespace {

std::string finish(SHA256_CTX& sha) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  ::SHA256_Final(digest.data(), &sha);
  std::string hex;
  for (const unsigned char byte : digest) {
    hex.push_back("0123456789abcdef"[byte >> 4]);
    hex.push_back("0123456789abcdef"[byte & 15]);
  }
  return hex;
}

}  // namespace

Task<void> write_file(std::shared_ptr<Stream> stream, json::object object) {
  Request request(std::move(object));
  const std::string path = request.path();
  const auto mode = request.number("mode", 07777);
  const auto size = request.number("size", INT64_MAX);
  if (auto valid = request.finish(); !valid) co_return stream->close(valid.error());
  auto begun = Replacement::begin(path, mode ? std::optional(static_cast<mode_t>(*mode)) : std::nullopt);
  if (!begun) co_return stream->close(begun.error());
  Replacement replacement = *std::move(begun);

  SHA256_CTX sha;
  ::SHA256_Init(&sha);
  std::uint64_t written = 0;
  while (auto bytes = co_await stream->input()) {
    written += bytes->size();
    if (size && written > *size) break;
    if (auto result = replacement.write(*bytes); !result) co_return stream->close(result.error());
    ::SHA256_Update(&sha, bytes->data(), bytes->size());
    stream->input_taken(bytes->size());
  }
  if (stream->cancelled()) co_return stream->close(Error(ErrorKind::kCancelled, "cancelled"));
  if (size && written != *size)
    co_return stream->close(
        Error(ErrorKind::kInvalid, "write: " + std::to_string(*size) + " bytes were announced, but " +
                                       (written > *size ? "more" : std::to_string(written)) + " came"));
  if (auto result = replacement.commit(); !result) co_return stream->close(result.error());
  json::object result{{"size", written}, {"sha256", finish(sha)}};
  stream->close(result);
}

}  // namespace warren::agent
