// The MCP endpoint over HTTP: POST takes messages of either era, GET resumes a
// broken stream, DELETE ends a session. See docs/api/mcp.md.
#pragma once

#include <boost/json/value.hpp>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/mcp/accept.h"
#include "api/mcp/era.h"
#include "api/mcp/exchange.h"
#include "api/mcp/guard.h"
#include "api/mcp/jsonrpc.h"
#include "api/mcp/progress.h"
#include "api/mcp/sessions.h"
#include "api/mcp/tools.h"
#include "base/task.h"
#include "http/message.h"
#include "service/caller.h"
#include "service/sandboxes.h"

namespace warren::http {
class Router;
}

namespace warren::api::mcp {

class Endpoint : public std::enable_shared_from_this<Endpoint> {
 public:
  struct Options {
    // Allowed besides loopback ones; the server's own public URL belongs among them.
    std::vector<std::string> allowed_origins;
    Listening listening = Listening::kLoopback;
    PortUrls port_urls;
    // How long a call of the earlier era goes on after its connection was lost.
    Millis resume_grace{10'000};
    // How long a call may take before its answer becomes a stream, where the client
    // takes both.
    Millis before_stream{100};
    Millis heartbeat{15'000};
    Progress::Pace pace;
    Sessions::Limits sessions;
    std::size_t calls_per_key = 256;  // running at once
    std::size_t body_bytes = 12UL << 20U;
    std::size_t progress_bytes = 256UL << 10U;  // kept for one stream
  };
  // Usually service::Keys::authenticate.
  using Authenticate = std::function<Result<service::Caller>(std::string_view key)>;

  static std::shared_ptr<Endpoint> make(Executor executor, std::shared_ptr<service::Sandboxes> sandboxes,
                                        Authenticate authenticate, Options options);

  // The endpoint at /mcp and at /, and 404 as JSON for what clients ask when they
  // look for OAuth. GET / goes to `landing` unless it asks for an event stream. Of
  // two routes that match the router takes the first, so call this before another
  // face adds a GET / of its own.
  void add_routes(http::Router& router, http::Handler landing);

  Task<void> handle(http::Request& request, http::ResponseWriter& writer);

  // Answers what runs with an error and cancels it: the server is going down.
  void stop();

 private:
  // What is known of a POST beyond its body.
  struct Context {
    const http::Request& request;
    http::ResponseWriter& writer;
    service::Caller caller;
    Accept accept;
    Era era = Era::kLegacy;
    std::shared_ptr<Session> session;
  };
  // How one who answers a connection hears that it is gone.
  struct Connection {
    bool lost = false;
    bool resumable = false;
    std::uint64_t ticket = 0;
  };

  Endpoint(Executor executor, std::shared_ptr<service::Sandboxes> sandboxes, Authenticate authenticate,
           Options options);

  Task<void> post(Context context);
  Task<void> get(Context context);
  Task<void> remove(Context context);

  Task<void> take_batch(Context& context, const boost::json::array& batch);
  Task<void> take_message(Context& context, const boost::json::value& value);
  // What the earlier era wants of session and version headers.
  std::optional<Refusal> check_legacy(Context& context, const Message& message);
  void take_notification(const Context& context, const Message& message);
  Task<void> initialize(Context& context, const Message& message);

  // Everything but tools/call: the result, or what is wrong.
  std::expected<boost::json::object, RpcError> answer(Era era, const Message& message) const;

  // Starts a tools/call; its answer comes to `exchange`.
  void start_call(const Context& context, const Message& message, const std::shared_ptr<Exchange>& exchange);
  Task<void> run_call(std::shared_ptr<Exchange> exchange, std::size_t index, CallContext call,
                      std::string name, boost::json::object arguments, Era era);

  // Answers a POST with what its calls come to.
  enum class Shape { kSingle, kBatch };
  Task<void> deliver(Context& context, std::shared_ptr<Exchange> exchange, Shape shape);
  Task<void> deliver_json(Context& context, const Exchange& exchange, Shape shape);
  // Streams from event `seen` on until all is answered or the client is gone.
  Task<void> stream(Context& context, std::shared_ptr<Exchange> exchange,
                    std::shared_ptr<Connection> connection, std::uint64_t seen, std::string first);
  // Has the loss of the client's connection noted and its calls withdrawn.
  static void watch(Context& context, const std::shared_ptr<Exchange>& exchange,
                    const std::shared_ptr<Connection>& connection);

  Task<void> send(Context& context, int status);
  Task<void> send(Context& context, int status, std::string body);
  Task<void> send(Context& context, int status, std::string body, http::Headers headers);
  // A response with 200, as the one event of a stream where only that is taken.
  Task<void> send_message(Context& context, std::string json);
  Task<void> send_message(Context& context, std::string json, http::Headers headers);
  // An error, with the request's id unless that is null.
  Task<void> refuse(Context& context, int status, Code code, std::string message);
  Task<void> refuse(Context& context, int status, const boost::json::value& id, const RpcError& error);

  // Where cancellation looks a running call up.
  std::string scope_of(const Context& context) const;
  struct Running {
    std::weak_ptr<Exchange> exchange;
    std::size_t index = 0;
    std::string key_id;
  };

  const Executor executor_;
  const Authenticate authenticate_;
  const Options options_;
  const Guard guard_;
  Tools tools_;
  Sessions sessions_;
  std::multimap<std::string, Running, std::less<>> running_;
  std::map<std::string, std::size_t, std::less<>> running_by_key_;
};

}  // namespace warren::api::mcp
