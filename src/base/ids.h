// Names for things: random, unguessable, and checked before they touch a path.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace warren {

// Fills `out` from getrandom(2); ends the process if the kernel refuses, since
// nothing safe can be done without randomness.
void random_bytes(std::span<std::byte> out);

// `bytes` random bytes as lower-case hex.
std::string random_hex(std::size_t bytes);

// "sbx_" and 32 hex digits.
std::string new_sandbox_id();

// Whether `text` is exactly what new_sandbox_id() makes.
bool is_sandbox_id(std::string_view text);

// Whether `text` may be used as one path component of ours: 1 to 64 characters
// of [a-z0-9_.-], not beginning with a dot.
bool is_safe_name(std::string_view text);

// The SHA-256 of `data` as lower-case hex.
std::string sha256_hex(std::string_view data);

// Compares without telling by its time where the two differ.
bool equal_in_constant_time(std::string_view a, std::string_view b);

}  // namespace warren
