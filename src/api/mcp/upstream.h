// The server as the stdio bridge sees it: messages posted to its MCP endpoint.
#pragma once

#include <boost/json/object.hpp>
#include <functional>
#include <memory>
#include <string>

#include "api/mcp/era.h"
#include "base/result.h"
#include "base/task.h"
#include "http/client.h"

namespace warren::api::mcp {

class Upstream {
 public:
  Upstream(std::shared_ptr<http::Client> client, std::string base_url, std::string key)
      : client_(std::move(client)), base_url_(std::move(base_url)), key_(std::move(key)) {}

  // Gets every message that is no response, as one line of JSON.
  using OnMessage = std::function<Task<void>(std::string json)>;

  // Posts one message and returns the response to it, empty for a notification or a
  // cancelled call. kUnavailable: nobody answers, or the answer broke off;
  // kUnauthorized: the key is refused; each with a sentence on what to do.
  Task<Result<boost::json::object>> post(Era era, boost::json::object message, OnMessage on_message);

  // Calls a tool outside of any client's request and returns its structured
  // content. A failed result is kConflict with its text.
  Task<Result<boost::json::object>> call(std::string tool, boost::json::object arguments);

 private:
  std::shared_ptr<http::Client> client_;
  const std::string base_url_;
  const std::string key_;
  std::uint64_t calls_ = 0;
};

}  // namespace warren::api::mcp
