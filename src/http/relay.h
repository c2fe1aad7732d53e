// Bytes between two connections.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "http/message.h"
#include "http/source.h"

namespace warren::http {

// A connection that is read as a Source.
class RawSource final : public Source {
 public:
  explicit RawSource(std::shared_ptr<RawConnection> connection) : connection_(std::move(connection)) {}

  std::string_view buffered() const override { return std::string_view(buffer_).substr(begin_); }
  void consume(std::size_t bytes) override;
  Task<Result<std::size_t>> fill(std::size_t at_most, Clock::time_point deadline) override;
  Task<Result<std::string>> read_piece(std::size_t at_most, Clock::time_point deadline) override;

 private:
  std::shared_ptr<RawConnection> connection_;
  std::string buffer_;
  std::size_t begin_ = 0;
};

// Carries bytes between a client and a server in both directions until both have ended, or either
// breaks; then both are closed. `early` is what the server has already said.
Task<void> relay(RawConnection& client, std::shared_ptr<RawConnection> server, std::string early);

}  // namespace warren::http
