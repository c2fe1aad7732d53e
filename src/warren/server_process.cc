#include "warren/server_process.h"

#include <fcntl.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <csignal>
#include <memory>

#include "api/mcp/endpoint.h"
#include "api/ops/face.h"
#include "api/ops/metered_sandboxes.h"
#include "api/ops/metrics.h"
#include "api/podflare/face.h"
#include "api/ports/proxy.h"
#include "base/log.h"
#include "http/server.h"
#include "service/keys.h"
#include "service/sandboxes.h"
#include "store/database.h"
#include "warren/home.h"
#include "warren/privileges.h"
#include "warren/supervisor.h"
#include "warren/tls_files.h"

namespace warren::cli {
namespace {

namespace asio = boost::asio;

// The longest path there is (PATH_MAX) with every byte percent-encoded, and a route around it.
constexpr std::size_t kTargetBytes = 16UL * 1024;

using Authenticate = std::function<Result<service::Caller>(std::string_view key)>;

constexpr Millis kCertificateLook{1'000};

// A connection for each client, one for each sandbox's agent, and room.
constexpr std::uint64_t kDescriptors = 65'536;

Result<void> confine(const Config& config) {
  const auto user = find_user(config.user);
  if (!user) return std::unexpected(user.error());
  return confine_process(*user, kDescriptors);
}

Task<void> tell_ready(std::shared_ptr<service::Sandboxes> sandboxes) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  while (!sandboxes->healthy()) {
    timer.expires_after(Millis(5));
    co_await timer.async_wait(asio::use_awaitable);
  }
  const char byte = 1;
  if (::write(kReadyFd, &byte, 1) != 1) log::warn("the supervisor does not listen");
  ::close(kReadyFd);
}

Task<void> look_at_certificate(std::shared_ptr<TlsReader> reader) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  for (;;) {
    timer.expires_after(kCertificateLook);
    co_await timer.async_wait(asio::use_awaitable);
    reader->look();
  }
}

// What a server that speaks TLS has been given beside its listener.
struct Tls {
  std::shared_ptr<TlsReader> reader;
  UniqueFd local_listener;
};

Result<Tls> take_tls() {
  UniqueFd memory(kTlsFd);
  Tls tls{.reader = nullptr, .local_listener = UniqueFd(kLocalListenerFd)};
  for (const int fd : {kTlsFd, kLocalListenerFd})
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) return fail_errno("the descriptors of TLS");
  auto reader = TlsReader::make(std::move(memory));
  if (!reader) return std::unexpected(std::move(reader).error());
  tls.reader = *std::move(reader);
  return tls;
}

Task<void> stop_on_signal(asio::io_context& context, std::shared_ptr<http::Server> server,
                          std::shared_ptr<http::Server> local, std::shared_ptr<api::mcp::Endpoint> endpoint,
                          Millis grace) {
  asio::signal_set signals(context, SIGTERM, SIGINT);
  co_await signals.async_wait(asio::use_awaitable);
  log::info("stopping");
  endpoint->stop();
  // What goes on meanwhile goes on at both.
  const auto stopping = Clock::now();
  co_await server->stop(grace);
  const auto left = grace - std::chrono::duration_cast<Millis>(Clock::now() - stopping);
  if (local) co_await local->stop(std::max(left, Millis(0)));
  context.stop();
}

api::PortUrls port_urls(const Config& config) {
  return {.domain = config.ports_domain, .public_url = config.public_url};
}

std::shared_ptr<api::mcp::Endpoint> make_mcp(Executor executor, const Config& config,
                                             Authenticate authenticate,
                                             std::shared_ptr<service::Sandboxes> sandboxes) {
  const auto& host = config.listen.host;
  api::mcp::Endpoint::Options options;
  options.allowed_origins = config.allowed_origins;
  options.port_urls = port_urls(config);
  const bool loopback = host.starts_with("127.") || host == "::1";
  options.listening = loopback ? api::mcp::Listening::kLoopback : api::mcp::Listening::kNetwork;
  return api::mcp::Endpoint::make(std::move(executor), std::move(sandboxes), std::move(authenticate),
                                  std::move(options));
}

api::podflare::Settings podflare_settings(const Config& config) {
  const auto& tier = config.sandboxes.tier;
  return {.min_ttl = tier.min_ttl,
          .max_ttl = tier.max_ttl,
          .default_timeout = config.exec_timeout,
          .max_timeout = config.sandboxes.max_timeout,
          .port_urls = port_urls(config)};
}

}  // namespace

Result<void> run_server(const Config& config) {
  UniqueFd listener(kListenerFd);
  if (fcntl(listener.get(), F_SETFD, FD_CLOEXEC) != 0) return fail_errno("the listening socket");
  WARREN_TRY(confine(config));

  Tls tls;
  if (config.tls.wanted()) {
    auto taken = take_tls();
    if (!taken) return std::unexpected(std::move(taken).error());
    tls = *std::move(taken);
  }
  auto database = store::Database::open(config.database_file());
  if (!database) return std::unexpected(std::move(database).error());
  service::Keys keys(**database);

  asio::io_context context(1);
  const auto metrics = std::make_shared<api::ops::Metrics>();
  auto sandboxes = api::ops::metered(service::Sandboxes::start(context.get_executor(), **database,
                                                               config.runtime_socket(), config.sandboxes),
                                     metrics);
  const Authenticate authenticate = [&keys](std::string_view key) { return keys.authenticate(key); };
  auto endpoint = make_mcp(context.get_executor(), config, authenticate, sandboxes);
  auto router = std::make_shared<http::Router>();
  // First, since GET / is also where an MCP client may ask for its stream.
  endpoint->add_routes(*router, api::ops::send_landing);
  api::podflare::add_routes(*router, authenticate, *sandboxes, podflare_settings(config));
  api::ops::add_routes(*router, authenticate, sandboxes, metrics);
  api::ports::add_routes(*router, sandboxes->ports(),
                         {.urls = port_urls(config),
                          .answer_limit = std::chrono::duration_cast<Millis>(config.port_answer_limit)});
  const http::ServerLimits limits{.target_bytes = kTargetBytes};
  http::ServerWatch watch;
  watch.answered = [metrics](const http::Request& request, int status) {
    metrics->answered(request, status);
  };
  watch.connections = [metrics](std::size_t now) { metrics->connections(now); };
  std::shared_ptr<http::Server> local;
  http::CertificateSource certificate;
  if (tls.reader) {
    certificate = [reader = tls.reader] { return reader->certificate(); };
    asio::co_spawn(context, look_at_certificate(tls.reader), asio::detached);
    local = http::Server::start(context.get_executor(), std::move(tls.local_listener), router, limits,
                                {.answered = watch.answered, .connections = {}});
  }
  auto server = http::Server::start(context.get_executor(), std::move(listener), router, limits, watch,
                                    std::move(certificate));

  asio::co_spawn(context, tell_ready(sandboxes), asio::detached);
  const auto grace = std::chrono::duration_cast<Millis>(config.stop_grace);
  asio::co_spawn(context, stop_on_signal(context, server, local, endpoint, grace), asio::detached);
  context.run();
  return {};
}

}  // namespace warren::cli
