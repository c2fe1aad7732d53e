#include "api/mcp/bridge.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <exception>
#include <initializer_list>
#include <utility>

#include "api/arguments.h"
#include "api/mcp/catalogue.h"
#include "api/mcp/opening.h"
#include "api/mcp/tool_result.h"
#include "base/ids.h"

namespace warren::api::mcp {

namespace json = boost::json;

namespace {

constexpr std::size_t kMaxServing = 256;
constexpr std::chrono::hours kLong{24};

std::string failed_call(Era era, const json::value& id, const Error& error) {
  json::object body = to_json(failed(error));
  if (era == Era::kModern) complete_modern(body);
  return result_json(id, std::move(body));
}

// The response under the id that the client gave its request.
std::string under_id(json::object response, const json::value& id) {
  response["id"] = id;
  return json::serialize(response);
}

// The arguments of a tools/call; null if they are none of ours to look into.
json::object* arguments_of(json::object& params) {
  json::value& arguments = params["arguments"];
  if (arguments.is_null()) arguments = json::object();
  return arguments.if_object();
}

// The sandbox that a call of `tool` names; null if it leaves that to us.
const json::value* named_sandbox(const json::object& arguments, std::string_view tool) {
  for (const std::string_view name : sandbox_names(tool)) {
    const json::value* value = arguments.if_contains(name);
    if (value != nullptr && !value->is_null()) return value;
  }
  return nullptr;
}

// Whether one of the arguments under `names` is the id.
bool names(const json::object& arguments, std::initializer_list<std::string_view> names,
           std::string_view id) {
  if (id.empty()) return false;
  for (const std::string_view name : names) {
    const json::value* value = arguments.if_contains(name);
    if (value != nullptr && value->is_string() && value->get_string() == id) return true;
  }
  return false;
}

}  // namespace

Bridge::Bridge(Executor executor, std::shared_ptr<Upstream> upstream, std::shared_ptr<LineWriter> output,
               std::optional<std::string> template_name)
    : executor_(std::move(executor)),
      upstream_(std::move(upstream)),
      output_(std::move(output)),
      own_(executor_, upstream_, std::move(template_name)),
      prefix_(random_hex(8)),
      changed_(executor_) {}

void Bridge::refuse_line(const Error& error) {
  boost::asio::co_spawn(executor_,
                        output_->write(error_json(
                            nullptr, RpcError(Code::kInvalidRequest, "Invalid request: " + error.message()))),
                        boost::asio::detached);
}

void Bridge::take_line(const std::string& line) {
  if (ended_ || line.find_first_not_of(" \t") == std::string::npos) return;
  auto value = parse_value(line, "the line");
  std::string refusal;
  if (!value) {
    refusal = error_json(nullptr, RpcError(Code::kParseError, "Parse error: " + value.error().message()));
  } else if (serving_ >= kMaxServing) {
    const auto message = read_message(*value);
    // Notifications are taken whatever runs: one of them may end something.
    if (!message || message->kind == MessageKind::kRequest) {
      refusal = error_json(message ? message->id : json::value(),
                           RpcError(Code::kRefused, "Too many requests at once"));
    }
  }
  if (!refusal.empty()) {
    boost::asio::co_spawn(executor_, output_->write(std::move(refusal)), boost::asio::detached);
    return;
  }
  ++serving_;
  boost::asio::co_spawn(executor_, serve(std::move(*value)),
                        [self = shared_from_this()](const std::exception_ptr&) {
                          --self->serving_;
                          self->changed_.notify();
                        });
}

Task<void> Bridge::serve(json::value value) {
  std::string line;
  if (const json::array* batch = value.if_array()) {
    if (batch->empty()) {
      line = error_json(nullptr, RpcError(Code::kInvalidRequest, "Invalid request: the batch is empty"));
    } else {
      for (const json::value& element : *batch) {
        json::value copy = element;
        const auto answered = co_await answer(std::move(copy));
        if (!answered) continue;
        line += line.empty() ? "[" : ",";
        line += *answered;
      }
      if (!line.empty()) line += "]";
    }
  } else {
    auto answered = co_await answer(std::move(value));
    if (answered) line = std::move(*answered);
  }
  if (!line.empty() && !ended_) co_await output_->write(std::move(line));
}

Task<std::optional<std::string>> Bridge::answer(json::value value) {
  auto message = read_message(value);
  if (!message) co_return error_json(message.error().id, message.error().error);
  if (message->kind == MessageKind::kNotification) take_notification(*message);
  if (message->kind != MessageKind::kRequest) co_return std::nullopt;

  const json::value id = message->id;
  const Era era = era_of(*message, std::nullopt);
  if (era == Era::kModern) {
    const http::Headers none;
    if (const auto refusal = check_modern(*message, none, Transport::kStdio))
      co_return error_json(id, refusal->error);
  }
  json::object result;
  if (message->method == "tools/call") co_return co_await call_tool(era, std::move(*message));
  if (message->method == "tools/list") co_return co_await list_tools(era, std::move(*message));
  if (era == Era::kModern && message->method == "server/discover") {
    result = discover(Speaker::kBridge);
    make_cacheable(result, 0);
    complete_modern(result);
    co_return result_json(id, std::move(result));
  }
  if (era == Era::kLegacy && message->method == "ping") co_return result_json(id, std::move(result));
  if (era == Era::kLegacy && message->method == "initialize") {
    co_return result_json(id, initialize(message->params, Speaker::kBridge).result);
  }
  co_return error_json(id,
                       RpcError(Code::kMethodNotFound, "Method not found: " + in_quotes(message->method)));
}

Task<std::string> Bridge::list_tools(Era era, Message message) {
  const json::value id = message.id;
  auto passed = std::make_shared<Passed>();
  auto response = co_await pass_on(era, std::move(message), passed);
  if (response && !response->empty()) {
    json::value* result = response->if_contains("result");
    json::object* body = result == nullptr ? nullptr : result->if_object();
    json::value* tools = body == nullptr ? nullptr : body->if_contains("tools");
    if (tools != nullptr && tools->is_array()) make_sandbox_optional(tools->get_array());
    co_return under_id(std::move(*response), id);
  }
  if (!response && response.error().kind() == ErrorKind::kUnauthorized) {
    co_return error_json(id, RpcError(Code::kInternalError, response.error().message()));
  }
  // No server, or not yet: the tools are the ones this program knows, and a call
  // will say what to do.
  json::array tools = catalogue();
  make_sandbox_optional(tools);
  json::object result;
  result["tools"] = std::move(tools);
  if (era == Era::kModern) {
    make_cacheable(result, 0);
    complete_modern(result);
  }
  co_return result_json(id, std::move(result));
}

Task<std::optional<std::string>> Bridge::call_tool(Era era, Message message) {
  const json::value id = message.id;
  auto passed = std::make_shared<Passed>();
  passed->era = era;
  const auto entry = running_.emplace(id_key(id), passed);
  // Whichever way this ends.
  struct Forget {
    std::multimap<std::string, std::shared_ptr<Passed>>& running;
    std::multimap<std::string, std::shared_ptr<Passed>>::iterator entry;
    ~Forget() { running.erase(entry); }
  } const forget{running_, entry};

  const json::value* given = message.params.if_contains("name");
  const std::string name =
      given != nullptr && given->is_string() ? std::string(given->get_string()) : std::string();
  std::string own;
  bool gives_own_away = false;
  if (needs_sandbox(name)) {
    json::object* arguments = arguments_of(message.params);
    const json::value* sandbox = arguments == nullptr ? nullptr : named_sandbox(*arguments, name);
    gives_own_away = arguments != nullptr && name == "merge_into" &&
                     names(*arguments, {"winner_id", "winner", "child_id", "child"}, own_.id());
    if (arguments != nullptr && sandbox == nullptr) {
      if (name == "destroy_sandbox" && own_.id().empty()) {
        co_return failed_call(era, id,
                              Error(ErrorKind::kConflict,
                                    "there is no sandbox of your own to destroy: none "
                                    "was needed so far"));
      }
      auto made = co_await own_.get();
      if (passed->cancelled) co_return std::nullopt;
      if (!made) co_return failed_call(era, id, made.error());
      own = std::move(*made);
      // The call above has suspended, but the message is this coroutine's own.
      for (const std::string_view alias : sandbox_names(name)) arguments->erase(alias);
      (*arguments)[sandbox_names(name).front()] = own;
    } else if (sandbox != nullptr && sandbox->is_string() && !own_.id().empty() &&
               sandbox->get_string() == own_.id()) {
      own = own_.id();
    }
  }

  auto response = co_await pass_on(era, std::move(message), passed);
  if (passed->cancelled) co_return std::nullopt;
  if (!response) co_return failed_call(era, id, response.error());
  if (response->empty()) {
    co_return failed_call(era, id,
                          Error(ErrorKind::kUnavailable, "the server ended the call without an answer"));
  }
  const json::value* result = response->if_contains("result");
  const bool done = result != nullptr && result->is_object() && !result->get_object().contains("isError");
  if (gives_own_away && done) own_.forget();
  if (!own.empty() && own == own_.id()) {
    if (name == "destroy_sandbox" && done) own_.forget();
    note_lost_sandbox(*response);
  }
  co_return under_id(std::move(*response), id);
}

void Bridge::note_lost_sandbox(json::object& response) {
  json::value* result = response.if_contains("result");
  json::object* body = result == nullptr ? nullptr : result->if_object();
  json::value* meta = body == nullptr ? nullptr : body->if_contains("_meta");
  const json::value* failure =
      meta == nullptr || !meta->is_object() ? nullptr : meta->get_object().if_contains(kMetaFailure);
  if (failure == nullptr || *failure != json::value(kUnknownSandbox)) return;
  own_.forget();
  json::array content;
  content.push_back(
      text_block("Your own sandbox has ended (it had not been used for too long, or its time was up), and "
                 "its files and Python "
                 "session are gone. Call again to get a fresh one."));
  (*body)["content"] = std::move(content);
}

Task<Result<json::object>> Bridge::pass_on(Era era, Message message, std::shared_ptr<Passed> passed) {
  passed->upstream_id = prefix_ + "-" + std::to_string(++passed_on_);
  json::object request;
  request["jsonrpc"] = "2.0";
  request["id"] = passed->upstream_id;
  request["method"] = message.method;
  request["params"] = std::move(message.params);
  const std::weak_ptr<Bridge> weak = weak_from_this();
  Upstream::OnMessage on_message = [weak, passed](std::string notification) -> Task<void> {
    const auto self = weak.lock();
    if (self && !passed->cancelled && !self->ended_) co_await self->output_->write(std::move(notification));
  };
  co_return co_await upstream_->post(era, std::move(request), std::move(on_message));
}

void Bridge::take_notification(const Message& message) {
  if (message.method != "notifications/cancelled") return;
  const json::value* id = message.params.if_contains("requestId");
  if (id == nullptr || id->is_null()) return;
  const auto [first, last] = running_.equal_range(id_key(*id));
  for (auto it = first; it != last; ++it) {
    Passed& passed = *it->second;
    if (std::exchange(passed.cancelled, true) || passed.upstream_id.empty()) continue;
    json::object params;
    params["requestId"] = passed.upstream_id;
    json::object notification;
    notification["jsonrpc"] = "2.0";
    notification["method"] = "notifications/cancelled";
    notification["params"] = std::move(params);
    boost::asio::co_spawn(
        executor_,
        [](std::shared_ptr<Upstream> upstream, json::object notification) -> Task<void> {
          (void)co_await upstream->post(Era::kLegacy, std::move(notification), Upstream::OnMessage());
        }(upstream_, std::move(notification)),
        boost::asio::detached);
  }
}

Task<void> Bridge::idle() {
  while (serving_ > 0) co_await changed_.wait_until(Clock::now() + kLong);
}

Task<void> Bridge::end() {
  ended_ = true;
  co_await own_.end();
}

}  // namespace warren::api::mcp
