// Passes a request on to an HTTP/1.1 server and its answer back, both streamed: a slow reader at
// either end slows the other down and costs bounded memory. WebSockets and other upgrades go through
// as bytes. One connection to the server for each request: nothing that one of them leaves behind can
// be taken for another's answer.
#pragma once

#include <memory>

#include "http/forwarding.h"
#include "http/message.h"

namespace warren::http {

// Answers `request` with what `server` says, a fresh connection. 502 if that is no HTTP or ends too
// early, 504 if it says nothing in time; once an answer has begun, the client's connection is broken
// off instead. Ends early when the client goes away.
Task<void> forward(Request& request, ResponseWriter& writer, std::shared_ptr<RawConnection> server,
                   ForwardTo to);

}  // namespace warren::http
