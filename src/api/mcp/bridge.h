// The stdio server's side of the conversation: takes a client's messages, answers
// those that need no server, passes tools/call and tools/list on.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "api/mcp/era.h"
#include "api/mcp/jsonrpc.h"
#include "api/mcp/lines.h"
#include "api/mcp/own_sandbox.h"
#include "api/mcp/upstream.h"
#include "base/task.h"

namespace warren::api::mcp {

class Bridge : public std::enable_shared_from_this<Bridge> {
 public:
  Bridge(Executor executor, std::shared_ptr<Upstream> upstream, std::shared_ptr<LineWriter> output,
         std::optional<std::string> template_name);

  // Takes one line; what it asks is answered by and by.
  void take_line(const std::string& line);
  void refuse_line(const Error& error);

  // Returns when nothing runs any more.
  Task<void> idle();
  // Takes nothing any more, answers nothing any more, and destroys the client's
  // sandbox.
  Task<void> end();

 private:
  // A request of the client that was passed on.
  struct Passed {
    std::string upstream_id;
    Era era = Era::kLegacy;
    bool cancelled = false;
  };

  Task<void> serve(boost::json::value value);
  // The line that answers the message; nothing if none does.
  Task<std::optional<std::string>> answer(boost::json::value value);
  Task<std::string> list_tools(Era era, Message message);
  Task<std::optional<std::string>> call_tool(Era era, Message message);
  Task<Result<boost::json::object>> pass_on(Era era, Message message, std::shared_ptr<Passed> passed);
  void take_notification(const Message& message);

  // The client's own sandbox went away under it.
  void note_lost_sandbox(boost::json::object& response);

  const Executor executor_;
  std::shared_ptr<Upstream> upstream_;
  std::shared_ptr<LineWriter> output_;
  OwnSandbox own_;
  const std::string prefix_;  // of the ids upstream: no other client of the key has it
  std::uint64_t passed_on_ = 0;
  std::multimap<std::string, std::shared_ptr<Passed>> running_;  // by the client's id
  std::size_t serving_ = 0;
  bool ended_ = false;
  Signal changed_;
};

}  // namespace warren::api::mcp
