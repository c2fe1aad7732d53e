// Bytes as JSON text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace warren::api::podflare {

// How many bytes of `text`, from its start, are whole UTF-8 characters; stops
// before the first byte that cannot be part of one.
std::size_t valid_utf8_prefix(std::string_view text);

// Whether `rest` may be the beginning of one character whose end has not come yet.
bool is_begun_character(std::string_view rest);

// Appends `text`, which must be UTF-8, as a JSON string with its quotes.
void append_json_string(std::string& out, std::string_view text);

// Appends the standard base64 of `bytes`, padded.
void append_base64(std::string& out, std::string_view bytes);

}  // namespace warren::api::podflare
