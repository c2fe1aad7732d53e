// What is ready before anybody asks for it: sandboxes, session and all, so that a create is only
// a matter of giving one a name; and shells (inside.h), which become the children of forks.
// There are some for each kind that was asked for lately; who makes them stands in
// namespace_driver_stock.cc.
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
  // Holds `most` sandboxes of each of the kinds that were wanted last; none, and no shells,
  // if that is 0.
  explicit Stock(std::size_t most) : most_(most) {}

  // One of that kind, or none; counts as a hit or a miss. Remembers that it was wanted.
  std::shared_ptr<Sandbox> take(const SandboxSpec& spec, const std::filesystem::path& template_root);
  // A shell of that kind, or none.
  std::shared_ptr<Sandbox> take_shell(const SandboxSpec& spec, const std::filesystem::path& template_root);
  // Remembers that so many children of that kind were wanted at once.
  void note_fork(const SandboxSpec& spec, const std::filesystem::path& template_root, std::size_t children);
  // What to make one more of: of the kinds of which there are too few the one that was
  // wanted last, and sandboxes before shells.
  struct Want {
    SandboxSpec spec;  // without an id
    std::filesystem::path template_root;
    bool is_shell = false;
  };
  std::optional<Want> wanted() const;
  // False: it is of no use, and the caller's to end.
  bool add(std::shared_ptr<Sandbox> sandbox);
  bool add_shell(std::shared_ptr<Sandbox> shell);

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
    std::deque<std::shared_ptr<Sandbox>> shells;
    std::size_t wanted_shells = 1;
  };
  Shelf* shelf_of(const Sandbox& sandbox);
  std::size_t most_;
  std::map<StockKind, Shelf> kinds_;
  std::map<std::string, StockCounts> counted_;  // hits and misses, by template
};

}  // namespace warren::runtime
