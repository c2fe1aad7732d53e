#include "runtime/namespace/twin/memory_map.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <memory>

#include "linux/text_file.h"

namespace warren::runtime {
namespace {

constexpr std::size_t kMostMappings = 20'000;
// A kilobyte of page tables maps half a megabyte; what copying them costs holds everybody up.
constexpr std::uint64_t kLeastPageTables = 16ULL << 20;
constexpr std::uint64_t kPageTableShare = 256;
constexpr std::uint64_t kMostShared = 64ULL << 20;
// Of /proc/PID/maps: what is not read to its end could hide a shared mapping.
constexpr std::size_t kMostText = 8UL << 20;

// "7f0000000000-7f0000001000 r-xp 00000000 08:01 42   /usr/lib/x"
Mapping parse(std::string_view line) {
  Mapping mapping;
  const char* at = line.data();
  const char* const end = at + line.size();
  constexpr int kHex = 16;
  at = std::from_chars(at, end, mapping.begin, kHex).ptr;
  at = std::from_chars(at + 1, end, mapping.end, kHex).ptr;
  const std::string_view permissions(at + 1, 4);
  if (permissions[0] == 'r') mapping.protection |= PROT_READ;
  if (permissions[1] == 'w') mapping.protection |= PROT_WRITE;
  if (permissions[2] == 'x') mapping.protection |= PROT_EXEC;
  mapping.is_shared = permissions[3] == 's';
  mapping.is_vsyscall = line.ends_with("[vsyscall]");
  return mapping;
}

// The number of kB behind `key` in /proc/PID/status, in bytes.
std::uint64_t kilobytes(std::string_view status, std::string_view key) {
  const auto at = status.find(key);
  if (at == std::string_view::npos) return 0;
  const auto digits = status.find_first_of("0123456789", at + key.size());
  std::uint64_t number = 0;
  std::from_chars(status.data() + digits, status.data() + status.size(), number);
  return number * 1024;
}

Result<void> make_private(linux_::Injection& injection, const Mapping& mapping) {
  const std::uint64_t size = mapping.end - mapping.begin;
  std::string bytes(size, '\0');
  // What cannot be read stays zero, as it does for the process itself.
  const auto read = linux_::read_memory(injection.pid(), mapping.begin, bytes);
  constexpr std::uint64_t kFlags = MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS;
  constexpr std::uint64_t kNoFile = ~std::uint64_t{0};
  const auto mapped = injection.call(
      "mmap",
      {.number = SYS_mmap, .arguments = {mapping.begin, size, PROT_READ | PROT_WRITE, kFlags, kNoFile, 0}});
  if (!mapped) return fail(mapped.error());
  if (read) WARREN_TRY(linux_::write_memory(injection.pid(), mapping.begin, bytes));
  if (mapping.protection == (PROT_READ | PROT_WRITE)) return {};
  const auto protection = static_cast<std::uint64_t>(mapping.protection);
  const auto protected_ =
      injection.call("mprotect", {.number = SYS_mprotect, .arguments = {mapping.begin, size, protection}});
  if (!protected_) return fail(protected_.error());
  return {};
}

}  // namespace

Result<std::vector<Mapping>> memory_map(pid_t pid) {
  const auto text = linux_::read_whole(fmt::format("/proc/{}/maps", pid), kMostText);
  if (!text) return fail(text.error());
  std::vector<Mapping> found;
  std::string_view rest = *text;
  while (!rest.empty()) {
    const auto end = std::min(rest.find('\n'), rest.size());
    found.push_back(parse(rest.substr(0, end)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return found;
}

Result<std::uint64_t> find_call_instruction(pid_t pid) {
  const auto map = memory_map(pid);
  if (!map) return fail(map.error());
  for (const auto& mapping : *map) {
    if ((mapping.protection & PROT_EXEC) == 0 || mapping.is_vsyscall) continue;
    std::string bytes(mapping.end - mapping.begin, '\0');
    if (!linux_::read_memory(pid, mapping.begin, bytes)) continue;
    const auto at = bytes.find(linux_::call_instruction());
    if (at != std::string::npos) return mapping.begin + at;
  }
  return fail(ErrorKind::kInternal, "a program without a call instruction");
}

Result<void> check_copyable(pid_t pid, std::uint64_t most_bytes) {
  const auto status = linux_::read_text(fmt::format("/proc/{}/status", pid));
  if (!status) return fail(status.error());
  if (most_bytes != 0 && kilobytes(*status, "VmPTE:") > kLeastPageTables + most_bytes / kPageTableShare)
    return fail(ErrorKind::kTooLarge, "the session maps too much memory to be forked");
  const std::uint64_t held = kilobytes(*status, "RssAnon:") + kilobytes(*status, "RssShmem:");
  if (most_bytes != 0 && held > most_bytes)
    return fail(ErrorKind::kTooLarge,
                fmt::format("the session holds {} MiB, more than a sandbox may have: {} MiB", held >> 20,
                            most_bytes >> 20));
  const auto maps = linux_::read_whole(fmt::format("/proc/{}/maps", pid), kMostText);
  if (!maps && maps.error().kind() == ErrorKind::kTooLarge)
    return fail(ErrorKind::kTooLarge, "the session has too many memory mappings to be forked");
  if (!maps) return fail(maps.error());
  if (static_cast<std::size_t>(std::ranges::count(*maps, '\n')) > kMostMappings)
    return fail(
        ErrorKind::kTooLarge,
        fmt::format("the session has more than {} memory mappings and cannot be forked", kMostMappings));
  return {};
}

Result<void> cut_shared_mappings(linux_::Injection& injection) {
  const auto map = memory_map(injection.pid());
  if (!map) return fail(map.error());
  std::uint64_t shared = 0;
  for (const auto& mapping : *map)
    if (mapping.is_shared) shared += mapping.end - mapping.begin;
  if (shared > kMostShared)
    return fail(ErrorKind::kTooLarge,
                fmt::format("the session shares {} MiB of memory with other processes, more than the {} MiB "
                            "that a fork can copy",
                            shared >> 20, kMostShared >> 20));
  for (const auto& mapping : *map) {
    if (!mapping.is_shared) continue;
    const auto made = make_private(injection, mapping);
    if (made) continue;
    // The session can have its process refuse it (PR_SET_MDWE of prctl(2)).
    if (made.error().kind() == ErrorKind::kInternal)
      return fail(ErrorKind::kConflict,
                  "memory that the session shares cannot be copied: " + made.error().message());
    return made;
  }
  return {};
}

}  // namespace warren::runtime
