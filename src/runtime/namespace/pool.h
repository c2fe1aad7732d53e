// Where sandboxes write: one upper (the writable layer of an overlay) for each. On
// btrfs an upper is a subvolume with a quota; elsewhere a plain folder without.
// Files in it belong to uid 0 and up, whatever host ids the sandbox has.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/task.h"
#include "base/unique_fd.h"
#include "runtime/namespace/disk_space.h"
#include "runtime/waiting.h"

namespace warren::runtime {

struct PoolOptions {
  std::filesystem::path home;  // $WARREN_HOME; pool.img and pool/ lie in it
  // How large the image may grow; it is sparse, and made no larger than the disk can
  // hold, see image_size(). One that could be larger now is made larger. 0: no image.
  std::uint64_t image_bytes = 0;
  std::uint64_t floor_bytes = kDiskFloor;  // see check_room()
  // Whom sandboxes ask for names. On the loopback nobody answers, and a lookup fails at once.
  std::string nameserver = "127.0.0.1";
  // How long one copy may take, and what is still to be removed at the end.
  Millis copy_patience = Seconds(150);
  Millis removal_patience = Seconds(30);
};

struct NewUpper {
  std::string name;
  std::uint64_t limit_bytes = 0;  // 0: no limit
  std::string hostname;           // of the sandbox that goes on in it; empty: it stays as it is
};

// What becomes of one.
struct UpperCopy {
  Event done;
  Result<void> outcome;  // once it is done
};

class Pool {
 public:
  // Brings the pool up: $WARREN_HOME/pool if it lies on btrfs already; else an
  // image, made at the first start and mounted there by loop device; where btrfs
  // is missing, the folder as it is. Mounts go into this process's mount
  // namespace, which should be a private one (enter_private_mounts()): then
  // nothing is left when the process ends, however it ends.
  static Result<std::unique_ptr<Pool>> open(const Executor& executor, const PoolOptions& options);
  virtual ~Pool() = default;

  // Makes an upper by that name, of which at most `limit_bytes` can be used (0: no
  // limit), and returns its folder. It holds data/, with what every sandbox's own
  // root has (hostname, hosts, /tmp, …), and work/, both for overlayfs.
  virtual Result<std::filesystem::path> make(const std::string& name, std::uint64_t limit_bytes,
                                             const std::string& hostname) = 0;

  // Begins to make uppers like `from`, one after the other: the first `direct` of them of `from`
  // itself, in which nothing may change until these are done, the others of the last of these.
  // They are the caller's to remove, whatever becomes of them.
  virtual std::vector<std::shared_ptr<UpperCopy>> copy(const std::string& from, std::vector<NewUpper> copies,
                                                       std::size_t direct) = 0;

  // Whether a copy costs the same however much there is, once it is written out.
  virtual bool has_snapshots() const = 0;

  // Where an upper's folder is.
  virtual std::filesystem::path path_of(const std::string& name) const = 0;

  // The upper's files, as overlayfs keeps them (data/).
  virtual Result<UniqueFd> open_files(const std::string& name) const = 0;

  // Removes it; one that is not there is no failure. It is out of sight at once and
  // quickly, whatever is in it; its blocks are freed later. `mounts` is a mount namespace in
  // which it is mounted, or nothing.
  virtual Result<void> remove(const std::string& name, UniqueFd mounts) = 0;
  Result<void> remove(const std::string& name) { return remove(name, {}); }

  virtual Result<std::uint64_t> used_bytes(const std::string& name) const = 0;
  virtual std::vector<std::string> uppers() const = 0;

  // Whether a sandbox can be kept from using more than its limit.
  virtual bool has_quota() const = 0;

  // kUnavailable while there is too little room for one more sandbox.
  virtual Result<void> check_room() const = 0;

  // Does what could not be done at once; to be called now and then.
  virtual void tend() = 0;
};

}  // namespace warren::runtime
