// HTTP as the faces see it: requests whose bodies stream in, answers that are one
// piece or stream out. Nothing of the library underneath shows here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/task.h"

namespace warren::http {

// Header fields in the order they came; names compare without case (RFC 9110, 5.1).
class Headers {
 public:
  void set(std::string name, std::string value);
  void add(std::string name, std::string value);
  void remove(std::string_view name);
  // The first field of that name, or nothing.
  std::optional<std::string_view> get(std::string_view name) const;
  std::vector<std::string_view> all(std::string_view name) const;
  const std::vector<std::pair<std::string, std::string>>& fields() const { return fields_; }

 private:
  std::vector<std::pair<std::string, std::string>> fields_;
};

// The body of a request, read as it comes. `Expect: 100-continue` is answered when
// the first byte is asked for.
class BodyReader {
 public:
  virtual ~BodyReader() = default;
  // The next bytes, empty at the end. kTooLarge beyond the limit that the route
  // has set, kInvalid for a broken encoding, kCancelled if the client went away.
  virtual Task<Result<std::string>> read() = 0;
  // All of it, at most `limit` bytes.
  Task<Result<std::string>> read_all(std::size_t limit);
  // Content-Length, if there is one.
  virtual std::optional<std::uint64_t> length() const = 0;
};

struct Request {
  std::string method;
  std::string target;                                      // as sent
  std::string raw_path;                                    // the target's path, still percent-encoded
  std::string path;                                        // percent-decoded, without the query
  std::vector<std::pair<std::string, std::string>> query;  // percent-decoded
  std::map<std::string, std::string, std::less<>> params;  // what the route's {names} matched, decoded
  Headers headers;
  std::string peer;             // the client's address
  std::string scheme = "http";  // or https
  std::string route;            // the pattern that matched: unlike the path, fit for a log line
  BodyReader* body = nullptr;

  std::optional<std::string_view> query_value(std::string_view name) const;
};

struct Response {
  int status = 200;
  Headers headers;
  std::string body;
};

Response json_response(int status, std::string body);

// A connection that carries something other than HTTP, from a certain point on.
class RawConnection {
 public:
  virtual ~RawConnection() = default;
  // The next bytes, empty when the peer has ended its half. kTimeout if none come by the deadline.
  virtual Task<Result<std::string>> read(Clock::time_point deadline) = 0;
  virtual Task<Result<void>> write(std::string bytes) = 0;
  // Ends our half.
  virtual Task<void> end_writing() = 0;
  // Ends all of it, and what waits in either direction with kCancelled.
  virtual void close() = 0;
};

// Where a handler answers: exactly one of send(), or begin(), write()… and finish().
// A handler that returns without finish() after begin() breaks the connection off,
// so that the client can tell a broken stream from a whole one.
class ResponseWriter {
 public:
  virtual ~ResponseWriter() = default;

  virtual Task<Result<void>> send(Response response) = 0;

  // Starts a streamed answer (chunked in HTTP/1.1, unless Content-Length is set).
  virtual Task<Result<void>> begin(int status, Headers headers) = 0;
  // Sends bytes at once. kCancelled if the client went away. Waits while the
  // client does not read; kTimeout after the server's write limit.
  virtual Task<Result<void>> write(std::string bytes) = 0;
  virtual Task<Result<void>> finish() = 0;

  // Answers 101 with these fields and Connection: Upgrade. The connection lasts as long as the
  // handler runs. kInternal where the writer has none to give, or the request has a body.
  virtual Task<Result<RawConnection*>> upgrade(Headers headers);

  virtual bool begun() const = 0;
  // Called (once, on the server's thread) when the client's connection is lost
  // while the handler runs; at once if it already is. Only one at a time; an
  // empty function takes it back.
  virtual void on_disconnect(std::function<void()> callback) = 0;
};

using Handler = std::function<Task<void>(Request&, ResponseWriter&)>;

}  // namespace warren::http
