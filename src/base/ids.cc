#include "base/ids.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>

namespace warren {
namespace {

constexpr std::string_view kHex = "0123456789abcdef";
constexpr std::string_view kSandboxPrefix = "sbx_";
constexpr std::size_t kSandboxIdDigits = 32;

std::string to_hex(std::span<const std::byte> bytes) {
  std::string hex;
  hex.reserve(bytes.size() * 2);
  for (const std::byte byte : bytes) {
    hex += kHex[std::to_integer<unsigned>(byte) >> 4];
    hex += kHex[std::to_integer<unsigned>(byte) & 15];
  }
  return hex;
}

}  // namespace

void random_bytes(std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t got = getrandom(out.data(), out.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) std::abort();
    out = out.subspan(static_cast<std::size_t>(got));
  }
}

std::string random_hex(std::size_t bytes) {
  std::string raw(bytes, '\0');
  const auto view = std::as_writable_bytes(std::span(raw));
  random_bytes(view);
  return to_hex(view);
}

std::string new_sandbox_id() { return std::string(kSandboxPrefix) + random_hex(kSandboxIdDigits / 2); }

bool is_sandbox_id(std::string_view text) {
  return text.size() == kSandboxPrefix.size() + kSandboxIdDigits && text.starts_with(kSandboxPrefix) &&
         text.find_first_not_of(kHex, kSandboxPrefix.size()) == std::string_view::npos;
}

bool is_safe_name(std::string_view text) {
  return !text.empty() && text.size() <= 64 && text.front() != '.' &&
         std::ranges::all_of(text, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
         });
}

std::string sha256_hex(std::string_view data) {
  std::array<unsigned char, 32> digest{};
  unsigned size = 0;
  if (EVP_Digest(data.data(), data.size(), digest.data(), &size, EVP_sha256(), nullptr) != 1) std::abort();
  return to_hex(std::as_bytes(std::span(digest)));
}

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace warren
