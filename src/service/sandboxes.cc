#include "service/sandboxes.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "service/call_rules.h"
#include "service/executions.h"
#include "service/files.h"
#include "service/lifecycle.h"
#include "service/sandbox_parts.h"

namespace warren::service {
namespace {

constexpr std::string_view kAdminScope = "admin";

// Lets calls in, and hands them to whoever knows how to do them.
class SandboxService final : public Sandboxes {
 public:
  explicit SandboxService(std::shared_ptr<Lifecycle> lifecycle)
      : lifecycle_(std::move(lifecycle)), ports_(make_ports(lifecycle_, lifecycle_->options().ports)) {}

  Task<Result<SandboxInfo>> create(Caller caller, CreateSpec spec) override {
    WARREN_TRY_CO(check_scope(caller));
    const auto lifecycle = lifecycle_;
    co_return co_await lifecycle->create(std::move(caller), std::move(spec));
  }

  Result<SandboxInfo> get(const Caller& caller, std::string_view id) const override {
    WARREN_TRY(check_scope(caller));
    auto found = lifecycle_->find(caller, id);
    if (!found) return fail(std::move(found).error());
    return (*found)->info;
  }

  std::vector<SandboxInfo> list(const Caller& caller) const override {
    if (!check_scope(caller)) return {};
    return lifecycle_->list(caller);
  }

  Task<Result<void>> destroy(Caller caller, std::string id) override {
    WARREN_TRY_CO(check_scope(caller));
    const auto lifecycle = lifecycle_;
    co_return co_await lifecycle->destroy(std::move(caller), std::move(id));
  }

  Task<Result<Forked>> fork(Caller caller, std::string id, ForkSpec spec) override {
    auto admitted = admit(caller, id);
    if (!admitted) co_return fail(std::move(admitted).error());
    const auto lifecycle = lifecycle_;
    co_return co_await lifecycle->fork(std::move(*admitted), spec);
  }

  Task<Result<Merged>> merge(Caller caller, std::string parent, MergeSpec spec) override {
    auto into = admit(caller, parent);
    if (!into) co_return fail(std::move(into).error());
    auto winner = admit(caller, spec.winner);
    if (!winner) co_return fail(std::move(winner).error().in("the winner"));
    const auto lifecycle = lifecycle_;
    co_return co_await lifecycle->merge(std::move(*into), std::move(*winner), std::move(spec));
  }

  Task<Result<changes::Diff>> diff(Caller caller, std::string id, DiffSpec spec) override {
    auto one = admit(caller, id);
    if (!one) co_return fail(std::move(one).error());
    auto other = admit(caller, spec.other);
    if (!other) co_return fail(std::move(other).error());
    const auto lifecycle = lifecycle_;
    co_return co_await lifecycle->diff(std::move(*one), std::move(*other), std::move(spec));
  }

  Task<Result<std::shared_ptr<Execution>>> run_python(Caller caller, std::string id,
                                                      PythonCall call) override {
    auto admitted = admit(caller, id);
    if (!admitted) co_return fail(std::move(admitted).error());
    const auto lifecycle = lifecycle_;
    co_return co_await start_python(std::move(*admitted), lifecycle->options(), std::move(call));
  }

  Task<Result<std::shared_ptr<Execution>>> run_bash(Caller caller, std::string id, BashCall call) override {
    auto admitted = admit(caller, id);
    if (!admitted) co_return fail(std::move(admitted).error());
    const auto lifecycle = lifecycle_;
    co_return co_await start_bash(std::move(*admitted), lifecycle->options(), std::move(call));
  }

  Task<Result<std::shared_ptr<Execution>>> open_terminal(Caller caller, std::string id,
                                                         TerminalCall call) override {
    auto admitted = admit(caller, id);
    if (!admitted) co_return fail(std::move(admitted).error());
    co_return co_await start_terminal(std::move(*admitted), std::move(call));
  }

  Task<Result<std::shared_ptr<FileReader>>> read_file(Caller caller, std::string id,
                                                      std::string path) override {
    auto admitted = admit(caller, id);
    if (!admitted) co_return fail(std::move(admitted).error());
    auto absolute = absolute_path("path", path);
    if (!absolute) co_return fail(std::move(absolute).error());
    co_return co_await open_reader(admitted->sandbox, admitted->links, std::move(admitted->lease),
                                   std::move(*absolute));
  }

