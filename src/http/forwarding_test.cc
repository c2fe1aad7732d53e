// The heads that a proxy sends on.
#include "http/forwarding.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>

#include "http/syntax.h"

namespace warren::http {
namespace {

class Body final : public BodyReader {
 public:
  explicit Body(std::optional<std::uint64_t> length) : length_(length) {}
  Task<Result<std::string>> read() override { co_return std::string(); }
  std::optional<std::uint64_t> length() const override { return length_; }

 private:
  std::optional<std::uint64_t> length_;
};

ForwardedHead forwarded(Headers headers, std::optional<std::uint64_t> length = 0,
                        std::string peer = "192.0.2.7") {
  Body body(length);
  Request request;
  request.method = "POST";
  request.headers = std::move(headers);
  request.headers.set("Host", "port.test");
  request.peer = std::move(peer);
  request.body = &body;
  ForwardTo to;
  to.target = "/a%2Fb?c";
  to.prefix = "/p/token";
  to.withhold = [](std::string_view name, std::string_view) { return same_field_name(name, "X-Secret"); };
  return forwarded_request(request, to);
}

Headers with(std::initializer_list<std::pair<std::string, std::string>> fields) {
  Headers headers;
  for (const auto& [name, value] : fields) headers.add(name, value);
  return headers;
}

TEST(Forwarding, MakesTheHeadAnew) {
  EXPECT_EQ(forwarded(with({{"Accept", "*/*"}}), 5).bytes,
            "POST /a%2Fb?c HTTP/1.1\r\nHost: port.test\r\nAccept: */*\r\nX-Forwarded-For: 192.0.2.7\r\n"
            "X-Forwarded-Host: port.test\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Prefix: /p/token\r\n"
            "Connection: close\r\nContent-Length: 5\r\n\r\n");
  EXPECT_NE(forwarded({}, std::nullopt).bytes.find("Transfer-Encoding: chunked\r\n"), std::string::npos);
  EXPECT_EQ(forwarded({}, 0).bytes.find("Content-Length"), std::string::npos);
  EXPECT_NE(forwarded(with({{"content-length", "0"}}), 0).bytes.find("Content-Length: 0\r\n"),
            std::string::npos);
}

TEST(Forwarding, LeavesOutWhatIsNotTheNextHops) {
  for (const char* name :
       {"Connection", "Keep-Alive", "TE", "Trailer", "Upgrade", "Proxy-Authorization", "Transfer-Encoding",
        "Transfer_Encoding", "Content_Length", "X-Secret", "x_secret", "X-Forwarded-For", "X_Forwarded_For",
        "Forwarded", "X-Real-IP", "HTTP2-Settings", "Expect"})
    EXPECT_EQ(forwarded(with({{name, "gone"}})).bytes.find("gone"), std::string::npos) << name;
  const auto named =
      forwarded(with({{"Connection", "X-Mine, Host"}, {"X-Mine", "gone"}, {"X-Other", "there"}})).bytes;
  EXPECT_EQ(named.find("gone"), std::string::npos);
  EXPECT_NE(named.find("there"), std::string::npos);
  EXPECT_NE(named.find("Host: port.test\r\n"), std::string::npos);
}

TEST(Forwarding, BelievesOnlyAProxyOfThisHost) {
  const auto sent = with(
      {{"X-Forwarded-For", "203.0.113.1"}, {"X-Forwarded-Proto", "https"}, {"X-Forwarded-Host", "w.test"}});
  const auto believed = forwarded(sent, 0, "127.0.0.1").bytes;
  EXPECT_NE(believed.find("X-Forwarded-For: 203.0.113.1, 127.0.0.1\r\n"), std::string::npos);
  EXPECT_NE(believed.find("X-Forwarded-Proto: https\r\n"), std::string::npos);
  EXPECT_NE(believed.find("X-Forwarded-Host: w.test\r\n"), std::string::npos);
  const auto not_believed = forwarded(sent).bytes;
  EXPECT_NE(not_believed.find("X-Forwarded-For: 192.0.2.7\r\n"), std::string::npos);
  EXPECT_NE(not_believed.find("X-Forwarded-Proto: http\r\n"), std::string::npos);
}

TEST(Forwarding, UpgradesToWhatIsNoHttp) {
  EXPECT_TRUE(forwarded(with({{"Connection", "keep-alive, Upgrade"}, {"Upgrade", "websocket"}})).upgrades);
  EXPECT_FALSE(forwarded(with({{"Upgrade", "websocket"}})).upgrades);
  EXPECT_FALSE(forwarded(with({{"Connection", "Upgrade"}, {"Upgrade", "websocket"}}), 5).upgrades);
  for (const char* protocol : {"h2c", "H2C", "websocket, h2c", "TLS/1.3", ""})
    EXPECT_FALSE(forwarded(with({{"Connection", "Upgrade"}, {"Upgrade", protocol}})).upgrades) << protocol;
}

TEST(Forwarding, AnAnswerHasOneEndOnly) {
  const auto fields = with({{"Content-Length", "5"},
                            {"Connection", "X-Mine"},
                            {"X-Mine", "1"},
                            {"Keep-Alive", "x"},
                            {"ETag", "e"}});
  EXPECT_EQ(forwarded_answer(fields, Framing::Kind::kLength).fields().size(), 2U);
  EXPECT_FALSE(forwarded_answer(fields, Framing::Kind::kUntilClose).get("Content-Length"));
}

}  // namespace
}  // namespace warren::http
