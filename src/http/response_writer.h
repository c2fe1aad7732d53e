// The answer to one request, written to its connection.
#pragma once

#include <cstdint>
#include <optional>

#include "http/head_parser.h"
#include "http/request_body.h"
#include "http/stream.h"

namespace warren::http {

class StreamResponseWriter final : public ResponseWriter {
 public:
  struct Context {
    bool is_head = false;
    Version version = Version::kHttp11;
    bool client_keeps_alive = true;
    Millis stall{};  // how long a write waits for the client to take one byte
  };
  // `stream` and `body` outlive it.
  StreamResponseWriter(Stream& stream, RequestBody& body, Context context);

  Task<Result<void>> send(Response response) override;
  Task<Result<void>> begin(int status, Headers headers) override;
  Task<Result<void>> write(std::string bytes) override;
  Task<Result<void>> finish() override;
  Task<Result<RawConnection*>> upgrade(Headers headers) override;
  bool begun() const override { return state_ != State::kNothing; }
  void on_disconnect(std::function<void()> callback) override;

  // The client is gone: calls what on_disconnect() was given.
  void client_lost();
  // From now on answers say that the connection ends with them.
  void end_connection() { keep_alive_ = false; }

  // Whether the connection carries something other than HTTP by now.
  bool upgraded() const { return raw_.has_value(); }
  // Of the answer that has been begun.
  int status() const { return status_; }
  // Whether a whole answer has been written.
  bool complete() const { return state_ == State::kDone; }
  // Whether another request may follow, as the answer has told the client.
  bool keeps_alive() const { return keep_alive_; }
  // Whether a client would take a broken-off answer for a whole one, unless reset.
  bool ends_by_close() const { return framing_ == Framing::Kind::kUntilClose; }

 private:
  enum class State { kNothing, kStreaming, kDone, kBroken };

  void append_connection(std::string& head, const Headers& headers);
  Task<Result<void>> put(Stream::Buffers buffers);

  // What has been upgraded.
  class Raw final : public RawConnection {
   public:
    Raw(Stream& stream, Millis stall) : stream_(stream), stall_(stall) {}
    Task<Result<std::string>> read(Clock::time_point deadline) override;
    Task<Result<void>> write(std::string bytes) override;
    Task<void> end_writing() override;
    void close() override;

   private:
    Stream& stream_;
    Millis stall_;
  };

  Stream& stream_;
  RequestBody& body_;
  std::optional<Raw> raw_;
  Context context_;
  State state_ = State::kNothing;
  Framing::Kind framing_ = Framing::Kind::kNone;
  int status_ = 0;
  bool bodiless_ = false;
  bool keep_alive_ = true;
  std::uint64_t left_ = 0;  // of the Content-Length that begin() was given
  bool lost_ = false;
  std::function<void()> on_disconnect_;
};

}  // namespace warren::http
