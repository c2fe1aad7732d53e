#include "changes/content.h"

#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>

namespace warren::changes {
namespace {

constexpr std::size_t kPiece = std::size_t{256} * 1024;
constexpr std::string_view kUser = "user.";
constexpr std::string_view kOverlay = "user.overlay.";

Result<std::uint64_t> size_of(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) < 0) return fail_errno("fstat");
  return static_cast<std::uint64_t>(std::max<off_t>(status.st_size, 0));
}

// As many bytes as there are, up to `size`.
Result<std::size_t> read_at(int fd, char* to, std::size_t size, std::uint64_t offset) {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t got = ::pread(fd, to + done, size - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno("read a file");
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

// Where the next data begins, or `size`.
std::uint64_t next_data(int fd, std::uint64_t from, std::uint64_t size) {
  const off_t at = ::lseek(fd, static_cast<off_t>(from), SEEK_DATA);
  if (at < 0) return errno == ENXIO ? size : from;
  return std::min(size, static_cast<std::uint64_t>(at));
}

std::uint64_t next_hole(int fd, std::uint64_t from, std::uint64_t size) {
  const off_t at = ::lseek(fd, static_cast<off_t>(from), SEEK_HOLE);
  return at < 0 ? size : std::min(size, static_cast<std::uint64_t>(at));
}

}  // namespace

Result<bool> same_content(int a, int b, CompareBudget& budget) {
  const auto size = size_of(a);
  if (!size) return fail(size.error());
  const auto other = size_of(b);
  if (!other) return fail(other.error());
  if (*size != *other) return false;
  std::unique_ptr<std::array<std::array<char, kPiece>, 2>> pieces;
  for (std::uint64_t at = 0; at < *size;) {
    at = std::min(next_data(a, at, *size), next_data(b, at, *size));
    if (at >= *size) break;
    if (!pieces) pieces = std::make_unique_for_overwrite<std::array<std::array<char, kPiece>, 2>>();
    const std::size_t wanted = std::min<std::uint64_t>(kPiece, *size - at);
    if (budget.bytes < wanted) return false;
    budget.bytes -= wanted;
    const auto got = read_at(a, (*pieces)[0].data(), wanted, at);
    if (!got) return fail(got.error());
    const auto got_other = read_at(b, (*pieces)[1].data(), wanted, at);
    if (!got_other) return fail(got_other.error());
    if (*got != *got_other || std::memcmp((*pieces)[0].data(), (*pieces)[1].data(), *got) != 0) return false;
    at += wanted;
  }
  return true;
}

Result<std::optional<std::string>> read_whole(int fd, std::size_t limit) {
  const auto size = size_of(fd);
  if (!size) return fail(size.error());
  if (*size > limit) return std::nullopt;
  std::string content(*size, '\0');
  const auto got = read_at(fd, content.data(), content.size(), 0);
  if (!got) return fail(got.error());
  content.resize(*got);
  return content;
}

Result<std::vector<Segment>> data_segments(int fd, std::uint64_t size) {
  std::vector<Segment> segments;
  // Above this, holes smaller than it no longer count; it grows until the rest fit.
  std::uint64_t smallest_hole = 1;
  std::uint64_t at = 0;
  while (at < size) {
    const std::uint64_t begin = next_data(fd, at, size);
    if (begin >= size) break;
    const std::uint64_t end = std::max(next_hole(fd, begin, size), begin + 1);
    if (!segments.empty() && begin - (segments.back().offset + segments.back().length) < smallest_hole)
      segments.back().length = end - segments.back().offset;
    else
      segments.push_back({begin, end - begin});
    at = end;
    while (segments.size() > kMostSegments) {
      smallest_hole *= 2;
      std::vector<Segment> fewer;
      for (const Segment& segment : segments) {
        if (!fewer.empty() && segment.offset - (fewer.back().offset + fewer.back().length) < smallest_hole)
          fewer.back().length = segment.offset + segment.length - fewer.back().offset;
        else
          fewer.push_back(segment);
      }
      segments = std::move(fewer);
    }
  }
  return segments;
}

Result<Xattrs> read_xattrs(int fd) {
  Xattrs xattrs;
  const ssize_t length = ::flistxattr(fd, nullptr, 0);
  if (length < 0 && errno != EOPNOTSUPP) return fail_errno("flistxattr");
  if (length <= 0) return xattrs;
  std::string names(std::min<std::size_t>(static_cast<std::size_t>(length) + 4096, 65536), '\0');
  const ssize_t got = ::flistxattr(fd, names.data(), names.size());
  if (got < 0) return fail_errno("flistxattr");
  std::size_t total = 0;
  std::string value;
  for (std::string_view rest(names.data(), static_cast<std::size_t>(got)); !rest.empty();) {
    const std::string name(rest.substr(0, rest.find('\0')));
    rest.remove_prefix(std::min(rest.size(), name.size() + 1));
    if (!name.starts_with(kUser) || name.starts_with(kOverlay)) continue;
    value.resize(65536);
    const ssize_t bytes = ::fgetxattr(fd, name.c_str(), value.data(), value.size());
    if (bytes < 0 && errno == ENODATA) continue;
    if (bytes < 0) return fail_errno("fgetxattr");
    total += name.size() + static_cast<std::size_t>(bytes);
    if (total > kMostXattrBytes)
      return fail(ErrorKind::kTooLarge, "a file has more extended attributes than can be carried");
    xattrs.emplace(name, value.substr(0, static_cast<std::size_t>(bytes)));
  }
  return xattrs;
}

}  // namespace warren::changes
