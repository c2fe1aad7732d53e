// The sandbox that a stdio client has without asking for one: made when the first
// call needs it, destroyed at the end.
#pragma once

#include <boost/json/object.hpp>
#include <memory>
#include <optional>
#include <string>

#include "api/mcp/signal.h"
#include "api/mcp/upstream.h"
#include "base/result.h"
#include "base/task.h"

namespace warren::api::mcp {

class OwnSandbox {
 public:
  OwnSandbox(Executor executor, std::shared_ptr<Upstream> upstream, std::optional<std::string> template_name)
      : upstream_(std::move(upstream)),
        template_name_(std::move(template_name)),
        changed_(std::move(executor)) {}

  // Its id; makes it if there is none. Several at once get the same.
  Task<Result<std::string>> get();
  // Empty if there is none.
  const std::string& id() const { return id_; }
  // It is gone; the next get() makes another.
  void forget() { id_.clear(); }
  // Destroys it if there is one, and makes none any more.
  Task<void> end();

 private:
  Task<Result<std::string>> make();

  std::shared_ptr<Upstream> upstream_;
  const std::optional<std::string> template_name_;
  Signal changed_;
  std::string id_;
  bool making_ = false;
  bool ended_ = false;
};

}  // namespace warren::api::mcp
