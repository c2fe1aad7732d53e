#include "runtime/server.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <csignal>
#include <memory>

#include "base/clock.h"
#include "base/log.h"
#include "linux/mounts.h"
#include "linux/packets.h"
#include "linux/text_file.h"
#include "runtime/namespace/namespace_driver.h"
#include "runtime/session.h"
#include "runtime/waiting.h"

namespace warren::runtime {
namespace {

namespace asio = boost::asio;
constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);

// A server that restarts connects before its predecessor's connection is seen to end.
constexpr std::size_t kMostSessions = 8;
constexpr Seconds kTendEvery{2};

// Each sandbox costs the runtime a few descriptors, and the limits of its processes
// may not exceed the runtime's own. Root in a container may lack the right to raise
// them (CAP_SYS_RESOURCE): then as far as it goes.
Result<void> raise_limit(__rlimit_resource resource, rlim_t wanted) {
  rlimit limit{.rlim_cur = wanted, .rlim_max = wanted};
  if (::setrlimit(resource, &limit) == 0) return {};
  if (::getrlimit(resource, &limit) < 0) return fail_errno("getrlimit");
  limit.rlim_cur = limit.rlim_max;
  if (::setrlimit(resource, &limit) < 0) return fail_errno("setrlimit");
  log::debug("resource limit {} (getrlimit(2)) cannot be raised here and stays at {}",
             static_cast<int>(resource), limit.rlim_max);
  return {};
}

Result<void> prepare_process() {
  if (::geteuid() != 0) return fail(ErrorKind::kForbidden, "the runtime must be root");
  constexpr rlim_t kFiles = 1 << 20;
  WARREN_TRY(raise_limit(RLIMIT_NOFILE, kFiles));
  WARREN_TRY(raise_limit(RLIMIT_NPROC, RLIM_INFINITY));
  // Sandboxes get 1 of it (see namespace/inside.cc), and cannot if it is 0 here.
  WARREN_TRY(raise_limit(RLIMIT_CORE, 1));
  if (::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0) return fail_errno("PR_SET_DUMPABLE");
  ::umask(022);
  if (::chdir("/") < 0) return fail_errno("chdir /");
  // Sandboxes first, Warren last, where the host runs out of memory.
  if (const auto set = linux_::write_text("/proc/self/oom_score_adj", "-800"); !set)
    log::debug("the kernel may choose the runtime where memory runs out: {}", set.error().message());
  return linux_::enter_private_mounts();
}

class Runtime {
 public:
  Runtime(asio::io_context& context, RuntimeOptions& options, NamespaceDriver& driver)
      : context_(context),
        listener_(context, options.listener.release()),
        server_uid_(options.server_uid),
        driver_(driver),
        shared_{.driver = driver, .templates = std::move(options.templates), .exits = {}} {}

  void start() {
    driver_.on_exit([this](const Exit& exit) { tell_all(exit); });
    asio::co_spawn(context_, accept_all(), asio::detached);
    asio::co_spawn(context_, tend(), asio::detached);
    asio::co_spawn(context_, stop_on_signal(), asio::detached);
  }

 private:
  Task<void> accept_all() {
    while (true) {
      const auto [failure] = co_await listener_.async_wait(asio::posix::descriptor_base::wait_read, kAwait);
      if (failure) co_return;
      UniqueFd socket(::accept4(listener_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!socket) {
        if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) continue;
        log::error("{}", Error::from_errno("accept").message());
        co_await pause(Millis(100));
        continue;
      }
      const auto peer = linux_::peer_of(socket.get());
      if (!peer || peer->uid != server_uid_) {
        log::warn("refused a connection from user {}", peer ? static_cast<long>(peer->uid) : -1);
        continue;
      }
      begin(std::move(socket));
    }
  }

  void begin(UniqueFd socket) {
    std::erase_if(sessions_, [](const auto& weak) {
      const auto session = weak.lock();
      return !session || !session->is_open();
    });
    if (sessions_.size() >= kMostSessions) {
      log::warn("refused a connection: {} are open", sessions_.size());
      return;
    }
    const auto session =
        std::make_shared<Session>(shared_, PacketSocket::adopt(context_.get_executor(), std::move(socket)));
    sessions_.push_back(session);
    asio::co_spawn(context_, Session::run(session), asio::detached);
  }

  void tell_all(const Exit& exit) {
    log::info("sandbox {} has ended: {}", exit.id, exit.reason);
    shared_.exits.insert_or_assign(exit.id, exit);
    for (const auto& weak : sessions_)
      if (const auto session = weak.lock()) session->tell(exit);
  }

  Task<void> tend() {
    while (true) {
      for (const auto& info : shared_.templates())
        asio::co_spawn(context_, driver_.warm(info.name), asio::detached);
      co_await pause(kTendEvery);
      driver_.tend();
    }
  }

  Task<void> stop_on_signal() {
    asio::signal_set signals(context_, SIGTERM, SIGINT);
    co_await signals.async_wait(kAwait);
    log::info("stopping; {} sandboxes end", driver_.held());
    co_await driver_.destroy_all();
    context_.stop();
  }

  asio::io_context& context_;
  asio::posix::stream_descriptor listener_;
  uid_t server_uid_;
  NamespaceDriver& driver_;
  Shared shared_;
  std::vector<std::weak_ptr<Session>> sessions_;
};

}  // namespace

Result<void> run_runtime(RuntimeOptions options) {
  WARREN_TRY(prepare_process());
  if (::fcntl(options.listener.get(), F_SETFD, FD_CLOEXEC) < 0 ||
      ::fcntl(options.listener.get(), F_SETFL, O_NONBLOCK) < 0)
    return fail_errno("the listening socket");
  NamespaceOptions namespaces;
  namespaces.home = options.home;
  namespaces.agent = options.agent;
  namespaces.guest_layer = options.guest_layer;
  namespaces.template_root = std::move(options.template_root);
  namespaces.template_imports = std::move(options.template_imports);
  namespaces.stock = options.stock;
  namespaces.egress = std::move(options.egress);
  namespaces.resolver = std::move(options.resolver);
  if (options.pool_bytes != 0) namespaces.pool_bytes = options.pool_bytes;
  if (options.floor_bytes != 0) namespaces.floor_bytes = options.floor_bytes;
  if (options.id_base != 0) namespaces.id_base = options.id_base;

  // Declared before what refers to it, and so gone after it.
  asio::io_context context(1);
  auto driver = NamespaceDriver::open(context.get_executor(), std::move(namespaces));
  if (!driver) return fail(std::move(driver.error()));
  {
    Runtime runtime(context, options, **driver);
    runtime.start();
    log::info("ready");
    context.run();
  }
  driver->reset();
  log::info("all sandboxes have ended");
  return {};
}

}  // namespace warren::runtime
