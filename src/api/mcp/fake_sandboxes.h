// The service as this directory's tests have it: sandboxes that are only names, and
// calls that say and do what the test wrote down.
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/mcp/signal.h"
#include "base/ids.h"
#include "service/sandboxes.h"

namespace warren::api::mcp {

// Ports that lead nowhere.
class FakePorts : public service::Ports {
 public:
  Result<service::ExposedPort> expose(const service::Caller&, std::string_view, std::int64_t port,
                                      service::Visibility visibility) override {
    service::ExposedPort exposed;
    exposed.info.port = static_cast<std::uint16_t>(port);
    exposed.info.visibility = visibility;
    exposed.url_token = std::string(32, 'a');
    if (visibility == service::Visibility::kPrivate) exposed.access_token = "wpt_secret";
    open[exposed.info.port] = exposed.info;
    return exposed;
  }
  Result<std::vector<service::PortInfo>> list(const service::Caller&, std::string_view) const override {
    std::vector<service::PortInfo> all;
    all.reserve(open.size());
    for (const auto& [port, info] : open) all.push_back(info);
    return all;
  }
  Result<void> close(const service::Caller&, std::string_view, std::int64_t port) override {
    if (open.erase(static_cast<std::uint16_t>(port)) == 0) return fail(ErrorKind::kNotFound, "no such port");
    return {};
  }
  Result<service::PortRoute> route(std::string_view) const override {
    return fail(ErrorKind::kNotFound, "nothing is here");
  }
  Task<Result<std::shared_ptr<service::PortConnection>>> connect(service::PortRoute) override {
    co_return fail(ErrorKind::kNotFound, "nothing is here");
  }

  std::map<std::uint16_t, service::PortInfo> open;
};

// Gives the events that it was made with, then ends when told to, or at once.
class FakeExecution : public service::Execution {
 public:
  FakeExecution(Executor executor, std::deque<service::ExecEvent> events, bool hangs)
      : changed_(std::move(executor)), events_(std::move(events)), hangs_(hangs) {}

  Task<Result<service::ExecEvent>> next() override {
    while (events_.empty()) {
      if (cancelled_ || !hangs_) {
        service::Finished finished;
        finished.cancelled = cancelled_;
        finished.exit_code = cancelled_ ? 130 : exit_code;
        finished.stdout_file = stdout_file;
        co_return service::ExecEvent(finished);
      }
      co_await changed_.wait_until(Clock::now() + std::chrono::seconds(20));
    }
    service::ExecEvent event = std::move(events_.front());
    events_.pop_front();
    co_return event;
  }
  bool has_next() const override { return !events_.empty(); }
  void cancel() override {
    cancelled_ = true;
    changed_.notify();
  }
  Task<Result<void>> write_input(std::string) override { co_return Result<void>(); }
  void resize(int, int) override {}

  void say(service::ExecEvent event) {
    events_.push_back(std::move(event));
    changed_.notify();
  }
  void end() {
    hangs_ = false;
    changed_.notify();
  }
  bool was_cancelled() const { return cancelled_; }

  int exit_code = 0;
  std::string stdout_file;

 private:
  Signal changed_;
  std::deque<service::ExecEvent> events_;
  bool hangs_;
  bool cancelled_ = false;
};

class FakeReader : public service::FileReader {
 public:
  explicit FakeReader(std::string bytes) : bytes_(std::move(bytes)) {}
  std::uint64_t size() const override { return bytes_.size(); }
  Task<Result<std::string>> read() override { co_return std::exchange(bytes_, {}); }

 private:
  std::string bytes_;
};

class FakeWriter : public service::FileWriter {
 public:
  explicit FakeWriter(std::string& file) : file_(file) {}
  Task<Result<void>> write(std::string bytes) override {
    bytes_ += bytes;
    co_return Result<void>();
  }
  Task<Result<service::Written>> finish() override {
    file_ = bytes_;
    service::Written written{file_.size(), sha256_hex(file_)};
    co_return written;
  }

 private:
  std::string& file_;
  std::string bytes_;
};

class FakeSandboxes : public service::Sandboxes {
 public:
  explicit FakeSandboxes(Executor executor) : executor_(std::move(executor)) {}

  // --- what a test sets and sees ---
  std::deque<service::ExecEvent> events;  // of the next execution
  bool hangs = false;                     // whether it goes on after them
  int exit_code = 0;
  std::string stdout_file;
  std::shared_ptr<FakeExecution> last;
  service::PythonCall python;
  service::BashCall bash;
  service::CreateSpec created;
  service::ForkSpec forked;
  bool forks_wait = false;  // until they are withdrawn
  std::size_t forks_waiting = 0;
  std::size_t forks_withdrawn = 0;
  boost::json::object not_copied;  // of the next fork
  service::MergeSpec merged;
  std::optional<Error> merge_error;
  std::optional<changes::MergeReport> report;  // of the next merge
  service::DiffSpec diffed;
  changes::Diff difference;  // that the next diff answers
  std::map<std::string, service::SandboxInfo> sandboxes;
  std::map<std::string, std::string> files;
  service::FileListing listing;

