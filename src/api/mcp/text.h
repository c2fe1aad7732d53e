// Bytes as text: what a sandbox writes may be anything, what JSON holds must be
// UTF-8. And base64, strictly.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace warren::api::mcp {

// `bytes` as UTF-8: each byte that belongs to no well-formed sequence becomes U+FFFD.
std::string to_utf8(std::string_view bytes);

// The length of an unfinished sequence at the end of `bytes`, 0 to 3: what to hold
// back until more comes.
std::size_t unfinished_tail(std::string_view bytes);

// The longest prefix and suffix of at most `limit` bytes that cut no sequence in two.
std::string_view prefix_of(std::string_view bytes, std::size_t limit);
std::string_view suffix_of(std::string_view bytes, std::size_t limit);

std::string encode_base64(std::string_view bytes);
// RFC 4648, section 4, with padding; line breaks and other blanks between the
// characters are skipped. Nothing for everything else.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace warren::api::mcp
