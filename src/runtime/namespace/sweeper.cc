#include "runtime/namespace/sweeper.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <span>
#include <utility>

#include "base/log.h"
#include "linux/packets.h"
#include "runtime/namespace/pool_kinds.h"

namespace warren::runtime {

Sweeper::Sweeper(std::filesystem::path folder, Remove remove, Millis patience)
    : folder_(std::move(folder)), remove_(std::move(remove)), patience_(patience) {}

Result<std::unique_ptr<Sweeper>> Sweeper::start(std::filesystem::path folder, Remove remove,
                                                Millis patience) {
  if (::mkdir(folder.c_str(), 0700) < 0 && errno != EEXIST) return fail_errno("mkdir " + folder.string());
  std::unique_ptr<Sweeper> sweeper(new Sweeper(std::move(folder), std::move(remove), patience));
  if (auto spawned = sweeper->spawn(); !spawned) return fail(std::move(spawned.error()));
  return sweeper;
}

Sweeper::~Sweeper() {
  if (child_.end(patience_)) return;
  if (const auto left = pool::names_in(folder_).size(); left > 0)
    log::warn("{} uppers are not removed yet: the next start goes on", left);
}

Result<void> Sweeper::spawn() {
  auto process =
      HelperProcess::start("warren-sweeper", linux_::SocketKind::kPacket, [this](int wakes) { run(wakes); });
  if (!process) return fail(std::move(process.error()));
  child_ = std::move(*process);
  return {};
}

void Sweeper::run(int wakes) const {
  sweep();
  while (linux_::wait_for_packet(wakes, 1)) {
    // What comes with the packets is let go of here: all that wait, before anything is removed.
    while (true) {
      const auto more = linux_::receive_packet(wakes, 1);
      if (!more || !more->has_value()) break;
    }
    sweep();
  }
  sweep();
}

void Sweeper::sweep() const {
  for (const auto& name : pool::names_in(folder_))
    if (const auto removed = remove_(folder_, name); !removed)
      log::warn("upper {} is not removed yet: {}", name, removed.error().message());
}

Result<void> Sweeper::take(const std::filesystem::path& from, const std::string& name, UniqueFd mounts) {
  if (::rename(from.c_str(), (folder_ / name).c_str()) < 0) {
    if (errno != ENOENT) return fail_errno("move upper " + name);
    if (!mounts) return {};
  }
  wake(std::move(mounts));
  return {};
}

bool Sweeper::holds(const std::string& name) const { return ::access((folder_ / name).c_str(), F_OK) == 0; }

void Sweeper::wake(UniqueFd mounts) {
  // A socket that is full wakes it as well; without a child, tend() makes one.
  const std::array descriptors{mounts.get()};
  const auto sent =
      linux_::send_packet(child_.socket().get(), "W", std::span(descriptors).first(mounts ? 1 : 0));
  if (!sent && sent.error().kind() != ErrorKind::kLimited)
    log::debug("the sweeper: {}", sent.error().message());
}

void Sweeper::tend() {
  if (child_.has_ended()) {
    log::warn("the sweeper was killed; a new one goes on");
    if (const auto spawned = spawn(); !spawned) log::warn("{}", spawned.error().message());
  }
  if (!pool::names_in(folder_).empty()) wake({});
}

}  // namespace warren::runtime
