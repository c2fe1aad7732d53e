// Which handler answers a request, and what answers when none does.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/message.h"

namespace warren::http {

// Finds a handler by method and path. Patterns are literal segments and {names};
// "{name...}" as the last segment takes the rest, which may be empty. The most
// literal pattern wins, compared segment by segment from the left. Segments are
// compared after percent-decoding, so %2F never parts two segments.
class Router {
 public:
  // The method "*" is any that the path has no other pattern for.
  void add(std::string method, const std::string& pattern, Handler handler);

  // Asked before all patterns: who serves whole hosts. An empty handler: the patterns do.
  void set_host(std::function<Handler(Request&)> find) { host_ = std::move(find); }

  // What answers when no pattern matches the path (404), when one does but not for
  // this method (405), and when a request never reached a handler or its handler
  // threw (any other status). `detail` is for 405 the methods that the path knows,
  // as in an Allow field, else a sentence for people or empty. The Allow field
  // itself is set by the router if the fallback does not.
  using Fallback = std::function<Response(const Request&, int status, const std::string& detail)>;
  // `prefix` is a path; it covers itself and what is under it ("/v1" covers /v1 and
  // /v1/x, not /v1x; "" covers everything). The longest prefix wins, so that each
  // face keeps its own shape of error. Without one: {"error": sentence}.
  void set_fallback(std::string prefix, Fallback fallback);

  // Sets request.params and request.route. Never null: what it returns may be a
  // fallback. A HEAD without a route of its own goes to the GET handler, whose
  // body the server does not send.
  Handler find(Request& request) const;

  // The answer for a request that never reached a handler (too long a header,
  // broken syntax, a handler that threw): shaped by the fallback for its path.
  Response error(const Request& request, int status, const std::string& message) const;

 private:
  struct Segment {
    enum class Kind { kLiteral, kParam, kRest };
    Kind kind;
    std::string text;  // the literal, or the name
  };
  struct Route {
    std::string method;
    std::string pattern;
    std::vector<Segment> segments;
    Handler handler;
  };

  static bool matches(const Route& route, const std::vector<std::string>& path);
  static bool more_literal(const Route& a, const Route& b);
  Response fall_back(const Request& request, int status, const std::string& detail) const;

  std::function<Handler(Request&)> host_;
  std::vector<Route> routes_;
  std::vector<std::pair<std::string, Fallback>> fallbacks_;
};

}  // namespace warren::http
