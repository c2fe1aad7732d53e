// Whatever a client sends and however it is cut: a head ends at the same byte with the
// same verdict, a chunked body decodes to the same bytes, and a target's decoded path
// has no control character in it.
#include <algorithm>
#include <string>

#include "http/chunk_decoder.h"
#include "http/head_parser.h"
#include "http/head_scanner.h"
#include "http/target.h"
#include "input.h"

using namespace warren;

namespace {

constexpr http::HeadLimits kLimits{.target_bytes = 256, .head_bytes = 1024, .fields = 16};

void scan_head(fuzz::Input& input, const std::string& bytes) {
  http::HeadScanner at_once(kLimits);
  const auto verdict = at_once.scan(bytes);
  http::HeadScanner in_pieces(kLimits);
  auto state = http::HeadScanner::State::kMore;
  for (std::size_t shown = 0; shown < bytes.size() && state == http::HeadScanner::State::kMore;) {
    shown = std::min(bytes.size(), shown + 1 + input.byte() % 16U);
    state = in_pieces.scan(std::string_view(bytes).substr(0, shown));
  }
  if (bytes.empty()) return;
  fuzz::require(state == verdict);
  if (verdict != http::HeadScanner::State::kComplete) return;
  fuzz::require(in_pieces.head_bytes() == at_once.head_bytes() && at_once.head_bytes() <= bytes.size());
  const auto head = http::parse_request_head(std::string_view(bytes).substr(0, at_once.head_bytes()));
  if (!head) return;
  fuzz::require(head->headers.all("Transfer-Encoding").empty() ||
                head->headers.all("Content-Length").empty());
  if (const auto target = http::parse_target(head->target))
    for (const char c : target->path) fuzz::require(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
}

struct Decoded {
  http::ChunkDecoder decoder;
  std::string body;
  std::size_t consumed = 0;
  bool broken = false;

  void take(std::string_view coded) {
    std::string out(coded.size(), '\0');
    const auto progress = decoder.decode(coded, out.data());
    broken = !progress;
    if (broken) return;
    fuzz::require(progress->produced <= progress->consumed);
    fuzz::require(progress->consumed == coded.size() || decoder.done());
    body.append(out, 0, progress->produced);
    consumed += progress->consumed;
  }
};

void decode_chunks(fuzz::Input& input, const std::string& bytes) {
  Decoded at_once;
  at_once.take(bytes);
  Decoded in_pieces;
  std::string_view rest = bytes;
  while (!rest.empty() && !in_pieces.broken && !in_pieces.decoder.done()) {
    const std::string_view piece = rest.substr(0, 1 + input.byte() % 16U);
    rest.remove_prefix(piece.size());
    in_pieces.take(piece);
  }
  fuzz::require(in_pieces.broken == at_once.broken);
  if (at_once.broken) return;
  fuzz::require(in_pieces.body == at_once.body && in_pieces.consumed == at_once.consumed);
  fuzz::require(in_pieces.decoder.done() == at_once.decoder.done());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const bool is_head = input.byte() % 2 == 0;
  const std::string bytes = input.bytes(size - size / 4);
  if (is_head)
    scan_head(input, bytes);
  else
    decode_chunks(input, bytes);
  return 0;
}
