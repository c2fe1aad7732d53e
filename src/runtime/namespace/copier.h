// Copies uppers in a process of its own (helper_process.h), so that nobody else has to wait: a
// copy first writes out what the upper that is copied has not written yet, which takes seconds
// where much was written, and a pool without snapshots copies file by file.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/task.h"
#include "runtime/namespace/pool.h"
#include "runtime/waiting.h"

namespace warren::runtime {

class Copier {
 public:
  // Makes one copy, in the other process and on any of its threads. Names have been checked.
  using Make = std::function<Result<void>(const std::string& from, const NewUpper& copy)>;

  // No copy takes longer than `patience`: it fails then, and all that were ordered with it.
  static Result<std::unique_ptr<Copier>> start(const Executor& executor, Make make, Millis patience);
  // Waits for what is being copied.
  ~Copier();
  Copier(const Copier&) = delete;
  Copier& operator=(const Copier&) = delete;

  // See Pool::copy().
  std::vector<std::shared_ptr<UpperCopy>> copy(const std::string& from, std::vector<NewUpper> copies,
                                               std::size_t direct);

 private:
  struct Child;

  Copier(Executor executor, Make make, Millis patience);
  Result<void> spawn();
  void run(int orders) const;
  static Task<void> hear(std::shared_ptr<Child> child);
  static Task<void> mind(std::shared_ptr<Child> child, std::vector<std::shared_ptr<UpperCopy>> order,
                         Millis patience);

  Executor executor_;
  Make make_;
  Millis patience_;
  std::shared_ptr<Child> child_;
  std::uint64_t last_ = 0;
};

}  // namespace warren::runtime
