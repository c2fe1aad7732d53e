#include "api/mcp/sessions.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/ids.h"

namespace warren::api::mcp {

namespace {

// Of answers that were sent and are kept in case they got lost.
constexpr std::size_t kMaxKeptBytes = 16UL << 20U;
constexpr std::size_t kMaxKeptStreams = 256;

}  // namespace

void Session::keep(const std::shared_ptr<Exchange>& exchange) {
  streams_[exchange->stream_id()] = exchange;
  std::vector<std::shared_ptr<Exchange>> complete;
  std::size_t bytes = 0;
  for (const auto& [id, stream] : streams_) {
    if (!stream->complete()) continue;
    complete.push_back(stream);
    bytes += stream->bytes();
  }
  std::ranges::sort(complete, {}, [](const auto& stream) { return std::stoull(stream->stream_id()); });
  std::size_t count = complete.size();
  for (const auto& stream : complete) {
    if (bytes <= kMaxKeptBytes && count <= kMaxKeptStreams) break;
    bytes -= stream->bytes();
    --count;
    streams_.erase(stream->stream_id());
  }
}

std::shared_ptr<Exchange> Session::find(std::string_view stream_id) const {
  const auto found = streams_.find(stream_id);
  return found == streams_.end() ? nullptr : found->second;
}

void Session::end() {
  const auto streams = std::exchange(streams_, {});
  for (const auto& [id, stream] : streams) stream->withdraw_all();
}

bool Session::has_running() const {
  return std::ranges::any_of(streams_, [](const auto& entry) { return !entry.second->complete(); });
}

std::shared_ptr<Session> Sessions::open(const std::string& key_id, std::string version) {
  make_room(key_id);
  auto session = std::make_shared<Session>(random_hex(16), key_id, std::move(version));
  sessions_[session->id()] = session;
  return session;
}

void Sessions::make_room(const std::string& key_id) {
  const Clock::time_point now = Clock::now();
  std::erase_if(sessions_, [&](const auto& entry) {
    return now - entry.second->last_used() > limits_.idle && !entry.second->has_running();
  });
  std::size_t count = 0;
  std::shared_ptr<Session> oldest;
  for (const auto& [id, session] : sessions_) {
    if (session->key_id() != key_id) continue;
    ++count;
    if (!session->has_running() && (!oldest || session->last_used() < oldest->last_used())) oldest = session;
  }
  if (count >= limits_.per_key && oldest) close(oldest);
}

std::shared_ptr<Session> Sessions::find(std::string_view id, std::string_view key_id) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end() || found->second->key_id() != key_id) return nullptr;
  found->second->touch();
  return found->second;
}

void Sessions::close(const std::shared_ptr<Session>& session) {
  sessions_.erase(session->id());
  session->end();
}

}  // namespace warren::api::mcp
