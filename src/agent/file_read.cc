#include "agent/file_read.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "agent/file_error.h"
#include "agent/request.h"
#include "base/unique_fd.h"
#include "base/utf8.h"

namespace warren::agent {

namespace json = boost::json;
using wire::Channel;

namespace {

// Of a kernel file, which has no size of its own, no more than this is read.
constexpr std::size_t kKernelFileLimit = std::size_t{1024} * 1024;

std::unexpected<Error> refused(const std::string& path, std::string_view why) {
  return fail(ErrorKind::kInvalid, "read " + to_utf8(path) + ": " + std::string(why));
}

bool is_kernel_file(int fd) {
  struct statfs status {};
  if (::fstatfs(fd, &status) != 0) return true;
  switch (static_cast<unsigned long>(status.f_type)) {
    case PROC_SUPER_MAGIC:
    case SYSFS_MAGIC:
    case CGROUP_SUPER_MAGIC:
    case CGROUP2_SUPER_MAGIC:
    case DEBUGFS_MAGIC:
    case TRACEFS_MAGIC:
    case SECURITYFS_MAGIC:
      return true;
    default:
      return false;
  }
}

// All of a kernel file, which claims to be empty; kInvalid if it is no text of bounded size.
Result<std::string> slurp(int fd, const std::string& path) {
  std::string content;
  std::array<char, 16UL << 10> part;
  for (;;) {
    const ssize_t bytes = ::read(fd, part.data(), part.size());
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return refused(path, "a kernel file that cannot be read as one");
    if (bytes == 0) return content;
    content.append(part.data(), static_cast<std::size_t>(bytes));
    if (content.size() > kKernelFileLimit) return refused(path, "a kernel file without an end in sight");
  }
}

struct Source {
  UniqueFd fd;
  struct stat status {};
  std::optional<std::string> content;  // of a kernel file
};

Result<Source> open_source(const std::string& path) {
  // Nothing at the path may make this wait, or make a terminal ours.
  Source source;
  source.fd.reset(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!source.fd) return fail(file_error("read", path, errno));
  if (::fstat(source.fd.get(), &source.status) != 0) return fail(file_error("read", path, errno));
  if (!S_ISREG(source.status.st_mode))
    return refused(path, "is " + std::string(kind_of_file(source.status.st_mode)) + ", not a regular file");
  if (is_kernel_file(source.fd.get())) {
    auto content = slurp(source.fd.get(), path);
    if (!content) return fail(std::move(content).error());
    source.content = *std::move(content);
    source.status.st_size = static_cast<off_t>(source.content->size());
  }
  return source;
}

// The next bytes, none at the end.
Result<std::string> read_piece(const Source& source, const std::string& path, std::uint64_t at,
                               std::size_t size) {
  if (source.content) return at < source.content->size() ? source.content->substr(at, size) : std::string();
  std::string bytes;
  ssize_t got = 0;
  // GCC 12 tells the function of the rounded capacity, not of the size asked for.
  bytes.resize_and_overwrite(size, [&](char* to, std::size_t) -> std::size_t {
    do {
      got = ::pread(source.fd.get(), to, size, static_cast<off_t>(at));
    } while (got < 0 && errno == EINTR);
    return got > 0 ? static_cast<std::size_t>(got) : 0;
  });
  if (got < 0) return fail(file_error("read", path, errno));
  return bytes;
}

}  // namespace

Task<void> read_file(std::shared_ptr<Stream> stream, json::object object) {
  Request request(std::move(object));
  const std::string path = request.path();
  const std::uint64_t offset = request.number("offset", INT64_MAX).value_or(0);
  const std::uint64_t length = request.number("length", INT64_MAX).value_or(INT64_MAX);
  if (auto valid = request.finish(); !valid) co_return stream->close(valid.error());
  auto opened = open_source(path);
  if (!opened) co_return stream->close(opened.error());
  const Source source = *std::move(opened);

  const auto size = static_cast<std::uint64_t>(source.status.st_size);
  json::object about{
      {"size", size},
      {"mode", source.status.st_mode & 07777},
      {"mtime_ms", source.status.st_mtim.tv_sec * 1000 + source.status.st_mtim.tv_nsec / 1'000'000}};
  co_await stream->notice(about);

  // What is appended meanwhile is not read, so that every read ends.
  std::uint64_t left = offset >= size ? 0 : std::min(length, size - offset);
  std::uint64_t sent = 0;
  while (left > 0 && !stream->cancelled()) {
    const std::size_t room = co_await stream->room(Channel::kOutput);
    if (room == 0) co_return;
    auto bytes = read_piece(source, path, offset + sent, std::min<std::uint64_t>(room, left));
    if (!bytes) co_return stream->close(bytes.error());
    if (bytes->empty()) break;
    sent += bytes->size();
    left -= bytes->size();
    stream->send_data(Channel::kOutput, *std::move(bytes));
  }
  if (stream->cancelled()) co_return stream->close(Error(ErrorKind::kCancelled, "cancelled"));
  json::object result{{"size", sent}};
  stream->close(result);
}

}  // namespace warren::agent
