// How each era begins: `initialize` of the earlier one, `server/discover` of the
// current one, and what both say of this server.
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <string_view>

namespace warren::api::mcp {

// Who is answering, for the instructions: the bridge gives each client a sandbox of its own.
enum class Speaker { kServer, kBridge };

// What a model is told about the whole before it sees the tools.
std::string instructions(Speaker speaker);

// {"name","title","version"}.
boost::json::object server_info();

// The result of `initialize`, and in `version` the one agreed on: the client's if
// it is of the earlier era and known, else the latest of that era.
struct Initialized {
  boost::json::object result;
  std::string version;
};
Initialized initialize(const boost::json::object& params, Speaker speaker);

// The result of `server/discover`.
boost::json::object discover(Speaker speaker);

// Puts into a result what each one of the current era carries: resultType and who
// answered.
void complete_modern(boost::json::object& result);

// And what a result that clients may keep carries. `ttl_ms` is how long.
void make_cacheable(boost::json::object& result, long ttl_ms);

}  // namespace warren::api::mcp
