// Removes what may take the kernel or us a while, in a child process, so that the
// runtime need not wait: a subvolume with much in memory takes btrfs half a second, a
// plain folder as long as it has files.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "runtime/namespace/helper_process.h"

namespace warren::runtime {

class Sweeper {
 public:
  // Removes one entry of the folder.
  using Remove = std::function<Result<void>(const std::filesystem::path& folder, const std::string& name)>;

  // Everything in `folder` (made if it is not there) is to be removed, now and later.
  // The child ends with this process, however that ends.
  static Result<std::unique_ptr<Sweeper>> start(std::filesystem::path folder, Remove remove, Millis patience);
  // Waits until everything is removed, but for `patience` at most: the rest is left in the folder.
  ~Sweeper();
  Sweeper(const Sweeper&) = delete;
  Sweeper& operator=(const Sweeper&) = delete;

  // Moves `from` into the folder as `name`: it is out of sight at once. One that is not
  // there is no failure. Both must be on one file system. The child lets go of the mount
  // namespace `mounts`, if there is one, before it removes anything.
  Result<void> take(const std::filesystem::path& from, const std::string& name, UniqueFd mounts);

  // Whether an entry of that name is still to be removed.
  bool holds(const std::string& name) const;

  // Tries again what could not be removed, and replaces a child that has been killed.
  void tend();

 private:
  Sweeper(std::filesystem::path folder, Remove remove, Millis patience);
  Result<void> spawn();
  void sweep() const;
  void run(int wakes) const;
  void wake(UniqueFd mounts);

  std::filesystem::path folder_;
  Remove remove_;
  Millis patience_;
  HelperProcess child_;  // a packet: there is something; the socket's end: there will be nothing more
};

}  // namespace warren::runtime
