#include "base/shell_quote.h"

namespace warren {

std::string shell_quoted(std::string_view word) {
  std::string out = "'";
  for (const char c : word) {
    if (c == '\'') {
      out += R"('\'')";
    } else {
      out += c;
    }
  }
  return out + "'";
}

}  // namespace warren