  Task<Result<service::SandboxInfo>> create(service::Caller caller, service::CreateSpec spec) override {
    created = spec;
    if (spec.template_name && *spec.template_name != "default") {
      co_return fail(ErrorKind::kInvalid, "template must be one that is built: default");
    }
    service::SandboxInfo info;
    info.id = new_sandbox_id();
    info.account_id = caller.account_id;
    info.name = spec.name.value_or("");
    info.template_name = "default";
    info.isolation = "namespace";
    info.fork_copies = "runner";
    if (why_no_network.empty()) info.egress = spec.egress.value_or(runtime::EgressPolicy::open());
    sandboxes[info.id] = info;
    co_return info;
  }
  Result<service::SandboxInfo> get(const service::Caller& caller, std::string_view id) const override {
    const auto found = sandboxes.find(std::string(id));
    if (found == sandboxes.end() || found->second.account_id != caller.account_id) {
      return fail(ErrorKind::kNotFound, "no such sandbox");
    }
    return found->second;
  }
  std::vector<service::SandboxInfo> list(const service::Caller& caller) const override {
    std::vector<service::SandboxInfo> own;
    for (const auto& [id, info] : sandboxes) {
      if (info.account_id == caller.account_id) own.push_back(info);
    }
    return own;
  }
  Task<Result<void>> destroy(service::Caller, std::string id) override {
    sandboxes.erase(id);
    co_return Result<void>();
  }
  Task<Result<service::Forked>> fork(service::Caller caller, std::string id,
                                     service::ForkSpec spec) override {
    forked = spec;
    const auto parent = get(caller, id);
    if (!parent) co_return fail(parent.error());
    if (forks_wait) {
      ++forks_waiting;
      boost::asio::steady_timer forever(executor_, boost::asio::steady_timer::time_point::max());
      co_await forever.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
      ++forks_withdrawn;
      co_return fail(ErrorKind::kCancelled, "the caller withdrew");
    }
    service::Forked answer;
    for (std::int64_t i = 0; i < spec.children; ++i) {
      service::SandboxInfo child = *parent;
      child.id = new_sandbox_id();
      sandboxes[child.id] = child;
      answer.children.push_back(std::move(child));
    }
    answer.not_copied = not_copied;
    co_return answer;
  }
  Task<Result<service::Merged>> merge(service::Caller caller, std::string parent,
                                      service::MergeSpec spec) override {
    merged = spec;
    const auto into = get(caller, parent);
    if (!into) co_return fail(into.error());
    if (merge_error) co_return fail(*merge_error);
    sandboxes.erase(spec.winner);
    service::Merged answer;
    answer.sandbox = *into;
    answer.report = report;
    co_return answer;
  }
  Task<Result<changes::Diff>> diff(service::Caller caller, std::string id, service::DiffSpec spec) override {
    diffed = std::move(spec);
    const auto one = get(caller, id);
    if (!one) co_return fail(one.error());
    co_return difference;
  }
  Task<Result<std::shared_ptr<service::Execution>>> run_python(service::Caller, std::string,
                                                               service::PythonCall call) override {
    python = std::move(call);
    co_return start();
  }
  Task<Result<std::shared_ptr<service::Execution>>> run_bash(service::Caller, std::string,
                                                             service::BashCall call) override {
    bash = std::move(call);
    co_return start();
  }
  Task<Result<std::shared_ptr<service::Execution>>> open_terminal(service::Caller, std::string,
                                                                  service::TerminalCall) override {
    co_return fail(ErrorKind::kInternal, "not used here");
  }
  Task<Result<std::shared_ptr<service::FileReader>>> read_file(service::Caller, std::string,
                                                               std::string path) override {
    const auto found = files.find(path);
    if (found == files.end()) co_return fail(ErrorKind::kNotFound, "open: No such file or directory");
    co_return std::shared_ptr<service::FileReader>(std::make_shared<FakeReader>(found->second));
  }
  Task<Result<std::shared_ptr<service::FileWriter>>> write_file(service::Caller, std::string,
                                                                std::string path,
                                                                std::optional<std::uint64_t>) override {
    co_return std::shared_ptr<service::FileWriter>(std::make_shared<FakeWriter>(files[path]));
  }
  Task<Result<service::FileListing>> list_files(service::Caller, std::string, std::string) override {
    co_return listing;
  }
  Task<Result<void>> remove_file(service::Caller, std::string, std::string) override {
    co_return Result<void>();
  }
  Task<Result<service::Capacity>> capacity(service::Caller) override { co_return service::Capacity(); }
  Task<Result<service::Census>> census(service::Caller) override { co_return service::Census(); }
  Task<Result<void>> drop_stock(service::Caller) override { co_return Result<void>(); }
  Task<Result<service::SandboxInfo>> set_egress(service::Caller caller, std::string id,
                                                runtime::EgressPolicy policy) override {
    auto found = get(caller, id);
    if (!found) co_return fail(std::move(found).error());
    if (policy.mode != runtime::EgressMode::kNone && !why_no_network.empty())
      co_return fail(ErrorKind::kUnavailable, why_no_network);
    found->egress = std::move(policy);
    co_return found;
  }
  Task<Result<runtime::EgressReport>> explain(service::Caller caller, std::string id) override {
    const auto found = get(caller, id);
    if (!found) co_return fail(found.error());
    co_return explanation;
  }
  std::string no_network() const override { return why_no_network; }
  service::Ports& ports() override { return fake_ports; }
  bool healthy() const override { return true; }

  FakePorts fake_ports;
  std::string why_no_network = "this host has none";
  runtime::EgressReport explanation;

 private:
  Result<std::shared_ptr<service::Execution>> start() {
    last = std::make_shared<FakeExecution>(executor_, std::exchange(events, {}), hangs);
    last->exit_code = exit_code;
    last->stdout_file = stdout_file;
    return std::shared_ptr<service::Execution>(last);
  }

  Executor executor_;
};

}  // namespace warren::api::mcp
