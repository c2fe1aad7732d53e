#include "agent/late_output.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"

namespace warren::agent {
namespace {

constexpr std::size_t kLimit = std::size_t{64} * 1024;
// So many pieces at most, however small.
constexpr std::size_t kMaxPieces = 256;

}  // namespace

void LateOutput::add(std::int64_t call, std::string_view stream, std::string_view bytes) {
  if (bytes.size() > kLimit) {
    dropped_ += bytes.size() - kLimit;
    bytes.remove_prefix(bytes.size() - kLimit);
  }
  if (!pieces_.empty() && pieces_.back().call == call && pieces_.back().stream == stream)
    pieces_.back().bytes += bytes;
  else
    pieces_.push_back({call, std::string(stream), std::string(bytes)});
  size_ += bytes.size();
  while (size_ > kLimit || pieces_.size() > kMaxPieces) {
    Piece& oldest = pieces_.front();
    const bool whole = pieces_.size() > kMaxPieces || oldest.bytes.size() <= size_ - kLimit;
    const std::size_t gone = whole ? oldest.bytes.size() : size_ - kLimit;
    size_ -= gone;
    dropped_ += gone;
    if (whole)
      pieces_.pop_front();
    else
      oldest.bytes.erase(0, gone);
  }
}

std::vector<boost::json::object> LateOutput::take() {
  std::vector<boost::json::object> notices;
  for (Piece& piece : std::exchange(pieces_, {})) {
    std::string text;
    if (dropped_ > 0) {
      text.append("[").append(std::to_string(dropped_)).append(" earlier bytes dropped]\n");
      dropped_ = 0;
    }
    text += to_utf8(piece.bytes);
    notices.push_back({{"late", {{"call", piece.call}, {"stream", piece.stream}, {"text", text}}}});
  }
  size_ = 0;
  return notices;
}

}  // namespace warren::agent
