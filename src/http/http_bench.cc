// What the server costs, run by hand: a small request's round trip, and bytes a second
// both ways, over the loopback, with the client as plain as can be. Beside them the
// same bytes through a bare socket pair of the same kind, as the limit.
#include <fmt/format.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <vector>

#include "http/test_peer.h"

namespace warren::http {
namespace {

using Seconds = std::chrono::duration<double>;
constexpr std::size_t kPiece = 256UL * 1024;
constexpr std::size_t kTotal = 4UL * 1024 * 1024 * 1024;

// What the server's own thread has used of the processor: tells on a busy machine too.
Task<double> thread_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  co_return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double now() { return Seconds(std::chrono::steady_clock::now().time_since_epoch()).count(); }

class RawPeer {
 public:
  explicit RawPeer(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) std::abort();
    const int on = 1;
    ::setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  void say(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) std::abort();
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
  }
  std::size_t hear(char* into, std::size_t size) {
    const ssize_t got = ::recv(fd_.get(), into, size, 0);
    return got > 0 ? static_cast<std::size_t>(got) : 0;
  }

 private:
  UniqueFd fd_;
};

void round_trips(const char* what, std::uint16_t port, const std::string& request) {
  RawPeer peer(port);
  std::vector<double> times;
  std::string buffer(4096, '\0');
  const double begin = now();
  for (int i = 0; i < 30'000; ++i) {
    const double sent = now();
    peer.say(request);
    if (peer.hear(buffer.data(), buffer.size()) == 0) std::abort();
    times.push_back(now() - sent);
  }
  const double all = now() - begin;
  std::sort(times.begin(), times.end());
  fmt::print("{:28} p50 {:6.1f} us  p99 {:6.1f} us  {:8.0f}/s\n", what, times[times.size() / 2] * 1e6,
             times[times.size() * 99 / 100] * 1e6, static_cast<double>(times.size()) / all);
}

void report(const char* what, double begin, std::size_t bytes) {
  fmt::print("{:28} {:7.0f} MB/s\n", what, static_cast<double>(bytes) / (now() - begin) / 1e6);
}

void download(std::uint16_t port) {
  RawPeer peer(port);
  std::string buffer(1024UL * 1024, '\0');
  const double begin = now();
  peer.say("GET /down HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  std::size_t total = 0;
  while (const std::size_t got = peer.hear(buffer.data(), buffer.size())) total += got;
  report("chunked download", begin, total);
}

enum class Coding { kLength, kChunked };

void upload(std::uint16_t port, Coding coding) {
  const bool chunked = coding == Coding::kChunked;
  RawPeer peer(port);
  const std::string piece =
      chunked ? "40000\r\n" + std::string(kPiece, 'x') + "\r\n" : std::string(kPiece, 'x');
  const double begin = now();
  peer.say("PUT /up HTTP/1.1\r\nHost: x\r\n" +
           (chunked ? "Transfer-Encoding: chunked" : "Content-Length: " + std::to_string(kTotal)) +
           "\r\n\r\n");
  for (std::size_t sent = 0; sent < kTotal; sent += kPiece) peer.say(piece);
  if (chunked) peer.say("0\r\n\r\n");
  char buffer[1024];
  if (peer.hear(buffer, sizeof(buffer)) == 0) std::abort();
  report(chunked ? "chunked upload" : "upload with a length", begin, kTotal);
}

// The kernel alone: what sends on one thread and receives on the other.
void bare_socket() {
  Listener listener = listen_on_loopback();
  std::thread sender([&] {
    const UniqueFd accepted(::accept(listener.fd.get(), nullptr, nullptr));
    const std::string piece(kPiece, 'x');
    for (std::size_t sent = 0; sent < kTotal;) {
      const ssize_t done = ::send(accepted.get(), piece.data(), piece.size(), MSG_NOSIGNAL);
      if (done <= 0) std::abort();
      sent += static_cast<std::size_t>(done);
    }
  });
  RawPeer peer(listener.port);
  std::string buffer(1024UL * 1024, '\0');
  const double begin = now();
  std::size_t total = 0;
  while (const std::size_t got = peer.hear(buffer.data(), buffer.size())) total += got;
  report("a bare socket", begin, total);
  sender.join();
}

void bare_round_trip() {
  Listener listener = listen_on_loopback();
  std::thread echo([&] {
    const UniqueFd accepted(::accept(listener.fd.get(), nullptr, nullptr));
    char buffer[4096];
    for (;;) {
      const ssize_t got = ::recv(accepted.get(), buffer, sizeof(buffer), 0);
      if (got <= 0 || ::send(accepted.get(), buffer, static_cast<std::size_t>(got), MSG_NOSIGNAL) != got)
        return;
    }
  });
  round_trips("a bare socket's round trip", listener.port, std::string(150, 'x'));
  echo.join();
}

int run() {
  auto router = std::make_shared<Router>();
  router->add("GET", "/hello", [](Request&, ResponseWriter& writer) -> Task<void> {
    (void)co_await writer.send(json_response(200, "{\"ok\":true}"));
  });
  router->add("POST", "/echo", [](Request& request, ResponseWriter& writer) -> Task<void> {
    auto body = co_await request.body->read_all(1024UL * 1024);
    Response response = json_response(200, body ? *std::move(body) : "");
    (void)co_await writer.send(std::move(response));
  });
  router->add("GET", "/down", [](Request&, ResponseWriter& writer) -> Task<void> {
    Headers headers;
    (void)co_await writer.begin(200, std::move(headers));
    const std::string piece(kPiece, 'x');
    for (std::size_t sent = 0; sent < kTotal; sent += kPiece) {
      const auto written = co_await writer.write(piece);
      if (!written) co_return;
    }
    (void)co_await writer.finish();
  });
  router->add("PUT", "/up", [](Request& request, ResponseWriter& writer) -> Task<void> {
    for (;;) {
      const auto piece = co_await request.body->read();
      if (!piece || piece->empty()) break;
    }
    Response response;
    (void)co_await writer.send(std::move(response));
  });
  TestServer server(router);
  const std::string fields =
      " HTTP/1.1\r\nHost: 127.0.0.1:7070\r\nUser-Agent: curl/7.88.1\r\nAccept: */*\r\nAuthorization: Bearer "
      "wrn_abcdefghijklmnop\r\n";
  double used = server.run(thread_seconds());
  const auto print_used = [&](double per, const char* unit) {
    const double before = std::exchange(used, server.run(thread_seconds()));
    fmt::print("{:28} {:7.2f} {}\n", "  of the server's processor", (used - before) / per, unit);
  };
  bare_round_trip();
  round_trips("GET", server.port(), "GET /hello" + fields + "\r\n");
  print_used(30'000 * 1e-6, "us each");
  round_trips("POST of 60 bytes", server.port(),
              "POST /echo" + fields + "Content-Length: 60\r\n\r\n" + std::string(60, 'x'));
  print_used(30'000 * 1e-6, "us each");
  bare_socket();
  download(server.port());
  print_used(kTotal * 1e-9, "s per GB");
  upload(server.port(), Coding::kLength);
  print_used(kTotal * 1e-9, "s per GB");
  upload(server.port(), Coding::kChunked);
  print_used(kTotal * 1e-9, "s per GB");
  return 0;
}

}  // namespace
}  // namespace warren::http

int main() { return warren::http::run(); }
