// One connection from the server to the runtime: answers its requests one by one, in
// their order.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

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
  // what no server of ours would.
  static Task<void> run(std::shared_ptr<Session> self);

  void tell(const Exit& exit);
  void close() { socket_->close(); }

 private:
  void introduce();
  void serve(const Request& request);

  Shared& shared_;
  std::shared_ptr<PacketSocket> socket_;
};

}  // namespace warren::runtime
