// Lines over two descriptors, as MCP's stdio transport has them. Any descriptor will
// do: a pipe, a terminal, a socket, a file. Descriptors are left as they were found.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "api/mcp/signal.h"
#include "base/result.h"
#include "base/task.h"

namespace warren::api::mcp {

// A descriptor in the event loop: a duplicate of one, whose mode is restored.
class LoopDescriptor {
 public:
  LoopDescriptor(const Executor& executor, int descriptor);
  LoopDescriptor(const LoopDescriptor&) = delete;
  LoopDescriptor& operator=(const LoopDescriptor&) = delete;
  ~LoopDescriptor();

  // Null for a regular file, which the event loop cannot wait for and need not.
  boost::asio::posix::stream_descriptor* stream() { return stream_ ? &*stream_ : nullptr; }
  int descriptor() const { return descriptor_; }

 private:
  const int descriptor_;
  const int flags_;
  std::optional<boost::asio::posix::stream_descriptor> stream_;
};

class LineReader {
 public:
  LineReader(const Executor& executor, int descriptor, std::size_t max_bytes);

  // The next line without its end; nothing at the end of input. kTooLarge for a
  // line beyond the limit, which is skipped.
  Task<Result<std::optional<std::string>>> next();
  // Ends a next() that waits.
  void stop();

 private:
  Task<bool> read_more();

  LoopDescriptor input_;
  const std::size_t max_bytes_;
  std::string buffer_;
  std::size_t scanned_ = 0;
  bool skipping_ = false;
  bool ended_ = false;
};

class LineWriter {
 public:
  LineWriter(const Executor& executor, int descriptor);

  // Writes one line whole, after those that came before. Nothing is written any
  // more once the reader is gone.
  Task<void> write(std::string line);
  // Called once when nobody reads any more. At once if that is known.
  void on_broken(std::function<void()> callback);

 private:
  Task<bool> write_all(std::string bytes);
  void set_broken();

  LoopDescriptor output_;
  Signal free_;
  bool busy_ = false;
  bool broken_ = false;
  std::function<void()> on_broken_;
};

}  // namespace warren::api::mcp
