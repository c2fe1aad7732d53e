#include "agent/random.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cstdlib>

namespace warren::agent {

std::string random_hex(std::size_t bytes) {
  std::array<unsigned char, 32> raw{};
  bytes = std::min(bytes, raw.size());
  if (::getrandom(raw.data(), bytes, 0) != static_cast<ssize_t>(bytes)) std::abort();
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) {
    text.push_back("0123456789abcdef"[raw[i] >> 4]);
    text.push_back("0123456789abcdef"[raw[i] & 15]);
  }
  return text;
}

}  // namespace warren::agent
