// Copies uppers in a process of its own (helper_process.h), so that nobody else has to wait: a
// copy first writes out what the upper that is copied has not written yet, which takes seconds
// where much was written, and a pool without snapshots copies file by file.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/task.h"
#include "runtime/namespace/pool.h"
#include "runtime/waiting.h"

namespace warren::runtime {

class Copier {
 public:
  // Makes one copy, in the other process and on any of its threads. Names have been checked.
  using Make = std::function<Result<void>(const std::string& from, const NewUpper& copy)>;

  static Result<std::unique_ptr<Copier>> start(const Executor& executor, Make make);
  // Waits for what is being copied.
  ~Copier();
  Copier(const Copier&) = delete;
  Copier& operator=(const Copier&) = delete;

  // See Pool::copy().
  std::vector<std::shared_ptr<UpperCopy>> copy(const std::string& from, std::vector<NewUpper> copies,
                                               std::size_t direct);

 private:
  Copier(Executor executor, Make make) : executor_(std::move(executor)), make_(std::move(make)) {}
  Result<void> spawn();
  void run(int orders) const;
  static Task<void> hear(std::shared_ptr<boost::asio::posix::stream_descriptor> answers,
                         std::shared_ptr<std::map<std::uint64_t, std::shared_ptr<UpperCopy>>> open);

  Executor executor_;
  Make make_;
  pid_t child_ = -1;
  std::shared_ptr<boost::asio::posix::stream_descriptor> socket_;
  // What has been ordered of this child and not answered yet, by number.
  std::shared_ptr<std::map<std::uint64_t, std::shared_ptr<UpperCopy>>> open_;
  std::uint64_t last_ = 0;
};

}  // namespace warren::runtime
