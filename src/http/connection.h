// One client's connection: one request after the other, until either side ends it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "http/hangup_watch.h"
#include "http/head_parser.h"
#include "http/response_writer.h"
#include "http/server.h"
#include "http/stream.h"

namespace warren::http {

class Connection {
 public:
  // What all connections of a server share.
  struct Shared {
    std::shared_ptr<Router> router;
    ServerLimits limits;
    std::shared_ptr<HangupWatch> watch;                                // may be null
    CertificateSource certificate;                                     // empty: plain HTTP
    std::function<void(const Request& request, int status)> answered;  // may be empty
  };

  Connection(boost::asio::ip::tcp::socket socket, std::string peer, std::shared_ptr<const Shared> shared);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Serves until the connection ends; the caller keeps the object until then.
  Task<void> run();

  const std::string& peer() const { return peer_; }
  // Ends what waits past its deadline.
  void expire(Clock::time_point now) { stream_.expire(now); }
  // Ends the connection after the request that is being answered, at once if none is.
  void retire();
  // Ends it now; a running handler is told that its client is gone.
  void kill();

 private:
  // False if there is no TLS to be had with the client.
  Task<bool> greet();
  // The next request's head; an error is answered, nothing means that there is none.
  Task<std::optional<std::expected<RequestHead, HeadError>>> read_head();
  // Both return whether another request may follow.
  Task<bool> serve(RequestHead head);
  Task<bool> settle(RequestBody& body, StreamResponseWriter& writer);
  Task<void> refuse(HeadError error);
  void tell_answered(const Request& request, const StreamResponseWriter& writer) const;
  // Runs the handler; an answer that it fails to give is given for it.
  Task<void> answer(Request& request, StreamResponseWriter& writer);
  // Closes so that an answer already sent is not lost to bytes still on their way here.
  Task<void> linger();

  Stream stream_;
  std::string peer_;
  std::shared_ptr<const Shared> shared_;
  std::uint64_t watch_id_ = 0;
  StreamResponseWriter* writer_ = nullptr;  // of the request being handled
  std::size_t requests_ = 0;
  bool idle_ = false;
  bool retiring_ = false;
  bool gone_ = false;  // the client closed, or closed its half
};

}  // namespace warren::http
