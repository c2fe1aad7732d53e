// The sessions of the earlier era: a name that `initialize` gives out, under which a
// client cancels calls and finds broken streams again. Nothing else depends on one:
// sandboxes belong to the key. A session belongs to the key that opened it; under
// another it does not exist.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "api/mcp/exchange.h"
#include "base/clock.h"

namespace warren::api::mcp {

class Session {
 public:
  Session(std::string id, std::string key_id, std::string version)
      : id_(std::move(id)),
        key_id_(std::move(key_id)),
        version_(std::move(version)),
        last_used_(Clock::now()) {}

  const std::string& id() const { return id_; }
  const std::string& key_id() const { return key_id_; }
  const std::string& version() const { return version_; }
  Clock::time_point last_used() const { return last_used_; }
  void touch() { last_used_ = Clock::now(); }

  std::string new_stream_id() { return std::to_string(++streams_made_); }
  // A stream that may be resumed, until remove() or until too much is kept.
  void keep(const std::shared_ptr<Exchange>& exchange);
  void remove(const std::string& stream_id) { streams_.erase(stream_id); }
  std::shared_ptr<Exchange> find(std::string_view stream_id) const;
  // Ends all that runs in it.
  void end();
  bool has_running() const;

 private:
  const std::string id_;
  const std::string key_id_;
  const std::string version_;
  Clock::time_point last_used_;
  std::uint64_t streams_made_ = 0;
  std::map<std::string, std::shared_ptr<Exchange>, std::less<>> streams_;
};

class Sessions {
 public:
  struct Limits {
    std::size_t per_key = 256;
    std::chrono::hours idle{24};
  };

  explicit Sessions(Limits limits) : limits_(limits) {}

  // A new one. Where the key has its fill, the one that was used longest ago and
  // runs nothing makes room.
  std::shared_ptr<Session> open(const std::string& key_id, std::string version);
  // Null for an unknown one, one that has ended and another key's.
  std::shared_ptr<Session> find(std::string_view id, std::string_view key_id);
  void close(const std::shared_ptr<Session>& session);

 private:
  void make_room(const std::string& key_id);

  const Limits limits_;
  std::map<std::string, std::shared_ptr<Session>, std::less<>> sessions_;
};

}  // namespace warren::api::mcp
