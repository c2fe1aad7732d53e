#include "service/files.h"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <utility>

#include "base/base64.h"
#include "service/call_rules.h"
#include "service/executions.h"

namespace warren::service {
namespace {

namespace json = boost::json;

using StreamPtr = std::shared_ptr<runtime::AgentStream>;

std::unexpected<Error> nonsense() {
  return fail(ErrorKind::kInternal, "the sandbox's agent said something that it never says");
}

std::optional<std::uint64_t> count_of(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  if (value == nullptr || !value->is_int64() || value->get_int64() < 0) return std::nullopt;
  return static_cast<std::uint64_t>(value->get_int64());
}

std::optional<std::string> string_of(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  if (value == nullptr || !value->is_string()) return std::nullopt;
  return std::string(value->get_string());
}

// What is UTF-8 comes as NAME, other bytes as NAME_base64.
std::optional<std::string> bytes_of(const json::object& object, const std::string& name) {
  auto text = string_of(object, name);
  if (text) return text;
  const auto encoded = string_of(object, name + "_base64");
  return encoded ? decode_base64(*encoded) : std::nullopt;
}

json::object request_for(std::string_view op, const std::string& path) {
  json::object request;
  request["op"] = op;
  set_path(request, path);
  return request;
}

class AgentReader final : public FileReader, public std::enable_shared_from_this<AgentReader> {
 public:
  AgentReader(std::shared_ptr<LiveSandbox> sandbox, std::shared_ptr<AgentLinks> links, CallLease lease,
              StreamPtr stream, std::uint64_t size)
      : sandbox_(std::move(sandbox)),
        links_(std::move(links)),
        lease_(std::move(lease)),
        stream_(std::move(stream)),
        size_(size) {}

  std::uint64_t size() const override { return size_; }

  Task<Result<std::string>> read() override {
    const auto self = shared_from_this();
    while (stream_) {
      const StreamPtr stream = stream_;
      auto event = co_await stream->next();
      if (!event) {
        end();
        co_return fail(co_await explain(sandbox_, links_, std::move(event).error()));
      }
      if (auto* data = std::get_if<runtime::StreamData>(&*event)) {
        if (data->bytes.empty()) continue;
        received_ += data->bytes.size();
        co_return std::move(data->bytes);
      }
      if (const auto* close = std::get_if<runtime::StreamClose>(&*event)) {
        end();
        // A file cut off must not pass for a whole one.
        if (count_of(close->value, "size") != received_) co_return nonsense();
      }
    }
    co_return std::string();
  }

 private:
  void end() {
    stream_.reset();
    lease_.end();
  }

  std::shared_ptr<LiveSandbox> sandbox_;
  std::shared_ptr<AgentLinks> links_;
  CallLease lease_;
  StreamPtr stream_;
  std::uint64_t size_;
  std::uint64_t received_ = 0;
};

class AgentWriter final : public FileWriter, public std::enable_shared_from_this<AgentWriter> {
 public:
  AgentWriter(std::shared_ptr<LiveSandbox> sandbox, std::shared_ptr<AgentLinks> links, CallLease lease,
              StreamPtr stream)
      : sandbox_(std::move(sandbox)),
        links_(std::move(links)),
        lease_(std::move(lease)),
        stream_(std::move(stream)) {}

  Task<Result<void>> write(std::string bytes) override {
    const auto self = shared_from_this();
    if (!stream_) co_return fail(ErrorKind::kConflict, "the write has ended");
    if (bytes.empty()) co_return Result<void>();
    const StreamPtr stream = stream_;
    auto sent = co_await stream->write(std::move(bytes));
    if (sent) co_return sent;
    // The agent has ended the stream and says why in its last message.
    if (sent.error().kind() == ErrorKind::kConflict) {
      auto answer = co_await result();
      co_return answer ? fail(ErrorKind::kInternal, "the agent ended the write early")
                       : fail(std::move(answer).error());
    }
    end();
    co_return fail(co_await explain(sandbox_, links_, std::move(sent).error()));
  }

  Task<Result<Written>> finish() override {
    const auto self = shared_from_this();
    if (!stream_) co_return fail(ErrorKind::kConflict, "the write has ended");
    const StreamPtr stream = stream_;
    auto ended = co_await stream->end_input();
    if (!ended && ended.error().kind() != ErrorKind::kConflict) {
      end();
      co_return fail(co_await explain(sandbox_, links_, std::move(ended).error()));
    }
    co_return co_await result();
  }

 private:
  // Waits for the agent's last word.
  Task<Result<Written>> result() {
    const StreamPtr stream = stream_;
    while (true) {
      auto event = co_await stream->next();
      if (!event) {
        end();
        co_return fail(co_await explain(sandbox_, links_, std::move(event).error()));
      }
      const auto* close = std::get_if<runtime::StreamClose>(&*event);
      if (close == nullptr) continue;
      end();
      const auto size = count_of(close->value, "size");
      auto sha256 = string_of(close->value, "sha256");
      if (!size || !sha256 || sha256->size() != 64) co_return nonsense();
      Written written;
      written.size = *size;
      written.sha256 = std::move(*sha256);
      co_return written;
    }
  }

  void end() {
    stream_.reset();
    lease_.end();
  }

