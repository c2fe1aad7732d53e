#include "service/ports.h"

#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <map>
#include <set>
#include <utility>
#include <variant>

#include "base/ids.h"
#include "base/log.h"
#include "service/agent_links.h"
#include "service/executions.h"
#include "service/lifecycle.h"
#include "service/live_sandbox.h"

namespace warren::service {
namespace {

namespace json = boost::json;

constexpr std::size_t kTokenBytes = 16;
constexpr std::string_view kAccessBeginning = "wpt_";
// Longer than the agent has for it.
constexpr Millis kConnectLimit{15'000};

class AgentPortConnection;

// Which connections there are, so that they can be counted, and ended with their URL.
struct OpenConnections {
  std::map<std::string, std::set<AgentPortConnection*>, std::less<>> by_sandbox;
  std::size_t count = 0;

  std::size_t of(std::string_view id) const {
    const auto found = by_sandbox.find(id);
    return found == by_sandbox.end() ? 0 : found->second.size();
  }
};

class AgentPortConnection final : public PortConnection {
 public:
  AgentPortConnection(std::shared_ptr<OpenConnections> all, std::shared_ptr<LiveSandbox> sandbox,
                      std::shared_ptr<AgentLinks> links, std::shared_ptr<TimeSource> time, PortRoute route)
      : all_(std::move(all)),
        sandbox_(std::move(sandbox)),
        links_(std::move(links)),
        time_(std::move(time)),
        route_(std::move(route)) {
    all_->by_sandbox[route_.sandbox_id].insert(this);
    ++all_->count;
  }
  ~AgentPortConnection() override {
    --all_->count;
    const auto own = all_->by_sandbox.find(route_.sandbox_id);
    own->second.erase(this);
    if (own->second.empty()) all_->by_sandbox.erase(own);
  }
  AgentPortConnection(const AgentPortConnection&) = delete;
  AgentPortConnection& operator=(const AgentPortConnection&) = delete;

  std::uint16_t port() const { return route_.port; }

  // Of a connection that is new, once.
  Task<Result<void>> establish() {
    const CallLease lease(sandbox_, time_);
    json::object request;
    request["op"] = "connect";
    request["port"] = route_.port;
    auto stream = co_await links_->open(sandbox_, std::move(request));
    if (!stream) co_return fail(std::move(stream).error());
    if (closed_) co_return fail(ErrorKind::kCancelled, "the caller withdrew");
    stream_ = *std::move(stream);
    const auto opened = stream_;
    auto event = co_await opened->next_before(Clock::now() + kConnectLimit);
    if (!event) {
      Error error = std::move(event).error();
      if (error.kind() != ErrorKind::kUnavailable) co_return fail(std::move(error));
      co_return fail(co_await explain(sandbox_, links_, std::move(error)));
    }
    const auto* notice = std::get_if<runtime::StreamNotice>(&*event);
    if (notice == nullptr || !notice->value.contains("connected")) co_return nonsense();
    co_return Result<void>();
  }

  Task<Result<std::string>> read(Clock::time_point deadline) override {
    if (ended_) co_return std::string();
    const auto stream = stream_;
    auto event = co_await stream->next_before(deadline);
    if (!event) {
      Error error = std::move(event).error();
      if (error.kind() != ErrorKind::kUnavailable || closed_) co_return fail(std::move(error));
      co_return fail(co_await explain(sandbox_, links_, std::move(error)));
    }
    touch();
    if (auto* data = std::get_if<runtime::StreamData>(&*event)) co_return std::move(data->bytes);
    if (const auto* notice = std::get_if<runtime::StreamNotice>(&*event);
        notice && !notice->value.contains("end"))
      co_return nonsense();
    ended_ = true;
    co_return std::string();
  }

  Task<Result<void>> write(std::string bytes) override {
    touch();
    const auto stream = stream_;
    co_return co_await stream->write(std::move(bytes));
  }

  Task<void> end_writing() override {
    const auto stream = stream_;
    (void)co_await stream->end_input();
  }

  void close() override {
    closed_ = true;
    if (stream_) stream_->abandon();
  }

 private:
  static std::unexpected<Error> nonsense() {
    return fail(ErrorKind::kInternal, "the sandbox's agent said something that it never says");
  }

  void touch() { sandbox_->last_call = time_->now(); }

  std::shared_ptr<OpenConnections> all_;
  std::shared_ptr<LiveSandbox> sandbox_;
  std::shared_ptr<AgentLinks> links_;
  std::shared_ptr<TimeSource> time_;
  PortRoute route_;
  std::shared_ptr<runtime::AgentStream> stream_;
  bool ended_ = false;
  bool closed_ = false;
};

Result<std::uint16_t> check_port(std::int64_t port) {
  if (port < 1 || port > 65535)
    return fail(ErrorKind::kInvalid, fmt::format("port: expected 1 to 65535, got {}", port));
  return static_cast<std::uint16_t>(port);
}

Error no_such_port(std::uint16_t port) {
  return Error(ErrorKind::kNotFound, fmt::format("port {} of the sandbox has no URL", port));
}

class LivePorts final : public Ports {
 public:
  LivePorts(std::shared_ptr<Lifecycle> lifecycle, Options options)
      : lifecycle_(std::move(lifecycle)), options_(options) {}

  Result<ExposedPort> expose(const Caller& caller, std::string_view id, std::int64_t number,
                             Visibility visibility) override {
    const auto port = check_port(number);
    if (!port) return fail(port.error());
    auto sandbox = admit(caller, id);
    if (!sandbox) return fail(std::move(sandbox).error());
    if (!(*sandbox)->is_alive()) return fail(ended_error(**sandbox));
    auto others = lifecycle_->port_rows().of_sandbox(id);
    if (!others) return fail(std::move(others).error());
    std::erase_if(*others, [&](const store::PortRecord& row) { return row.port == *port; });
    if (others->size() >= options_.ports_per_sandbox)
      return fail(ErrorKind::kLimited,
                  fmt::format("this sandbox has {} ports with URLs, as many as it may have: close one first",
                              others->size()));
    ExposedPort exposed;
    exposed.info = {.port = *port, .visibility = visibility, .created_at = lifecycle_->time()->wall()};
    exposed.url_token = random_hex(kTokenBytes);
    store::PortRecord row;
    row.sandbox_id = id;
    row.port = *port;
    row.url_digest = sha256_hex(exposed.url_token);
    row.created_at = exposed.info.created_at;
    if (visibility == Visibility::kPrivate) {
      exposed.access_token = std::string(kAccessBeginning) + random_hex(kTokenBytes);
      row.access_digest = sha256_hex(exposed.access_token);
    }
    WARREN_TRY(lifecycle_->port_rows().put(row));
    end_connections(id, *port);
    log::info("sandbox {}: port {} has a URL", id, *port);
    return exposed;
  }

  Result<std::vector<PortInfo>> list(const Caller& caller, std::string_view id) const override {
    const auto sandbox = admit(caller, id);
    if (!sandbox) return fail(sandbox.error());
    auto rows = lifecycle_->port_rows().of_sandbox(id);
    if (!rows) return fail(std::move(rows).error());
    std::vector<PortInfo> ports;
    ports.reserve(rows->size());
    for (const store::PortRecord& row : *rows)
      ports.push_back({.port = row.port,
                       .visibility = row.access_digest ? Visibility::kPrivate : Visibility::kPublic,
                       .created_at = row.created_at});
    return ports;
  }

  Result<void> close(const Caller& caller, std::string_view id, std::int64_t number) override {
    const auto port = check_port(number);
    if (!port) return fail(port.error());
    const auto sandbox = admit(caller, id);
    if (!sandbox) return fail(sandbox.error());
    const auto removed = lifecycle_->port_rows().remove(id, *port);
    if (!removed) return fail(removed.error());
    if (!*removed) return fail(no_such_port(*port));
    end_connections(id, *port);
    log::info("sandbox {}: port {} has no URL any more", id, *port);
    return {};
  }

  Result<PortRoute> route(std::string_view url_token) const override {
    auto found = lifecycle_->port_rows().find(sha256_hex(url_token));
    if (!found) return fail(std::move(found).error());
    // The row of a sandbox that has just been destroyed may be there a moment longer.
    const auto& row = *found;
    if (!row || !lifecycle_->find_any(row->sandbox_id))
      return fail(
          ErrorKind::kNotFound,
          "nothing is here: this URL was never given, has been closed or replaced, or its sandbox is gone");
    return PortRoute{.sandbox_id = row->sandbox_id, .port = row->port, .access_digest = row->access_digest};
  }

  Task<Result<std::shared_ptr<PortConnection>>> connect(PortRoute route) override {
    const auto sandbox = lifecycle_->find_any(route.sandbox_id);
    if (!sandbox) co_return fail(unknown_sandbox());
    if (!sandbox->is_alive()) co_return fail(ended_error(*sandbox));
    if (open_->of(route.sandbox_id) >= options_.connections_per_sandbox)
      co_return fail(ErrorKind::kLimited,
                     fmt::format("{} connections to ports of this sandbox are open, as many as may be",
                                 options_.connections_per_sandbox));
    if (open_->count >= options_.connections)
      co_return fail(ErrorKind::kLimited,
                     "too many connections to ports of sandboxes are open: try again later");
    const auto connection = std::make_shared<AgentPortConnection>(open_, sandbox, lifecycle_->links(),
                                                                  lifecycle_->time(), std::move(route));
    auto established = co_await connection->establish();
    if (!established) co_return fail(std::move(established).error());
    co_return connection;
  }

 private:
  Result<std::shared_ptr<LiveSandbox>> admit(const Caller& caller, std::string_view id) const {
    WARREN_TRY(check_scope(caller));
    return lifecycle_->find(caller, id);
  }

  void end_connections(std::string_view id, std::uint16_t port) const {
    const auto found = open_->by_sandbox.find(id);
    if (found == open_->by_sandbox.end()) return;
    for (AgentPortConnection* connection : found->second)
      if (connection->port() == port) connection->close();
  }

  std::shared_ptr<Lifecycle> lifecycle_;
  Options options_;
  std::shared_ptr<OpenConnections> open_ = std::make_shared<OpenConnections>();
};

}  // namespace

bool PortRoute::admits(std::string_view token) const {
  return !access_digest || equal_in_constant_time(sha256_hex(token), *access_digest);
}

std::shared_ptr<Ports> make_ports(std::shared_ptr<Lifecycle> lifecycle, Ports::Options options) {
  return std::make_shared<LivePorts>(std::move(lifecycle), options);
}

}  // namespace warren::service
