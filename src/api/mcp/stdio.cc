#include "api/mcp/stdio.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "api/mcp/bridge.h"
#include "http/client.h"

namespace warren::api::mcp {

namespace asio = boost::asio;

namespace {

// A whole upload is one line.
constexpr std::size_t kMaxLine = 16UL << 20U;
// Clients kill their servers some two seconds after asking them to end.
constexpr std::chrono::milliseconds kEndGrace{1800};

class Process {
 public:
  Process(asio::io_context& context, std::shared_ptr<http::Client> client, const StdioOptions& options)
      : context_(context),
        reader_(context.get_executor(), options.input, kMaxLine),
        writer_(std::make_shared<LineWriter>(context.get_executor(), options.output)),
        bridge_(std::make_shared<Bridge>(
            context.get_executor(),
            std::make_shared<Upstream>(std::move(client), options.base_url, options.key), writer_,
            options.template_name)),
        signals_(context, SIGTERM, SIGINT, SIGHUP) {}

  void run() {
    signals_.async_wait([this](const boost::system::error_code& error, int) {
      if (!error) end();
    });
    writer_->on_broken([this] { end(); });
    asio::co_spawn(context_, read_lines(), asio::detached);
    context_.run();
  }

 private:
  Task<void> read_lines() {
    while (!ending_) {
      auto line = co_await reader_.next();
      if (ending_) co_return;
      if (!line) {
        bridge_->refuse_line(line.error());
      } else if (const std::optional<std::string>& text = *line; text) {
        bridge_->take_line(*text);
      } else {
        break;
      }
    }
    // Whoever pipes requests in wants their answers; a client that is really gone
    // sends a signal or closes the output.
    co_await bridge_->idle();
    end();
  }

  void end() {
    if (std::exchange(ending_, true)) return;
    reader_.stop();
    deadline_.expires_after(kEndGrace);
    deadline_.async_wait([this](const boost::system::error_code& error) {
      if (!error) context_.stop();
    });
    asio::co_spawn(context_, bridge_->end(), [this](const std::exception_ptr&) { context_.stop(); });
  }

  asio::io_context& context_;
  LineReader reader_;
  std::shared_ptr<LineWriter> writer_;
  std::shared_ptr<Bridge> bridge_;
  asio::signal_set signals_;
  asio::steady_timer deadline_{context_};
  bool ending_ = false;
};

}  // namespace

int run_stdio(const StdioOptions& options) {
  asio::io_context context(1);
  auto client = http::Client::make(context.get_executor(), options.base_url);
  if (!client) {
    std::fprintf(stderr, "warren mcp: %s\n", client.error().message().c_str());
    return 2;
  }
  Process process(context, std::move(*client), options);
  process.run();
  return 0;
}

}  // namespace warren::api::mcp
