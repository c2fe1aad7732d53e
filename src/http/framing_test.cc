// What two HTTP parsers could read differently, this one refuses: each request here
// would smuggle a second one past somebody.
#include <gtest/gtest.h>

#include "http/test_peer.h"

namespace warren::http {
namespace {

std::shared_ptr<Router> make_router() {
  auto router = std::make_shared<Router>();
  const Handler echo = [](Request& request, ResponseWriter& writer) -> Task<void> {
    auto body = co_await request.body->read_all(1024UL * 1024);
    Response response;
    if (body) {
      response.body = "[" + *body + "]";
    } else {
      response.status = 400;
      response.body = body.error().message();
    }
    (void)co_await writer.send(std::move(response));
  };
  router->add("POST", "/", echo);
  router->add("GET", "/", echo);
  return router;
}

struct Attack {
  const char* name;
  std::string request;
  int status;
};

void PrintTo(const Attack& attack, std::ostream* out) { *out << attack.name; }

class Framing : public testing::TestWithParam<Attack> {};

TEST_P(Framing, IsRefusedOnceAndTheConnectionEnds) {
  ServerLimits limits;
  limits.header_bytes = 4096;
  limits.target_bytes = 1000;
  TestServer server(make_router(), limits);
  Peer peer(server.port());
  // What would be smuggled in follows at once.
  peer.say(GetParam().request + "GET / HTTP/1.1\r\nHost: smuggled\r\n\r\n");
  const std::string answers = peer.hear_all();
  EXPECT_TRUE(answers.starts_with("HTTP/1.1 " + std::to_string(GetParam().status) + " ")) << answers;
  EXPECT_EQ(answers.find("HTTP/1.1", 1), std::string::npos) << answers;
  EXPECT_NE(answers.find("Connection: close\r\n"), std::string::npos) << answers;
  EXPECT_EQ(answers.find("[]"), std::string::npos) << answers;
}

const std::string kPost = "POST / HTTP/1.1\r\nHost: x\r\n";

INSTANTIATE_TEST_SUITE_P(
    Attacks, Framing,
    testing::Values(
        Attack{"LengthAndChunked", kPost + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
               400},
        Attack{"ChunkedAndLength", kPost + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
               400},
        Attack{"TwoDifferentLengths", kPost + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400},
        Attack{"TheSameLengthTwice", kPost + "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", 400},
        Attack{"AListOfLengths", kPost + "Content-Length: 3, 3\r\n\r\nabc", 400},
        Attack{"ASignedLength", kPost + "Content-Length: +3\r\n\r\nabc", 400},
        Attack{"ANegativeLength", kPost + "Content-Length: -3\r\n\r\nabc", 400},
        Attack{"AHexadecimalLength", kPost + "Content-Length: 0x3\r\n\r\nabc", 400},
        Attack{"AnEmptyLength", kPost + "Content-Length:\r\n\r\nabc", 400},
        Attack{"ALengthBeyondAllNumbers", kPost + "Content-Length: 99999999999999999999999\r\n\r\nabc", 400},
        Attack{"ChunkedTwice",
               kPost + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
        Attack{"ChunkedAndThenIdentity",
               kPost + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", 400},
        Attack{"AnotherCoding", kPost + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501},
        Attack{"ACodingThatOnlyLooksChunked", kPost + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501},
        Attack{"AnEmptyCoding", kPost + "Transfer-Encoding:\r\n\r\n0\r\n\r\n", 501},
        Attack{"ChunkedInHttp10", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
        Attack{"ASpaceBeforeTheColon", kPost + "Content-Length : 3\r\n\r\nabc", 400},
        Attack{"ATabInAName", kPost + "Content\tLength: 3\r\n\r\nabc", 400},
        Attack{"AFoldedLine", kPost + "X: a\r\n b\r\nContent-Length: 0\r\n\r\n", 400},
        Attack{"AFoldedFirstLine", "POST / HTTP/1.1\r\n Host: x\r\nHost: x\r\n\r\n", 400},
        Attack{"ABareLineFeed", kPost + "X: a\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
        Attack{"OnlyBareLineFeeds", "GET / HTTP/1.1\nHost: x\n\n", 400},
        Attack{"ABareCarriageReturn", kPost + "X: a\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
        Attack{"NulInAValue", kPost + std::string("X: a\0b\r\n\r\n", 10), 400},
        Attack{"NulInAName", kPost + std::string("X\0Y: b\r\n\r\n", 10), 400},
        Attack{"DelInAValue", kPost + "X: a\x7f\r\n\r\n", 400},
        Attack{"NoColon", kPost + "Transfer-Encoding chunked\r\n\r\n", 400},
        Attack{"NoName", kPost + ": x\r\n\r\n", 400}, Attack{"NoHost", "GET / HTTP/1.1\r\n\r\n", 400},
        Attack{"TwoHosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
        Attack{"AnUnknownExpectation", kPost + "Expect: magic\r\nContent-Length: 3\r\n\r\nabc", 417},
        Attack{"AnotherVersion", "GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505},
        Attack{"NoVersion", "GET /\r\nHost: x\r\n\r\n", 400},
        Attack{"TwoSpaces", "GET  / HTTP/1.1\r\nHost: x\r\n\r\n", 400},
        Attack{"NotHttpAtAll", "\x16\x03\x01\x02\x01\x01\xfc\x03\x03", 400},
        Attack{"AMethodThatIsNoToken", "G(T / HTTP/1.1\r\nHost: x\r\n\r\n", 400},
        Attack{"TooLongAHeader", kPost + "X: " + std::string(5000, 'a') + "\r\n\r\n", 431},
        Attack{"AnEndlessHeader", kPost + "X: " + std::string(100'000, 'a'), 431},
        Attack{"TooManyHeaders",
               [] {
                 std::string request = kPost;
                 for (int i = 0; i < 250; ++i) request += "a: b\r\n";
                 return request + "\r\n";
               }(),
               431},
        Attack{"TooLongATarget", "GET /" + std::string(2000, 'a') + " HTTP/1.1\r\nHost: x\r\n\r\n", 414},
        Attack{"AnEndlessTarget", "GET /" + std::string(100'000, 'a'), 414}),
    [](const auto& info) { return info.param.name; });

class Chunks : public testing::TestWithParam<Attack> {};

TEST_P(Chunks, ABrokenCodingEndsTheConnection) {
  TestServer server(make_router());
  Peer peer(server.port());
  peer.say(kPost + "Transfer-Encoding: chunked\r\n\r\n" + GetParam().request +
           "\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: smuggled\r\n\r\n");
  peer.half_close();
  const std::string answers = peer.hear_all();
  EXPECT_TRUE(answers.starts_with("HTTP/1.1 400 ")) << answers;
  EXPECT_EQ(answers.find("HTTP/1.1", 1), std::string::npos) << answers;
}

INSTANTIATE_TEST_SUITE_P(
    Attacks, Chunks,
    testing::Values(Attack{"NoSize", "\r\nabc", 400}, Attack{"NotHexadecimal", "g\r\nabc", 400},
                    Attack{"AHexPrefix", "0x3\r\nabc", 400}, Attack{"ASign", "+3\r\nabc", 400},
                    Attack{"ANegativeSize", "-3\r\nabc", 400},
                    Attack{"ASizeBeyondAllNumbers", "10000000000000003\r\nabc", 400},
                    Attack{"ABareLineFeedAfterTheSize", "3\nabc", 400},
                    Attack{"TooLittleData", "5\r\nabc", 400}, Attack{"TooMuchData", "2\r\nabc", 400},
                    Attack{"ABareLineFeedAfterTheData", "3\r\nabc\n0\r\n\r\n", 400},
                    Attack{"ALineFeedInTheExtension", "3;a\nb\r\nabc", 400},
                    Attack{"AnEndlessExtension", "3;" + std::string(20'000, 'a') + "\r\nabc", 400},
                    Attack{"AnEndlessTrailer", "0\r\nX: " + std::string(20'000, 'a') + "\r\n", 400},
                    Attack{"ABlankAfterTheSize", "3 \r\nabc", 400},
                    Attack{"ALastChunkInPieces",
                           "0\r\nh=\xc1"
                           "b",
                           400},
                    Attack{"AFoldedTrailer", "0\r\n X: y\r\n", 400},
                    Attack{"ABareLineFeedInTheTrailer", "0\r\nX: y\n", 400},
                    Attack{"ANulInTheTrailer", std::string("0\r\nX: \0\r\n", 9), 400},
                    Attack{"AnEndlessSize", std::string(20'000, '0') + "3\r\nabc", 400}),
    [](const auto& info) { return info.param.name; });

TEST(ChunkedBody, IsTheSameHoweverItIsCut) {
  TestServer server(make_router());
  const std::string coded =
      "3\r\nabc\r\n10 ;x=\"y\"\r\n0123456789abcdef\r\n00a;q\r\n----------\r\n0\r\nTrailer: dropped\r\n\r\n";
  for (std::size_t cut = 0; cut <= coded.size(); ++cut) {
    Peer peer(server.port());
    peer.say(kPost + "Transfer-Encoding: chunked\r\n\r\n" + coded.substr(0, cut));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    peer.say(coded.substr(cut));
    EXPECT_TRUE(peer.hear_answer().ends_with("[abc0123456789abcdef----------]")) << cut;
    peer.say("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_TRUE(peer.hear_answer().ends_with("[]")) << cut;
  }
}

TEST(Head, IsTheSameHoweverItIsCut) {
  TestServer server(make_router());
  const std::string request = "\r\nPOST / HTTP/1.1\r\nHost: x\r\nX:\r\nContent-Length:  3 \r\n\r\nabc";
  for (std::size_t cut = 0; cut <= request.size(); ++cut) {
    Peer peer(server.port());
    peer.say(request.substr(0, cut));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    peer.say(request.substr(cut));
    EXPECT_TRUE(peer.hear_answer().ends_with("[abc]")) << cut;
  }
}

TEST(Path, WhatCannotBeDecodedIs400AndTheConnectionGoesOn) {
  TestServer server(make_router());
  Peer peer(server.port());
  for (const char* path : {"/%", "/%zz", "/%00", "/%0d%0a", "/?a=%f", "nowhere", "/a#b"}) {
    peer.say(std::string("GET ") + path + " HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_TRUE(peer.hear_answer().starts_with("HTTP/1.1 400 ")) << path;
  }
}

}  // namespace
}  // namespace warren::http
