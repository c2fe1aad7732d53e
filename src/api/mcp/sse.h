// Server-sent events (WHATWG HTML, 9.2) as MCP uses them: written by the endpoint,
// read by the bridge.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "http/message.h"

namespace warren::api::mcp {

http::Headers event_stream_headers();

// One message; `id` may be empty.
std::string sse_event(std::string_view id, std::string_view json);
// The first event of a stream that can be resumed: an id to come back with, and how
// long to wait before that.
std::string sse_opening(std::string_view id);
// Keeps connection and client awake.
inline constexpr std::string_view kSseComment = ": \n\n";

// "STREAM.NUMBER".
std::string event_id(std::string_view stream, std::uint64_t number);
struct EventId {
  std::string stream;
  std::uint64_t number = 0;
};
std::optional<EventId> read_event_id(std::string_view id);

// Cuts a stream of bytes into the data of its events.
class SseReader {
 public:
  explicit SseReader(std::size_t max_event_bytes) : max_event_bytes_(max_event_bytes) {}

  void add(std::string_view bytes) { buffer_ += bytes; }
  // The data of the next event that has any; nothing until more bytes come.
  std::optional<std::string> next();
  // An event was longer than allowed; nothing more comes.
  bool overflowed() const { return overflowed_; }

 private:
  const std::size_t max_event_bytes_;
  std::string buffer_;
  std::size_t scanned_ = 0;  // where the line that is not whole yet was looked at up to
  std::string data_;
  bool has_data_ = false;
  bool overflowed_ = false;
};

}  // namespace warren::api::mcp
