// The face's handlers, a file for each noun, and what they share. Private to the face.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "api/podflare/face.h"
#include "base/task.h"
#include "http/message.h"
#include "http/router.h"
#include "service/caller.h"
#include "service/sandboxes.h"

namespace warren::api::podflare {

// A terminal that is open: its output streams in the answer that opened it, its
// input comes by requests of its own.
struct Terminal {
  std::string account_id;
  std::string sandbox_id;
  std::weak_ptr<service::Execution> execution;
};

struct Face {
  Authenticate authenticate;
  service::Sandboxes& sandboxes;
  Settings settings;
  std::map<std::string, Terminal, std::less<>> terminals;
};

// Handlers that know who asks. Plain functions, so that nothing they need lives in a
// closure that could go before they end.
//
// One whose answer is a single response; an error is answered in the face's own shape.
using Responder = Task<Result<http::Response>> (*)(std::shared_ptr<Face> face, service::Caller caller,
                                                   http::Request& request);
// One that streams its answer.
using Streamer = Task<void> (*)(std::shared_ptr<Face> face, service::Caller caller, http::Request& request,
                                http::ResponseWriter& writer);
using Handler = std::variant<Responder, Streamer>;

// Adds `handler` behind the check of the key.
void add_route(http::Router& router, const std::shared_ptr<Face>& face, std::string method,
               const std::string& pattern, Handler handler);

// Answers with an error in the face's own shape.
Task<void> refuse(http::ResponseWriter& writer, Error error);

// The value of ?path=, which must be the only parameter. May be any bytes.
Result<std::string> path_parameter(const http::Request& request);

void add_sandbox_routes(http::Router& router, const std::shared_ptr<Face>& face);
void add_fork_routes(http::Router& router, const std::shared_ptr<Face>& face);
void add_exec_routes(http::Router& router, const std::shared_ptr<Face>& face);
void add_terminal_routes(http::Router& router, const std::shared_ptr<Face>& face);
void add_file_routes(http::Router& router, const std::shared_ptr<Face>& face);
void add_port_routes(http::Router& router, const std::shared_ptr<Face>& face);

// Answers with what `execution` does, as application/x-ndjson, until its exit. A
// client that goes away cancels it. A first event that is an error is answered with
// its own status; later the stream is broken off after a fatal "error" line.
Task<void> stream_execution(std::shared_ptr<service::Execution> execution, http::Headers headers,
                            http::ResponseWriter& writer);

}  // namespace warren::api::podflare
