// upload, download and list_files.
#include <fmt/format.h>

#include <utility>

#include "api/mcp/output.h"
#include "api/mcp/tools.h"
#include "base/base64.h"
#include "base/ids.h"
#include "base/utf8.h"

namespace warren::api::mcp {

namespace json = boost::json;

namespace {

constexpr std::size_t kMaxEntries = 1000;
constexpr std::size_t kMaxListedInText = 200;

Error too_large(std::string_view verb, std::string_view method, const std::string& id) {
  return {ErrorKind::kTooLarge,
          fmt::format("{} carries at most {} bytes (6 MiB) of a file; for a larger one use {} "
                      "/v1/sandboxes/{}/files?path=..., which streams raw bytes of any size",
                      verb, kMaxFileBytes, method, id)};
}

json::object describe_entry(const service::FileEntry& entry) {
  json::object described;
  const std::string name = to_utf8(entry.name);
  if (name != entry.name) described["name_base64"] = encode_base64(entry.name);
  described["name"] = name;
  described["type"] = entry.type;
  described["size"] = entry.size;
  described["mode"] = fmt::format("{:04o}", entry.mode & 07777U);
  described["modified_at"] = to_rfc3339(entry.modified_at);
  if (!entry.target.empty()) described["target"] = to_utf8(entry.target);
  return described;
}

// What of a downloaded file a model gets to read: text as text, other bytes as
// base64 where they are few.
std::string readable(const std::string& bytes, const std::string& base64) {
  const bool is_text = to_utf8(bytes) == bytes && bytes.find('\0') == std::string::npos;
  if (is_text) return "text:\n" + cut_in_the_middle(bytes);
  if (base64.size() <= Capture::kLimit) return "content_base64:\n" + base64;
  return "(binary; its bytes are in the structured content's content_base64)";
}

}  // namespace

Task<ToolResult> Tools::upload(CallContext context, json::object object) {
  Arguments arguments(object);
  const std::string id = arguments.require_string("sandbox_id", {"id"});
  const std::string path = arguments.require_string("path");
  const std::string base64 = arguments.require_string("content_base64");
  std::optional<std::string> decoded = decode_base64(base64);
  if (!decoded) {
    arguments.refuse(
        "content_base64 must be the file's bytes in standard base64 (RFC 4648, section 4: A-Z a-z 0-9 + /, "
        "padded "
        "with =)");
  }
  if (const auto read = arguments.finish(); !read) co_return failed(read.error());
  const std::string bytes = std::move(decoded).value_or(std::string());
  if (bytes.size() > kMaxFileBytes) co_return failed(too_large("upload", "PUT", id));
  if (auto why = missing(context, id)) co_return std::move(*why);

  auto writer = co_await sandboxes_->write_file(context.caller, id, path, bytes.size());
  if (!writer) co_return failed(writer.error());
  // Smaller pieces than one of 6 MiB, so that the sandbox's connection stays free
  // for others in between.
  constexpr std::size_t kPiece = 256UL << 10U;
  for (std::size_t at = 0; at < bytes.size(); at += kPiece) {
    std::string piece = bytes.substr(at, kPiece);
    const auto written = co_await (*writer)->write(std::move(piece));
    if (!written) co_return failed(written.error());
    if (context.call->cancelled()) co_return failed(Error(ErrorKind::kCancelled, "the upload was cancelled"));
  }
  const auto written = co_await (*writer)->finish();
  if (!written) co_return failed(written.error());

  json::object structured;
  structured["path"] = path;
  structured["size"] = written->size;
  structured["sha256"] = written->sha256;
  co_return done(fmt::format("wrote {}\nsize: {}\nsha256: {}", path, written->size, written->sha256),
                 std::move(structured));
}

Task<ToolResult> Tools::download(CallContext context, json::object object) {
  Arguments arguments(object);
  const std::string id = arguments.require_string("sandbox_id", {"id"});
  const std::string path = arguments.require_string("path");
  if (const auto read = arguments.finish(); !read) co_return failed(read.error());
  if (auto why = missing(context, id)) co_return std::move(*why);

  auto reader = co_await sandboxes_->read_file(context.caller, id, path);
  if (!reader) co_return failed(reader.error());
  if ((*reader)->size() > kMaxFileBytes) co_return failed(too_large("download", "GET", id));
  std::string bytes;
  while (true) {
    auto piece = co_await (*reader)->read();
    if (!piece) co_return failed(piece.error());
    if (piece->empty()) break;
    bytes += *piece;
    // A file may grow while it is read, and some say nothing of their size.
    if (bytes.size() > kMaxFileBytes) co_return failed(too_large("download", "GET", id));
    if (context.call->cancelled())
      co_return failed(Error(ErrorKind::kCancelled, "the download was cancelled"));
  }

  const std::string base64 = encode_base64(bytes);
  const std::string sha256 = sha256_hex(bytes);
  std::string text =
      fmt::format("{}\nsize: {}\nsha256: {}\n{}", path, bytes.size(), sha256, readable(bytes, base64));
  json::object structured;
  structured["path"] = path;
  structured["content_base64"] = base64;
  structured["size"] = bytes.size();
  structured["sha256"] = sha256;
  co_return done(std::move(text), std::move(structured));
}

Task<ToolResult> Tools::list_files(CallContext context, json::object object) {
  Arguments arguments(object);
  const std::string id = arguments.require_string("sandbox_id", {"id"});
  const std::string path = arguments.string("path").value_or("/root");
  if (const auto read = arguments.finish(); !read) co_return failed(read.error());
  if (auto why = missing(context, id)) co_return std::move(*why);

  const auto listing = co_await sandboxes_->list_files(context.caller, id, path);
  if (!listing) co_return failed(listing.error());
  json::array entries;
  std::string text = path + ":\n";
  for (const service::FileEntry& entry : listing->entries) {
    if (entries.size() == kMaxEntries) break;
    if (entries.size() < kMaxListedInText) {
      text += fmt::format("{} {:>12} {} {}{}\n",
                          entry.type == "directory" ? 'd'
                          : entry.type == "symlink" ? 'l'
                                                    : '-',
                          entry.size, to_rfc3339(entry.modified_at), to_utf8(entry.name),
                          entry.target.empty() ? "" : " -> " + to_utf8(entry.target));
    }
    entries.push_back(describe_entry(entry));
  }
  const std::size_t shown = std::min(entries.size(), kMaxListedInText);
  if (listing->entries.empty()) text += "(empty)\n";
  if (shown < listing->entries.size() || listing->truncated) {
    text += fmt::format("({} entries are shown here; there are more: use run_bash with ls or find)\n", shown);
  }
  json::object structured;
  structured["path"] = path;
  structured["truncated"] = listing->truncated || entries.size() < listing->entries.size();
  structured["entries"] = std::move(entries);
  co_return done(std::move(text), std::move(structured));
}

}  // namespace warren::api::mcp
