// Reads a request's members strictly: a wrong type or a member that nobody asked for is
// an error that names it.
#pragma once

#include <boost/json/object.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace warren::agent {

using Environment = std::vector<std::pair<std::string, std::string>>;

struct TerminalSize {
  std::uint16_t rows = 24;
  std::uint16_t columns = 80;
};

class Request {
 public:
  explicit Request(boost::json::object members) : members_(std::move(members)) { seen_.insert("op"); }

  // Each returns nothing if the member is absent, and after the first error nothing more;
  // finish() tells that error.
  std::optional<std::string> text(std::string_view name);
  std::optional<std::uint64_t> number(std::string_view name, std::uint64_t max);
  std::optional<bool> flag(std::string_view name);
  std::vector<std::string> texts(std::string_view name);
  Environment environment(std::string_view name);
  std::optional<TerminalSize> terminal(std::string_view name);
  std::optional<Millis> timeout();
  // "path" or "path_base64", absolute; required.
  std::string path();

  void refuse(std::string message);
  // kInvalid for the first thing that is wrong.
  Result<void> finish();

 private:
  const boost::json::value* find(std::string_view name);

  boost::json::object members_;
  std::set<std::string, std::less<>> seen_;
  std::optional<std::string> error_;
};

}  // namespace warren::agent
