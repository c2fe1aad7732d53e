// What the server counts, in the text format of Prometheus. No id, name, address, code, command or
// key is in any of it: labels are words of Warren's own and the names of templates.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "http/message.h"
#include "service/sandboxes.h"

namespace warren::api::ops {

class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // create, fork, merge, destroy; `outcome` is "ok" or the name of an error's kind.
  void operation(std::string_view operation, std::string_view outcome, Clock::duration took);
  // python, bash, terminal; `outcome` is how it ended.
  void call(std::string_view kind, std::string_view outcome, Clock::duration took);
  void answered(const http::Request& request, int status);
  void connections(std::size_t now);

  // All of it, with what the service knows.
  std::string text(const service::Census& census) const;

 private:
  struct Families;
  std::unique_ptr<Families> families_;
};

}  // namespace warren::api::ops
