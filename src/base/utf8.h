// Bytes as text. What a sandbox writes may be anything; JSON holds UTF-8 only
// (RFC 3629: no overlong forms, no surrogates, nothing past U+10FFFF).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace warren {

// How many bytes of `bytes`, from the start, are whole UTF-8 characters; stops
// before the first byte that cannot be part of one.
std::size_t valid_utf8_prefix(std::string_view bytes);

bool is_utf8(std::string_view bytes);

// Whether `rest` may be the beginning of one character whose end has not come yet.
bool is_begun_character(std::string_view rest);

// The length of an unfinished character at the end of `bytes`, 0 to 3: what to
// hold back until more comes.
std::size_t unfinished_tail(std::string_view bytes);

// `bytes` as UTF-8: what belongs to no character becomes U+FFFD, once for each
// maximal part of one (Unicode, 3.9: the practice of the web).
std::string to_utf8(std::string_view bytes);

// The longest prefix and suffix of at most `limit` bytes that cut no character in two.
std::string_view utf8_prefix(std::string_view bytes, std::size_t limit);
std::string_view utf8_suffix(std::string_view bytes, std::size_t limit);

}  // namespace warren