  std::shared_ptr<LiveSandbox> sandbox_;
  std::shared_ptr<AgentLinks> links_;
  CallLease lease_;
  StreamPtr stream_;
};

std::optional<FileEntry> entry_of(const json::value& value) {
  constexpr std::array<std::string_view, 6> kTypes = {"file", "directory", "symlink",
                                                      "fifo", "socket",    "device"};
  if (!value.is_object()) return std::nullopt;
  const json::object& object = value.get_object();
  FileEntry entry;
  entry.name = bytes_of(object, "name").value_or("");
  // A name that is a path would lead whoever uses it elsewhere.
  const bool bad_name = entry.name.empty() || entry.name.size() > kMaxPathBytes || entry.name == "." ||
                        entry.name == ".." || entry.name.find('/') != std::string::npos ||
                        entry.name.find('\0') != std::string::npos;
  entry.type = string_of(object, "type").value_or("");
  if (bad_name || std::ranges::find(kTypes, entry.type) == kTypes.end()) return std::nullopt;
  entry.size = count_of(object, "size").value_or(0);
  entry.mode = static_cast<std::uint32_t>(count_of(object, "mode").value_or(0) & 0xffffffffU);
  const json::value* mtime = object.if_contains("mtime_ms");
  // Year 9999 at most: what comes later cannot be written as a date.
  constexpr std::int64_t kLatest = 253'402'300'799'999;
  if (mtime != nullptr && mtime->is_int64())
    entry.modified_at = WallTime(Millis(std::clamp<std::int64_t>(mtime->get_int64(), 0, kLatest)));
  entry.target = bytes_of(object, "target").value_or("");
  return entry;
}

Task<Result<FileListing>> gather(StreamPtr stream) {
  FileListing listing;
  while (true) {
    auto event = co_await stream->next();
    if (!event) co_return fail(std::move(event).error());
    if (const auto* close = std::get_if<runtime::StreamClose>(&*event)) {
      const json::value* truncated = close->value.if_contains("truncated");
      listing.truncated = truncated != nullptr && truncated->is_bool() && truncated->get_bool();
      co_return listing;
    }
    const auto* notice = std::get_if<runtime::StreamNotice>(&*event);
    if (notice == nullptr) co_return nonsense();
    const json::value* entries = notice->value.if_contains("entries");
    if (entries == nullptr || !entries->is_array()) co_return nonsense();
    for (const json::value& value : entries->get_array()) {
      if (listing.entries.size() == kMaxEntries) {
        listing.truncated = true;
        co_return listing;
      }
      auto entry = entry_of(value);
      if (!entry) co_return nonsense();
      listing.entries.push_back(std::move(*entry));
    }
  }
}

Task<Result<std::uint64_t>> size_from(StreamPtr stream) {
  auto event = co_await stream->next();
  if (!event) co_return fail(std::move(event).error());
  const auto* notice = std::get_if<runtime::StreamNotice>(&*event);
  const auto size = notice == nullptr ? std::nullopt : count_of(notice->value, "size");
  if (!size) co_return nonsense();
  co_return *size;
}

constexpr const char* kTooLate = "the sandbox's agent does not answer; try again";

}  // namespace

Task<Result<std::shared_ptr<FileReader>>> open_reader(std::shared_ptr<LiveSandbox> sandbox,
                                                      std::shared_ptr<AgentLinks> links, CallLease lease,
                                                      std::string path) {
  json::object request = request_for("read", path);
  auto stream = co_await links->open(sandbox, std::move(request));
  if (!stream) co_return fail(std::move(stream).error());
  // What the path is comes first, so that a missing file is an error and not a
  // stream that breaks.
  auto size = co_await within(links->parts().call_limit, kTooLate, size_from(*stream));
  if (!size) co_return fail(co_await explain(sandbox, links, std::move(size).error()));
  co_return std::make_shared<AgentReader>(sandbox, links, std::move(lease), std::move(*stream), *size);
}

Task<Result<std::shared_ptr<FileWriter>>> open_writer(std::shared_ptr<LiveSandbox> sandbox,
                                                      std::shared_ptr<AgentLinks> links, std::string path,
                                                      std::optional<std::uint64_t> size, CallLease lease) {
  json::object request = request_for("write", path);
  if (size) request["size"] = static_cast<std::int64_t>(*size);
  auto stream = co_await links->open(sandbox, std::move(request));
  if (!stream) co_return fail(std::move(stream).error());
  co_return std::make_shared<AgentWriter>(sandbox, links, std::move(lease), std::move(*stream));
}

Task<Result<FileListing>> list_folder(std::shared_ptr<LiveSandbox> sandbox, std::shared_ptr<AgentLinks> links,
                                      std::string path) {
  json::object request = request_for("list", path);
  auto stream = co_await links->open(sandbox, std::move(request));
  if (!stream) co_return fail(std::move(stream).error());
  auto listing = co_await within(links->parts().call_limit, kTooLate, gather(std::move(*stream)));
  if (!listing) co_return fail(co_await explain(sandbox, links, std::move(listing).error()));
  co_return listing;
}

Task<Result<void>> remove_path(std::shared_ptr<LiveSandbox> sandbox, std::shared_ptr<AgentLinks> links,
                               std::string path) {
  json::object request = request_for("remove", path);
  auto agent = co_await links->get(sandbox);
  if (!agent) co_return fail(std::move(agent).error());
  auto removed = co_await within(links->parts().call_limit, kTooLate, (*agent)->call(std::move(request)));
  if (!removed) co_return fail(co_await explain(sandbox, links, std::move(removed).error()));
  co_return Result<void>();
}

}  // namespace warren::service
