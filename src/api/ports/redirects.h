// Where a program sends its clients, seen from outside.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace warren::api::ports {

// A program's place, for its clients and for itself.
struct Site {
  std::string host;        // as the client has it, "warren.example.com:7070"
  std::string prefix;      // before its paths; may be empty
  std::uint16_t port = 0;  // what it listens on inside
};

// A Location within the program's own site: below the prefix, on whatever host the client has. Others as they
// are.
std::string redirected(std::string_view location, const Site& site);

}  // namespace warren::api::ports
