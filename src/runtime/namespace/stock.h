// Sandboxes that are ready before anybody asks for them, session and all, so that a create
// is only a matter of giving one a name. There are some for each kind that was asked for
// lately; who makes them stands in namespace_driver_stock.cc.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "runtime/driver.h"
#include "runtime/namespace/sandbox.h"

namespace warren::runtime {

// What sandboxes have in common that can stand for one another.
struct StockKind {
  std::string account;
  std::filesystem::path template_root;
  Limits limits;
  auto operator<=>(const StockKind&) const = default;
};

class Stock {
 public:
  // Holds `most` of each of the kinds that were wanted last.
  explicit Stock(std::size_t most) : most_(most) {}

  // One of that kind, or none; counts as a hit or a miss. Remembers that it was wanted.
  std::shared_ptr<Sandbox> take(const SandboxSpec& spec, const std::filesystem::path& template_root);
  // What to make one more of: of the kinds of which there are too few the one that was
  // wanted last.
  struct Want {
    SandboxSpec spec;  // without an id
    std::filesystem::path template_root;
  };
  std::optional<Want> wanted() const;
  // False: it is of no use, and the caller's to end.
  bool add(std::shared_ptr<Sandbox> sandbox);

  // Those that are of no more use: what has ended, and kinds that nobody has wanted for a
  // long time, or whose template root is not `is_current`. They are the caller's to end.
  using IsCurrent = std::function<bool(const std::string& template_name, const std::filesystem::path& root)>;
  std::vector<std::shared_ptr<Sandbox>> sort_out(const IsCurrent& is_current);

  // Forgets what that account has wanted. What was ready for it is the caller's to end.
  std::vector<std::shared_ptr<Sandbox>> drop(const std::string& account);

  StockInfo info() const;

 private:
  struct Shelf {
    SandboxSpec spec;
    Clock::time_point wanted_at;
    std::deque<std::shared_ptr<Sandbox>> ready;
  };
  std::size_t most_;
  std::map<StockKind, Shelf> kinds_;
  std::map<std::string, StockCounts> counted_;  // hits and misses, by template
};

}  // namespace warren::runtime
