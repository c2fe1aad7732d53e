#include "api/ops/metered_sandboxes.h"

#include <optional>
#include <string_view>
#include <utility>
#include <variant>

namespace warren::api::ops {
namespace {

using service::Caller;

template <typename T>
std::string_view outcome_of(const Result<T>& result) {
  return result ? "ok" : name_of(result.error().kind());
}

std::string_view outcome_of(const Result<service::Merged>& merged) {
  if (!merged) return name_of(merged.error().kind());
  const auto& report = merged->report;
  return report && !report->applies ? name_of(ErrorKind::kConflict) : "ok";
}

// Counts one operation when it has ended. A client that withdraws leaves none.
template <typename T>
Task<Result<T>> timed(std::shared_ptr<Metrics> metrics, std::string_view name, Task<Result<T>> operation) {
  const auto begun = Clock::now();
  auto result = co_await std::move(operation);
  metrics->operation(name, outcome_of(result), Clock::now() - begun);
  co_return result;
}

std::string_view outcome_of_call(const service::Finished& finished) {
  if (finished.timed_out) return "timeout";
  if (finished.cancelled || finished.interrupted) return "cancelled";
  if (finished.oom) return "oom";
  if (!finished.died.empty()) return "died";
  return finished.exit_code == 0 ? "ok" : "failed";
}

// One call, which is counted once.
class Running {
 public:
  Running(std::shared_ptr<Metrics> metrics, std::string_view kind)
      : metrics_(std::move(metrics)), kind_(kind) {}
  // Nobody waited for its end.
  ~Running() { end("cancelled"); }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  void end(std::string_view outcome) {
    if (!std::exchange(ended_, true)) metrics_->call(kind_, outcome, Clock::now() - begun_);
  }

 private:
  std::shared_ptr<Metrics> metrics_;
  std::string_view kind_;
  Clock::time_point begun_ = Clock::now();
  bool ended_ = false;
};

class MeteredExecution final : public service::Execution {
 public:
  MeteredExecution(std::shared_ptr<Execution> inner, std::shared_ptr<Running> running)
      : inner_(std::move(inner)), running_(std::move(running)) {}

  Task<Result<service::ExecEvent>> next() override {
    // This object may go while its owner waits.
    const auto running = running_;
    auto next = inner_->next();
    auto event = co_await std::move(next);
    if (!event)
      running->end("error");
    else if (const auto* finished = std::get_if<service::Finished>(&*event))
      running->end(outcome_of_call(*finished));
    co_return event;
  }
  bool has_next() const override { return inner_->has_next(); }
  void cancel() override { inner_->cancel(); }
  Task<Result<void>> write_input(std::string bytes) override { return inner_->write_input(std::move(bytes)); }
  void resize(int rows, int columns) override { inner_->resize(rows, columns); }

 private:
  std::shared_ptr<Execution> inner_;
  std::shared_ptr<Running> running_;
};

using Started = Result<std::shared_ptr<service::Execution>>;

Task<Started> watched(std::shared_ptr<Metrics> metrics, std::string_view kind, Task<Started> start) {
  const auto running = std::make_shared<Running>(std::move(metrics), kind);
  auto started = co_await std::move(start);
  if (!started) {
    running->end("error");
    co_return started;
  }
  co_return std::make_shared<MeteredExecution>(std::move(*started), running);
}

class MeteredSandboxes final : public service::Sandboxes {
 public:
  MeteredSandboxes(std::shared_ptr<Sandboxes> inner, std::shared_ptr<Metrics> metrics)
      : inner_(std::move(inner)), metrics_(std::move(metrics)) {}

  Task<Result<service::SandboxInfo>> create(Caller caller, service::CreateSpec spec) override {
    return timed(metrics_, "create", inner_->create(std::move(caller), std::move(spec)));
  }
  Result<service::SandboxInfo> get(const Caller& caller, std::string_view id) const override {
    return inner_->get(caller, id);
  }
  std::vector<service::SandboxInfo> list(const Caller& caller) const override { return inner_->list(caller); }
  Task<Result<void>> destroy(Caller caller, std::string id) override {
    return timed(metrics_, "destroy", inner_->destroy(std::move(caller), std::move(id)));
  }
  Task<Result<service::Forked>> fork(Caller caller, std::string id, service::ForkSpec spec) override {
    return timed(metrics_, "fork", inner_->fork(std::move(caller), std::move(id), spec));
  }
  Task<Result<service::Merged>> merge(Caller caller, std::string parent, service::MergeSpec spec) override {
    return timed(metrics_, "merge", inner_->merge(std::move(caller), std::move(parent), std::move(spec)));
  }
  Task<Result<changes::Diff>> diff(Caller caller, std::string id, service::DiffSpec spec) override {
    return inner_->diff(std::move(caller), std::move(id), std::move(spec));
  }
  Task<Started> run_python(Caller caller, std::string id, service::PythonCall call) override {
    return watched(metrics_, "python", inner_->run_python(std::move(caller), std::move(id), std::move(call)));
  }
  Task<Started> run_bash(Caller caller, std::string id, service::BashCall call) override {
    return watched(metrics_, "bash", inner_->run_bash(std::move(caller), std::move(id), std::move(call)));
  }
  Task<Started> open_terminal(Caller caller, std::string id, service::TerminalCall call) override {
    return watched(metrics_, "terminal",
                   inner_->open_terminal(std::move(caller), std::move(id), std::move(call)));
  }
  Task<Result<std::shared_ptr<service::FileReader>>> read_file(Caller caller, std::string id,
                                                               std::string path) override {
    return inner_->read_file(std::move(caller), std::move(id), std::move(path));
  }
  Task<Result<std::shared_ptr<service::FileWriter>>> write_file(Caller caller, std::string id,
                                                                std::string path,
                                                                std::optional<std::uint64_t> size) override {
    return inner_->write_file(std::move(caller), std::move(id), std::move(path), size);
  }
  Task<Result<service::FileListing>> list_files(Caller caller, std::string id, std::string path) override {
    return inner_->list_files(std::move(caller), std::move(id), std::move(path));
  }
  Task<Result<void>> remove_file(Caller caller, std::string id, std::string path) override {
    return inner_->remove_file(std::move(caller), std::move(id), std::move(path));
  }
  Task<Result<service::Capacity>> capacity(Caller caller) override {
    return inner_->capacity(std::move(caller));
  }
  Task<Result<service::Census>> census(Caller caller) override { return inner_->census(std::move(caller)); }
  Task<Result<void>> drop_stock(Caller caller) override { return inner_->drop_stock(std::move(caller)); }
  Task<Result<service::SandboxInfo>> set_egress(Caller caller, std::string id,
                                                runtime::EgressPolicy policy) override {
    return inner_->set_egress(std::move(caller), std::move(id), std::move(policy));
  }
  Task<Result<runtime::EgressReport>> explain(Caller caller, std::string id) override {
    return inner_->explain(std::move(caller), std::move(id));
  }
  std::string no_network() const override { return inner_->no_network(); }
  service::Ports& ports() override { return inner_->ports(); }
  bool healthy() const override { return inner_->healthy(); }

 private:
  std::shared_ptr<Sandboxes> inner_;
  std::shared_ptr<Metrics> metrics_;
};

}  // namespace

std::shared_ptr<service::Sandboxes> metered(std::shared_ptr<service::Sandboxes> sandboxes,
                                            std::shared_ptr<Metrics> metrics) {
  return std::make_shared<MeteredSandboxes>(std::move(sandboxes), std::move(metrics));
}

}  // namespace warren::api::ops
