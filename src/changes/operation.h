// What a merge does to a sandbox's files, as a stream of bytes: one line of JSON for each
// operation, in the order in which they are to be done, and after the line of a "file" the
// bytes of its segments, without anything between or after them. The last line is
// {"op":"end","count":N}, N operations before it; a stream that ends without it is cut short.
//
//   {"op":"folder","path":P,ATTRIBUTES}         a new folder; one that is there already will do
//   {"op":"file","path":P,ATTRIBUTES,"size":N,"segments":[[OFFSET,LENGTH]…],"was":W?}
//       takes the place of what is not a folder; zeros outside the segments, which are in
//       order and apart
//   {"op":"symlink","path":P,"target":T,"uid":N,"gid":N,"mtime_ns":N,"was":W?}
//   {"op":"link","path":P,"target":P,"was":W?,"target_was":W?}
//       another name of a file: of one that an earlier "file" wrote, or, with "target_was", of one
//       that is there and that no operation changes
//   {"op":"attributes","path":P,ATTRIBUTES,"was":W?}      of a file or folder that stays
//   {"op":"remove","path":P,"was":W?}           anything but a folder
//   {"op":"remove_folder","path":P}             stays if something is in it
//
// P and T are "path" or "path_base64", "target" or "target_base64" for what is not UTF-8.
// ATTRIBUTES: "mode":N,"uid":N,"gid":N,"mtime_ns":N?,"xattrs":{NAME:BASE64}?, names "user.…".
// Without "mtime_ns" the time is left as it comes; "xattrs" are all that there shall be,
// without them those there stay. W says what must be at the path before anything is done, else nothing is:
// null for nothing, or {"size":N,"mtime_ns":N} of a file or symbolic link.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "changes/content.h"

namespace warren::changes {

enum class OperationKind : std::uint8_t {
  kFolder,
  kFile,
  kSymlink,
  kLink,
  kAttributes,
  kRemove,
  kRemoveFolder,
};

struct Attributes {
  std::uint32_t mode = 0;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::optional<std::int64_t> mtime_ns;
  std::optional<Xattrs> xattrs;
};

// What must be at a path.
struct Was {
  bool nothing = true;
  std::uint64_t size = 0;
  std::int64_t mtime_ns = 0;
};

struct Operation {
  OperationKind kind = OperationKind::kFile;
  std::string path;               // absolute
  Attributes attributes;          // of a symbolic link the ids and the time only
  std::uint64_t size = 0;         // kFile
  std::vector<Segment> segments;  // kFile
  std::string target;             // kSymlink, kLink
  std::optional<Was> was;
  std::optional<Was> target_was;  // kLink, of a file that stays as it is
};

// How many bytes of content follow the operation's line.
std::uint64_t content_bytes(const Operation& operation);

// With the line's end.
std::string encode(const Operation& operation);
std::string encode_end(std::uint64_t count);

struct EndOfOperations {
  std::uint64_t count = 0;
};

// A line of the stream, without its end. Strict: paths are absolute and have no empty, "." or
// ".." part, numbers are in range, members known.
Result<std::variant<Operation, EndOfOperations>> decode_operation(std::string_view line);

}  // namespace warren::changes
