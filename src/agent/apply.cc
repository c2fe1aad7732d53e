#include "agent/apply.h"

#include <fcntl.h>

#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "agent/application.h"
#include "agent/request.h"

namespace warren::agent {

namespace asio = boost::asio;
namespace json = boost::json;

namespace {

// Others get their turn after so many operations.
constexpr std::size_t kInARow = 64;

}  // namespace

Task<void> apply_operations(std::shared_ptr<Stream> stream, json::object object) {
  Request request(std::move(object));
  if (auto valid = request.finish(); !valid) co_return stream->close(valid.error());
  auto started = Application::start(UniqueFd(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)));
  if (!started) co_return stream->close(started.error());
  Application application = *std::move(started);
  changes::OperationDecoder decoder;
  while (auto bytes = co_await stream->input()) {
    if (auto fed = decoder.feed(*bytes, application); !fed) co_return stream->close(fed.error());
    stream->input_taken(bytes->size());
  }
  if (stream->cancelled()) co_return stream->close(Error(ErrorKind::kCancelled, "cancelled"));
  if (!decoder.ended())
    co_return stream->close(
        Error(ErrorKind::kUnavailable, "merge: the changes ended early; nothing was done"));
  if (auto written = application.finish_writing(); !written) co_return stream->close(written.error());
  const auto executor = co_await asio::this_coro::executor;
  for (std::size_t i = 0; i < application.size(); ++i) {
    if (auto checked = application.check(i); !checked) co_return stream->close(checked.error());
    if (i % kInARow == kInARow - 1) co_await asio::post(executor, asio::use_awaitable);
  }
  if (stream->cancelled()) co_return stream->close(Error(ErrorKind::kCancelled, "cancelled"));

  // From here on it is done to its end, whoever still wants it, or undone.
  Result<void> outcome;
  for (std::size_t i = 0; outcome && i < application.size(); ++i) {
    outcome = application.perform(i);
    if (i % kInARow == kInARow - 1) co_await asio::post(executor, asio::use_awaitable);
  }
  if (outcome) outcome = application.finish();
  Placement& placement = application.placement();
  if (!outcome) {
    while (placement.steps() > 0) {
      placement.undo_last();
      if (placement.steps() % kInARow == 0) co_await asio::post(executor, asio::use_awaitable);
    }
    co_return stream->close(placement.undone(outcome.error()));
  }
  for (std::size_t i = 0; i < placement.steps(); ++i) {
    placement.settle(i);
    if (i % kInARow == kInARow - 1) co_await asio::post(executor, asio::use_awaitable);
  }
  json::object result{{"applied", application.size()}, {"left", placement.left()}};
  stream->close(result);
}

}  // namespace warren::agent