  Task<Result<std::shared_ptr<FileWriter>>> write_file(Caller caller, std::string id, std::string path,
                                                       std::optional<std::uint64_t> size) override {
    auto admitted = admit(caller, id);
    if (!admitted) co_return fail(std::move(admitted).error());
    auto absolute = absolute_path("path", path);
    if (!absolute) co_return fail(std::move(absolute).error());
    // What would not fit is refused before it is sent.
    const std::uint64_t disk = lifecycle_->options().tier.limits.disk_bytes;
    if (size && *size > disk)
      co_return fail(ErrorKind::kNoSpace,
                     fmt::format("the file has {} bytes, the sandbox's whole disk {}", *size, disk));
    co_return co_await open_writer(admitted->sandbox, admitted->links, std::move(*absolute), size,
                                   std::move(admitted->lease));
  }

  Task<Result<FileListing>> list_files(Caller caller, std::string id, std::string path) override {
    const auto admitted = admit(caller, id);
    if (!admitted) co_return fail(admitted.error());
    auto absolute = absolute_path("path", path);
    if (!absolute) co_return fail(std::move(absolute).error());
    co_return co_await list_folder(admitted->sandbox, admitted->links, std::move(*absolute));
  }

  Task<Result<void>> remove_file(Caller caller, std::string id, std::string path) override {
    const auto admitted = admit(caller, id);
    if (!admitted) co_return fail(admitted.error());
    auto absolute = absolute_path("path", path);
    if (!absolute) co_return fail(std::move(absolute).error());
    co_return co_await remove_path(admitted->sandbox, admitted->links, std::move(*absolute));
  }

  Task<Result<Capacity>> capacity(Caller caller) override {
    WARREN_TRY_CO(check_scope(caller));
    const auto lifecycle = lifecycle_;
    co_return co_await lifecycle->capacity(std::move(caller));
  }
  Task<Result<Census>> census(Caller caller) override {
    if (!caller.has_scope(kAdminScope))
      co_return fail(ErrorKind::kForbidden, "only the operator's key may ask this");
    const auto lifecycle = lifecycle_;
    co_return co_await lifecycle->census();
  }
  Task<Result<void>> drop_stock(Caller caller) override {
    WARREN_TRY_CO(check_scope(caller));
    const auto lifecycle = lifecycle_;
    co_return co_await lifecycle->drop_stock(std::move(caller));
  }
  Task<Result<SandboxInfo>> set_egress(Caller caller, std::string id,
                                       runtime::EgressPolicy policy) override {
    auto admitted = admit(caller, id);
    if (!admitted) co_return fail(std::move(admitted).error());
    const auto lifecycle = lifecycle_;
    co_return co_await lifecycle->set_egress(std::move(*admitted), std::move(policy));
  }
  Task<Result<runtime::EgressReport>> explain(Caller caller, std::string id) override {
    auto admitted = admit(caller, id);
    if (!admitted) co_return fail(std::move(admitted).error());
    const auto lifecycle = lifecycle_;
    co_return co_await lifecycle->report_egress(std::move(*admitted));
  }
  std::string no_network() const override { return lifecycle_->no_network(); }
  Ports& ports() override { return *ports_; }
  bool healthy() const override { return lifecycle_->healthy(); }

 private:
  Result<Admitted> admit(const Caller& caller, std::string_view id) const {
    WARREN_TRY(check_scope(caller));
    auto found = lifecycle_->find(caller, id);
    if (!found) return fail(std::move(found).error());
    if (!(*found)->is_alive()) return fail(ended_error(**found));
    CallLease lease(*found, lifecycle_->time());
    return Admitted{.sandbox = std::move(*found), .links = lifecycle_->links(), .lease = std::move(lease)};
  }

  std::shared_ptr<Lifecycle> lifecycle_;
  std::shared_ptr<Ports> ports_;
};

}  // namespace

std::shared_ptr<Sandboxes> Sandboxes::start(Executor executor, store::Database& database, Options options,
                                            SandboxParts parts) {
  auto lifecycle =
      std::make_shared<Lifecycle>(std::move(executor), database, std::move(options), std::move(parts));
  lifecycle->begin();
  return std::make_shared<SandboxService>(std::move(lifecycle));
}

}  // namespace warren::service
