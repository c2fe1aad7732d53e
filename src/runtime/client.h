// The server's side of its conversation with the runtime: SOCK_SEQPACKET on a
// path, one JSON message a packet, descriptors passed along. The runtime may go
// and come back (its sandboxes are then gone); the client reconnects by itself.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/task.h"
#include "base/unique_fd.h"
#include "runtime/driver.h"

namespace warren::runtime {

struct TemplateInfo {
  std::string name;
  std::string description;
  std::string digest;
  bool built = false;
};

class Client {
 public:
  struct Events {
    // A sandbox has ended on its own, or with the runtime that held it.
    std::function<void(const Exit&)> on_exit;
    // The connection stands (again); `sandboxes` are all that the runtime has.
    std::function<void(std::vector<std::string> sandboxes)> on_connected;
    std::function<void()> on_lost;
  };

  // Connects to the runtime's socket at `path`, now and whenever it is lost.
  static std::shared_ptr<Client> start(const Executor& executor, std::string path, Events events);
  virtual ~Client() = default;

  // Each fails with kUnavailable while the runtime is away, kTimeout after 30 s,
  // and otherwise with the driver's own error.
  virtual Task<Result<void>> create(SandboxSpec spec) = 0;
  virtual Task<Result<void>> fork(std::string parent, std::vector<SandboxSpec> children) = 0;
  virtual Task<Result<void>> replace(std::string id, std::string winner) = 0;
  // Where the answer comes, as changes/answer.h has it.
  virtual Task<Result<UniqueFd>> compare(CompareSpec spec) = 0;
  virtual Task<Result<UniqueFd>> plan_merge(MergeSpec spec) = 0;
  virtual Task<Result<UniqueFd>> connect(std::string id) = 0;
  virtual Task<Result<void>> destroy(std::string id) = 0;
  virtual Task<Result<void>> set_egress(std::string id, EgressPolicy policy) = 0;
  virtual Task<Result<EgressReport>> egress(std::string id) = 0;
  virtual Task<Result<Usage>> usage(std::string id) = 0;
  virtual Task<Result<std::vector<TemplateInfo>>> templates() = 0;
  virtual Task<Result<StockInfo>> stock() = 0;
  virtual Task<Result<void>> drop_stock(std::string account) = 0;
  // Of the driver that new sandboxes get; empty until first connected.
  virtual const Capabilities& capabilities() const = 0;
  virtual bool connected() const = 0;
};

}  // namespace warren::runtime
