// One connection from the server to the runtime. Each request is served on its own, so
// that one that waits (for a sandbox to start, for processes to end) holds up no other;
// replies come in the order in which they are ready, under their request's number.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/task.h"
#include "runtime/client.h"
#include "runtime/driver.h"
#include "runtime/messages.h"
#include "runtime/packet_socket.h"

namespace warren::runtime {

// What all sessions of a runtime share. Outlives them.
struct Shared {
  Driver& driver;
  std::function<std::vector<TemplateInfo>()> templates;
  // Sandboxes that have ended and that nobody has destroyed yet.
  std::map<std::string, Exit, std::less<>> exits;
};

class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(Shared& shared, std::shared_ptr<PacketSocket> socket)
      : shared_(shared), socket_(std::move(socket)) {}

  // Says what there is, then serves until the connection ends or the server sends
  // what no server of ours would. What has been begun by then runs on to its end, and
  // a sandbox whose creator is not there to hear of it is destroyed.
  static Task<void> run(std::shared_ptr<Session> self);

  void tell(const Exit& exit);
  void close() { socket_->close(); }
  // False while it only finishes what it has begun.
  bool is_open() const { return socket_->is_open(); }

  // More requests than any server of ours has unanswered at a time.
  static constexpr std::size_t kMostPending = 16384;

 private:
  void introduce();
  static Task<void> serve(std::shared_ptr<Session> self, Request request);

  Shared& shared_;
  std::shared_ptr<PacketSocket> socket_;
  std::size_t pending_ = 0;
};

}  // namespace warren::runtime
