// What of a message's head passes a proxy, and what does not (RFC 9110, 7.6): the head that goes on
// is made anew, so that nothing reaches the next hop that this one has not understood.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "http/head_parser.h"
#include "http/message.h"

namespace warren::http {

// How a request is to go on.
struct ForwardTo {
  std::string target;  // in origin form, as it was sent
  std::string prefix;  // what the path was below here, without a slash at its end; told as X-Forwarded-Prefix
  // Fields that are not the next hop's business. May be empty. Names are given with hyphens for
  // underscores, since programs take one for the other.
  std::function<bool(std::string_view name, std::string_view value)> withhold;
  // Has the last word about the answer's fields. May be empty.
  std::function<void(Headers& headers, int status)> dress_answer;
  // How long the next hop may be silent before its answer begins; then 504.
  Millis answer_limit{120'000};
};

struct ForwardedHead {
  std::string bytes;
  bool chunked = false;           // how the body goes on
  bool upgrades = false;          // to what the client has asked for
  bool expects_continue = false;  // the body is to wait
};

// The request's head for the next hop, on a connection of its own.
ForwardedHead forwarded_request(const Request& request, const ForwardTo& to);

// The answer's fields for the client: without those of this hop.
Headers forwarded_answer(const Headers& headers, Framing::Kind framing);

}  // namespace warren::http
