// Words for a shell's line.
#pragma once

#include <string>
#include <string_view>

namespace warren {

// `word` as sh(1) reads it back, whatever bytes but NUL it has: 'it'\''s'.
std::string shell_quoted(std::string_view word);

}  // namespace warren
