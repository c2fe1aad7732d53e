#include "api/mcp/sse.h"

#include <fmt/format.h>

#include <charconv>

namespace warren::api::mcp {

http::Headers event_stream_headers() {
  http::Headers headers;
  headers.set("Content-Type", "text/event-stream");
  headers.set("Cache-Control", "no-cache");
  // nginx would hold events back until it has a buffer full of them.
  headers.set("X-Accel-Buffering", "no");
  return headers;
}

std::string sse_event(std::string_view id, std::string_view json) {
  std::string event;
  event.reserve(json.size() + id.size() + 40);
  if (!id.empty()) event.append("id: ").append(id).append("\n");
  event.append("event: message\ndata: ").append(json).append("\n\n");
  return event;
}

std::string sse_opening(std::string_view id) { return fmt::format("id: {}\nretry: 1000\ndata: \n\n", id); }

std::string event_id(std::string_view stream, std::uint64_t number) {
  return fmt::format("{}.{}", stream, number);
}

std::optional<EventId> read_event_id(std::string_view id) {
  const auto dot = id.rfind('.');
  if (dot == std::string_view::npos || dot == 0) return std::nullopt;
  const std::string_view digits = id.substr(dot + 1);
  EventId read;
  read.stream = id.substr(0, dot);
  const char* const end = digits.end();
  // from_chars takes the end; it needs no zero after it.
  const auto [stopped, error] = std::from_chars(digits.begin(), end, read.number);
  if (error != std::errc() || stopped != end) return std::nullopt;
  return read;
}

std::optional<std::string> SseReader::next() {
  while (!overflowed_) {
    const auto end = buffer_.find('\n', scanned_);
    if (end == std::string::npos) {
      scanned_ = buffer_.size();
      if (buffer_.size() + data_.size() > max_event_bytes_) overflowed_ = true;
      return std::nullopt;
    }
    std::string_view line(buffer_.data(), end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    const bool is_end = line.empty();
    if (line.starts_with("data:")) {
      line.remove_prefix(5);
      if (line.starts_with(' ')) line.remove_prefix(1);
      if (has_data_) data_ += '\n';
      data_ += line;
      has_data_ = true;
    }
    buffer_.erase(0, end + 1);
    scanned_ = 0;
    if (is_end && has_data_) {
      std::string data = std::move(data_);
      data_.clear();
      has_data_ = false;
      if (!data.empty()) return data;
    }
  }
  return std::nullopt;
}

}  // namespace warren::api::mcp
