// Names that nobody in the sandbox can guess.
#pragma once

#include <cstddef>
#include <string>

namespace warren::agent {

// `bytes` (at most 32) random bytes as lower-case hex.
std::string random_hex(std::size_t bytes);

}  // namespace warren::agent
