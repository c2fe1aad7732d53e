// The resolver over loopback, before a nameserver of the test's own.
#include "gateway/resolver.h"

#include <gmock/gmock.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <map>
#include <optional>

namespace warren::gateway {
namespace {

namespace asio = boost::asio;
using Udp = asio::ip::udp;
using Tcp = asio::ip::tcp;
using namespace std::string_literals;

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);

DnsAddress at(const char* address, int life = 60) { return {*IpAddress::parse(address), Seconds(life)}; }

std::string ask_for(const std::string& name, std::uint8_t type = 1) {
  std::string packet = "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00"s;
  for (std::size_t begin = 0; begin <= name.size();) {
    const auto end = std::min(name.find('.', begin), name.size());
    packet += static_cast<char>(end - begin) + name.substr(begin, end - begin);
    begin = end + 1;
  }
  return packet + "\0\0"s + static_cast<char>(type) + "\0\x01"s;
}

struct Heard {
  int code = -1;
  int count = -1;
  std::string bytes;
};

Heard heard(std::string bytes) {
  if (bytes.size() < 12) return {};
  return {.code = bytes[3] & 0x0f, .count = static_cast<unsigned char>(bytes[7]), .bytes = std::move(bytes)};
}

class ResolverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    nameserver_ = std::make_unique<Udp::socket>(context_, Udp::endpoint(asio::ip::address_v4::loopback(), 0));
    asio::co_spawn(context_, serve(), asio::detached);
    const IpAddress loopback = *IpAddress::parse("127.0.0.1");
    resolver_ = std::make_shared<Resolver>(ResolverOptions{
        .listen = {loopback},
        .port = 0,
        .nameservers = {.addresses = {loopback}, .port = nameserver_->local_endpoint().port(), .patience = Millis(100)},
        .allowed = {*IpRange::parse("10.7.0.0/16")},
        .idle = Millis(300)});
    ASSERT_TRUE(resolver_->start(context_.get_executor()));
  }

  // Answers what is in `names`; of others that there are none, and nothing at all of "silent".
  Task<void> serve() {
    std::array<char, 512> packet{};
    while (true) {
      Udp::endpoint client;
      const auto [error, size] = co_await nameserver_->async_receive_from(asio::buffer(packet), client, kAwait);
      if (error) co_return;
      const auto question = read_question({packet.data(), size});
      if (!question || question->name == "silent.example.com") continue;
      asked_.push_back(question->name);
      const auto known = names_.find(question->name);
      std::vector<DnsAddress> addresses;
      if (known != names_.end())
        for (const auto& one : known->second)
          if (one.address.family() == question->family) addresses.push_back(one);
      const auto code = known == names_.end() ? DnsCode::kNameError : DnsCode::kNoError;
      const auto answer = write_answer(*question, code, addresses, kMostUdpBytes);
      co_await nameserver_->async_send_to(asio::buffer(answer), client, kAwait);
    }
  }

  template <typename T>
  T run(Task<T> task) {
    std::optional<T> result;
    asio::co_spawn(
        context_,
        [](Task<T> inner, std::optional<T>& into) -> Task<void> { into = co_await std::move(inner); }(
            std::move(task), result),
        asio::detached);
    context_.restart();
    const auto end = Clock::now() + Seconds(20);
    while (!result && Clock::now() < end) context_.run_one_for(Millis(100));
    EXPECT_TRUE(result) << "nothing has come";
    return result.value_or(T());
  }

  Heard by_udp(const std::string& packet) { return heard(run(send_udp(packet))); }
  Task<std::string> send_udp(std::string packet) {
    Udp::socket socket(context_, Udp::endpoint(asio::ip::address_v4::loopback(), 0));
    const Udp::endpoint to(asio::ip::address_v4::loopback(), resolver_->port());
    co_await socket.async_send_to(asio::buffer(packet), to, kAwait);
    std::string answer(1024, '\0');
    Udp::endpoint from;
    const auto [error, size] = co_await socket.async_receive_from(asio::buffer(answer), from, kAwait);
    answer.resize(error ? 0 : size);
    co_return answer;
  }

  // What comes for several questions on one connection, until it ends.
  Task<std::vector<std::string>> send_tcp(std::vector<std::string> packets) {
    Tcp::socket socket(context_);
    co_await socket.async_connect({asio::ip::address_v4::loopback(), resolver_->port()}, kAwait);
    std::vector<std::string> answers;
    for (const auto& packet : packets) {
      const std::string whole = "\0"s + static_cast<char>(packet.size()) + packet;
      co_await asio::async_write(socket, asio::buffer(whole), kAwait);
      std::array<unsigned char, 2> length{};
      const auto [error, got] = co_await asio::async_read(socket, asio::buffer(length), kAwait);
      if (error) co_return answers;
      std::string answer(static_cast<std::size_t>(length[0]) << 8U | length[1], '\0');
      co_await asio::async_read(socket, asio::buffer(answer), kAwait);
      answers.push_back(std::move(answer));
    }
    char byte = 0;
    co_await asio::async_read(socket, asio::buffer(&byte, 1), kAwait);
    co_return answers;
  }

  asio::io_context context_{1};
  std::unique_ptr<Udp::socket> nameserver_;
  std::shared_ptr<Resolver> resolver_;
  std::map<std::string, std::vector<DnsAddress>> names_{
      {"one.example.com", {at("203.0.113.7", 90), at("203.0.113.8"), at("2001:db8::7")}},
      {"rebinding.example.com", {at("10.1.1.1"), at("169.254.169.254"), at("127.0.0.1")}},
      {"both.example.com", {at("10.1.1.1"), at("203.0.113.9")}},
      {"inner.example.com", {at("10.7.0.1")}},
      {"empty.example.com", {}}};
  std::vector<std::string> asked_;
};

