#include <boost/asio/co_spawn.hpp>
#include <utility>

#include "runtime/agent_client.h"

namespace warren::runtime {

namespace json = boost::json;

Task<Result<json::object>> AgentClient::apply(ByteSource source) {
  const json::object request{{"op", "apply"}};
  auto opened = open(request);
  if (!opened) co_return fail(std::move(opened).error());
  const std::shared_ptr<AgentStream> stream = *std::move(opened);
  for (bool more = true; more;) {
    auto bytes = co_await source();
    // The stream is dropped with it, and nothing is done.
    if (!bytes) co_return fail(std::move(bytes).error());
    more = !bytes->empty();
    if (!more) break;
    auto written = co_await stream->write(*std::move(bytes));
    // Why it has ended early, the agent says below.
    if (!written && written.error().kind() != ErrorKind::kConflict)
      co_return fail(std::move(written).error());
    if (!written) break;
  }
  // One that has ended already takes no end.
  static_cast<void>(co_await stream->end_input());
  for (;;) {
    auto event = co_await stream->next();
    if (!event) co_return fail(std::move(event).error());
    if (auto* close = std::get_if<StreamClose>(&*event)) co_return std::move(close->value);
  }
}

}  // namespace warren::runtime
