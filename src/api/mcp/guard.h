// Who may talk to the endpoint from a browser. A page of a stranger must not reach a
// server on its visitor's own machine, not even by a name that it has made to point
// there (DNS rebinding): so the Origin that browsers send is checked, and on a
// loopback address the Host as well.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/message.h"

namespace warren::api::mcp {

enum class Listening { kLoopback, kNetwork };

class Guard {
 public:
  // `origins` are allowed besides loopback ones ("https://app.example.com"); the
  // server's own public URL belongs among them.
  Guard(const std::vector<std::string>& origins, Listening listening);

  // What is wrong with the request's Host or Origin, for a 403; nothing if it may pass.
  std::optional<std::string> refusal(const http::Headers& headers) const;

  // What CORS makes a browser want to read (Fetch, 3.2), for an Origin that may pass.
  static void add_cors(const http::Headers& request, http::Headers& response);
  // And the answer to its question beforehand.
  static void add_preflight(http::Headers& response);

 private:
  bool is_known_host(std::string_view host) const;

  std::vector<std::string> origins_;  // lower case, without a path
  Listening listening_;
};

}  // namespace warren::api::mcp
