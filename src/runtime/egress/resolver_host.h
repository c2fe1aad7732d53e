// Keeps the resolver running in the router's network namespace: a process of its own that gives its
// rights up first of all, so that nothing which parses what sandboxes and nameservers say has any.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/task.h"
#include "base/unique_fd.h"

namespace warren::runtime {

class ResolverHost {
 public:
  // Starts the program `argv` (the first an absolute path) now, and again whenever it ends, more
  // seldom the more often it does.
  static Result<std::unique_ptr<ResolverHost>> start(const Executor& executor, int network_namespace,
                                                     std::vector<std::string> argv);
  // Ends it.
  ~ResolverHost();

 private:
  struct State;
  explicit ResolverHost(std::shared_ptr<State> state) : state_(std::move(state)) {}
  static Task<void> keep(std::shared_ptr<State> state);

  std::shared_ptr<State> state_;
};

}  // namespace warren::runtime
