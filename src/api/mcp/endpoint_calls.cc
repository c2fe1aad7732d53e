// tools/call: started, cancelled, and its answer brought to whoever listens.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <exception>
#include <utility>

#include "api/failure.h"
#include "api/mcp/endpoint.h"
#include "api/mcp/opening.h"
#include "api/mcp/sse.h"

namespace warren::api::mcp {

namespace json = boost::json;

namespace {

// Far enough to be never; a timer cannot take Clock::time_point::max().
constexpr std::chrono::hours kNever{24};

// The token of a request that wants to hear of progress; null if it does not. Zero
// is a token.
json::value progress_token(const json::object& params) {
  const json::value* meta = params.if_contains("_meta");
  const json::object* fields = meta == nullptr ? nullptr : meta->if_object();
  const json::value* token = fields == nullptr ? nullptr : fields->if_contains("progressToken");
  if (token == nullptr || !(token->is_string() || token->is_int64() || token->is_uint64())) return nullptr;
  return *token;
}

std::string cancelled_json(const json::value& id) {
  return error_json(id, RpcError(Code::kRefused, "Request cancelled"));
}

}  // namespace

std::string Endpoint::scope_of(const Context& context) const {
  return context.session ? "session:" + context.session->id() : "key:" + context.caller.key_id;
}

void Endpoint::start_call(const Context& context, const Message& message,
                          const std::shared_ptr<Exchange>& exchange) {
  const std::size_t index = exchange->add(message.id);
  const std::string& key_id = context.caller.key_id;
  std::size_t& running = running_by_key_[key_id];
  if (running >= options_.calls_per_key) {
    exchange->respond(
        index, error_json(message.id, RpcError(Code::kRefused, "Too many calls are running with this key")));
    return;
  }
  ++running;

  CallContext call{context.caller, exchange->slot(index).call, nullptr,
                   base_url(options_.port_urls, context.request)};
  if (json::value token = progress_token(message.params); !token.is_null() && context.accept.events) {
    call.progress = Progress::start(executor_, std::move(token), options_.pace,
                                    [weak = std::weak_ptr(exchange)](std::string notification) {
                                      if (const auto exchange = weak.lock())
                                        exchange->progress(std::move(notification));
                                    });
  }
  const auto entry =
      running_.emplace(scope_of(context) + "\n" + id_key(message.id), Running{exchange, index, key_id});

  const json::value* arguments = message.params.if_contains("arguments");
  json::object given =
      arguments != nullptr && arguments->is_object() ? arguments->get_object() : json::object();
  std::string name(message.params.at("name").as_string());
  boost::asio::co_spawn(
      executor_, run_call(exchange, index, std::move(call), std::move(name), std::move(given), context.era),
      [self = shared_from_this(), exchange, index, entry](const std::exception_ptr& thrown) {
        if (thrown) {
          // Out of memory, or a bug: told without what it says, which may be the client's.
          const std::string sentence = told(Error(ErrorKind::kInternal, "an exception ended a tool call"));
          exchange->respond(index,
                            error_json(exchange->slot(index).id, RpcError(Code::kInternalError, sentence)));
        }
        const auto count = self->running_by_key_.find(entry->second.key_id);
        if (--count->second == 0) self->running_by_key_.erase(count);
        self->running_.erase(entry);
      });
}

Task<void> Endpoint::run_call(std::shared_ptr<Exchange> exchange, std::size_t index, CallContext call,
                              std::string name, json::object arguments, Era era) {
  const std::shared_ptr<Progress> progress = call.progress;
  ToolResult result = co_await tools_.call(std::move(call), std::move(name), std::move(arguments));
  if (progress) progress->stop();
  json::object body = to_json(std::move(result));
  if (era == Era::kModern) complete_modern(body);
  exchange->respond(index, result_json(exchange->slot(index).id, std::move(body)));
}

void Endpoint::take_notification(const Context& context, const Message& message) {
  if (message.method != "notifications/cancelled") return;
  const json::value* id = message.params.if_contains("requestId");
  if (id == nullptr || !(id->is_string() || id->is_int64() || id->is_uint64())) return;
  const auto [first, last] = running_.equal_range(scope_of(context) + "\n" + id_key(*id));
  // Ids are unique within a session. Outside of one, two clients of the same key
  // may both have a 1; neither must end the other's.
  if (first == last || (!context.session && std::next(first) != last)) return;
  std::vector<Running> found;
  for (auto it = first; it != last; ++it) found.push_back(it->second);
  for (const Running& running : found) {
    if (const auto exchange = running.exchange.lock()) exchange->withdraw(running.index);
  }
}

void Endpoint::stop() {
  std::vector<Running> all;
  for (const auto& [key, running] : running_) all.push_back(running);
  for (const Running& running : all) {
    const auto exchange = running.exchange.lock();
    if (!exchange) continue;
    const auto call = exchange->slot(running.index).call;
    exchange->respond(running.index,
                      error_json(exchange->slot(running.index).id,
                                 RpcError(Code::kInternalError, "The server is shutting down")));
    call->cancel();
  }
}

void Endpoint::watch(Context& context, const std::shared_ptr<Exchange>& exchange,
                     const std::shared_ptr<Connection>& connection) {
  context.writer.on_disconnect([weak = std::weak_ptr(exchange), connection] {
    connection->lost = true;
    const auto exchange = weak.lock();
    if (!exchange) return;
    // Where the client can come back the stream sees to the rest.
    if (!connection->resumable) exchange->withdraw_all();
    exchange->wake();
  });
}

Task<void> Endpoint::deliver(Context& context, std::shared_ptr<Exchange> exchange, Shape shape) {
  const auto connection = std::make_shared<Connection>();
  connection->ticket = exchange->listen();
  watch(context, exchange, connection);

  const Clock::time_point stream_at = Clock::now() + options_.before_stream;
  const Accept accept = context.accept;
  bool as_stream = !accept.json;
  while (!as_stream && !connection->lost && !exchange->complete()) {
    if (accept.events && (exchange->has_progress() || Clock::now() >= stream_at)) {
      as_stream = true;
      break;
    }
    co_await exchange->changed(accept.events ? stream_at : Clock::now() + kNever);
  }
  if (!as_stream) {
    context.writer.on_disconnect({});
    co_await deliver_json(context, *exchange, shape);
    co_return;
  }

  std::string first;
  if (context.session && exchange->resumable()) {
    connection->resumable = true;
    context.session->keep(exchange);
    const auto header = context.request.headers.get("MCP-Protocol-Version");
    // Older clients take the empty first event for a broken message.
    if ((header ? *header : std::string_view(context.session->version())) >= "2025-11-25") {
      first = sse_opening(event_id(exchange->stream_id(), 0));
    }
  }
  co_await stream(context, std::move(exchange), connection, 0, std::move(first));
}

Task<void> Endpoint::deliver_json(Context& context, const Exchange& exchange, Shape shape) {
  std::string body;
  for (const Exchange::Event& event : exchange.after(0)) {
    if (!event.is_response) continue;
    if (!body.empty()) body += ',';
    body += event.json;
  }
  if (shape == Shape::kBatch) {
    body = "[" + body + "]";
  } else if (body.empty()) {
    body = cancelled_json(exchange.slot(0).id);
  }
  co_await send(context, 200, std::move(body));
}

Task<void> Endpoint::stream(Context& context, std::shared_ptr<Exchange> exchange,
                            std::shared_ptr<Connection> connection, std::uint64_t seen, std::string first) {
  watch(context, exchange, connection);
  http::Headers headers = event_stream_headers();
  Guard::add_cors(context.request.headers, headers);
  bool broken = !co_await context.writer.begin(200, std::move(headers));
  if (!broken && !first.empty()) broken = !co_await context.writer.write(std::move(first));

  while (!broken && !connection->lost && exchange->is_listener(connection->ticket)) {
    if (exchange->has_after(seen)) {
      std::string bytes;
      for (const Exchange::Event& event : exchange->after(seen)) {
        seen = event.number;
        bytes +=
            sse_event(connection->resumable ? event_id(exchange->stream_id(), event.number) : "", event.json);
      }
      if (!connection->resumable) exchange->forget(seen);
      broken = !co_await context.writer.write(std::move(bytes));
      continue;
    }
    if (exchange->complete()) break;
    const Clock::time_point next_sign = Clock::now() + options_.heartbeat;
    co_await exchange->changed(next_sign);
    if (Clock::now() >= next_sign) {
      std::string comment(kSseComment);
      broken = !co_await context.writer.write(std::move(comment));
    }
  }

  context.writer.on_disconnect({});
  const bool lost = broken || connection->lost;
  if (!lost) co_await context.writer.finish();
  if (connection->resumable && context.session) {
    // Kept for a while even if all was sent: what was sent may never have arrived.
    exchange->leave(connection->ticket, options_.resume_grace,
                    [session = std::weak_ptr(context.session), id = exchange->stream_id()] {
                      if (const auto alive = session.lock()) alive->remove(id);
                    });
  } else if (lost) {
    exchange->withdraw_all();
  }
}

}  // namespace warren::api::mcp