TEST_F(ResolverTest, AnswersWithWhatTheNameserverSays) {
  const Heard one = by_udp(ask_for("One.Example.com"));
  EXPECT_EQ(one.code, 0);
  EXPECT_EQ(one.count, 2);
  EXPECT_NE(one.bytes.find("\xcb\x00\x71\x07"s), std::string::npos);
  EXPECT_NE(one.bytes.find("\x03One\x07" "Example"s), std::string::npos) << "as it was asked";
  EXPECT_EQ(by_udp(ask_for("one.example.com", 28)).count, 1);
  EXPECT_EQ(by_udp(ask_for("nothing.example.com")).code, 3);
  const Heard empty = by_udp(ask_for("empty.example.com"));
  EXPECT_EQ(empty.code, 0);
  EXPECT_EQ(empty.count, 0);
}

TEST_F(ResolverTest, LeadsNowhereWhereNoSandboxMayGo) {
  const Heard rebinding = by_udp(ask_for("rebinding.example.com"));
  EXPECT_EQ(rebinding.code, 0);
  EXPECT_EQ(rebinding.count, 0);
  const Heard both = by_udp(ask_for("both.example.com"));
  EXPECT_EQ(both.count, 1);
  EXPECT_NE(both.bytes.find("\xcb\x00\x71\x09"s), std::string::npos);
  EXPECT_EQ(by_udp(ask_for("inner.example.com")).count, 1) << "the operator has opened it";
  EXPECT_EQ(by_udp(ask_for("127.0.0.1")).count, 0);
  EXPECT_EQ(by_udp(ask_for("localhost")).count, 0);
}

TEST_F(ResolverTest, AsksNobodyWhatItKnowsItself) {
  EXPECT_EQ(by_udp(ask_for("one.example.com", 16)).code, 0) << "a text";
  EXPECT_EQ(by_udp(ask_for("no host!")).code, 3);
  EXPECT_THAT(asked_, ::testing::IsEmpty());
}

TEST_F(ResolverTest, SaysWhenNobodyAnswers) { EXPECT_EQ(by_udp(ask_for("silent.example.com")).code, 2); }

TEST_F(ResolverTest, AnswersSeveralOnAConnectionAndEndsASilentOne) {
  const auto answers = run(send_tcp({ask_for("one.example.com"), ask_for("nothing.example.com")}));
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(heard(answers[0]).count, 2);
  EXPECT_EQ(heard(answers[1]).code, 3);
  EXPECT_EQ(run(send_tcp({"nonsense"})).size(), 0U);
}

TEST(SharesTest, NobodyTakesAllThereIs) {
  const auto shares = std::make_shared<Shares>(2, 3);
  const IpAddress one = *IpAddress::parse("198.18.16.1"), other = *IpAddress::parse("198.18.16.2");
  auto first = shares->take(one);
  const auto second = shares->take(one);
  EXPECT_FALSE(shares->take(one)) << "as many as one may have";
  const auto third = shares->take(other);
  EXPECT_TRUE(third);
  EXPECT_FALSE(shares->take(other)) << "as many as all may have";
  first.reset();
  EXPECT_TRUE(shares->take(one));
}

}  // namespace
}  // namespace warren::gateway
