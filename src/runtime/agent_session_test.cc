// A hostile agent, frame by frame.
#include "runtime/agent_session.h"

#include <gtest/gtest.h>

#include "wire/protocol.h"

namespace warren::runtime {
namespace {

using wire::Channel;
using wire::FrameType;

class AgentSessionTest : public ::testing::Test {
 protected:
  Result<void> receive(const std::string& bytes) { return session.received(std::as_bytes(std::span(bytes))); }
  Result<void> receive(FrameType type, std::uint32_t stream, Channel channel, const std::string& payload) {
    return receive(wire::make_frame(type, stream, channel, payload));
  }
  Result<void> hello() { return receive(FrameType::kHello, 0, Channel::kInput, R"({"version":1})"); }
  // A session with one open stream.
  std::shared_ptr<SessionStream> greeted() {
    EXPECT_TRUE(hello());
    return session.open("{}").value();
  }

  AgentSession session;
};

TEST_F(AgentSessionTest, AStreamsEventsComeInOrder) {
  const auto stream = greeted();
  EXPECT_TRUE(receive(FrameType::kData, 1, Channel::kOutput, "a"));
  EXPECT_TRUE(receive(FrameType::kData, 1, Channel::kOutput, "b"));
  EXPECT_TRUE(receive(FrameType::kData, 1, Channel::kError, "c"));
  EXPECT_TRUE(receive(FrameType::kNotice, 1, Channel::kInput, "{}"));
  EXPECT_TRUE(receive(FrameType::kEnd, 1, Channel::kOutput, ""));
  EXPECT_TRUE(receive(FrameType::kClose, 1, Channel::kInput, "{}"));
  EXPECT_EQ(session.take(*stream)->bytes, "ab");
  EXPECT_EQ(session.take(*stream)->bytes, "c");
  EXPECT_EQ(session.take(*stream)->type, FrameType::kNotice);
  EXPECT_EQ(session.take(*stream)->type, FrameType::kClose);
  EXPECT_FALSE(session.take(*stream));
  EXPECT_FALSE(receive(FrameType::kClose, 1, Channel::kInput, "{}")) << "closed twice";
}

TEST_F(AgentSessionTest, NothingComesBeforeTheHelloAndNoSecondOne) {
  const auto stream = session.open("{}").value();
  EXPECT_FALSE(receive(FrameType::kNotice, 1, Channel::kInput, "{}"));
}

TEST_F(AgentSessionTest, TwoHellosAreRefused) {
  EXPECT_TRUE(hello());
  EXPECT_FALSE(hello());
}

TEST_F(AgentSessionTest, AnotherVersionIsRefused) {
  EXPECT_FALSE(receive(FrameType::kHello, 0, Channel::kInput, R"({"version":2})"));
}

TEST_F(AgentSessionTest, WhatOnlyAHostSendsIsRefused) {
  for (const auto type : {FrameType::kOpen, FrameType::kControl, FrameType::kCancel, FrameType::kReset}) {
    AgentSession other;
    session = std::move(other);
    greeted();
    const bool empty = type == FrameType::kCancel || type == FrameType::kReset;
    EXPECT_FALSE(receive(type, 1, Channel::kInput, empty ? "" : "{}")) << static_cast<int>(type);
  }
}

TEST_F(AgentSessionTest, AStreamThatWasNeverOpenedIsRefused) {
  greeted();
  EXPECT_FALSE(receive(FrameType::kData, 2, Channel::kOutput, "x"));
}

TEST_F(AgentSessionTest, DataBeyondTheWindowIsRefused) {
  const auto stream = greeted();
  const std::string piece(wire::kMaxPayload, 'x');
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(receive(FrameType::kData, 1, Channel::kOutput, piece));
  EXPECT_FALSE(receive(FrameType::kData, 1, Channel::kOutput, piece));
}

TEST_F(AgentSessionTest, WhatIsTakenIsGrantedAgain) {
  const auto stream = greeted();
  const std::string piece(wire::kMaxPayload, 'x');
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(receive(FrameType::kData, 1, Channel::kOutput, piece)) << i;
    ASSERT_TRUE(session.take(*stream));
  }
}

TEST_F(AgentSessionTest, AFloodOfTinyFramesIsBounded) {
  const auto stream = greeted();
  std::size_t frames = 0;
  while (frames < 1'000'000) {
    const auto channel = frames % 2 == 0 ? Channel::kOutput : Channel::kError;
    if (!receive(FrameType::kData, 1, channel, "x")) break;
    ++frames;
  }
  EXPECT_LT(frames, 40'000U);
  EXPECT_LT(stream->items.size(), 40'000U);
}

TEST_F(AgentSessionTest, AFloodOfNoticesIsBounded) {
  greeted();
  std::size_t notices = 0;
  while (notices < 1'000'000 && receive(FrameType::kNotice, 1, Channel::kInput, "{}")) ++notices;
  EXPECT_LT(notices, 20'000U);
}

TEST_F(AgentSessionTest, EmptyDataAndDataOnTheInputAreRefused) {
  greeted();
  EXPECT_FALSE(receive(FrameType::kData, 1, Channel::kOutput, ""));
}

TEST_F(AgentSessionTest, DataAfterItsEndIsRefused) {
  greeted();
  EXPECT_TRUE(receive(FrameType::kEnd, 1, Channel::kOutput, ""));
  EXPECT_FALSE(receive(FrameType::kData, 1, Channel::kOutput, "x"));
}

TEST_F(AgentSessionTest, CreditBeyondTheLimitIsRefused) {
  greeted();
  EXPECT_TRUE(receive(wire::make_credit(1, Channel::kInput, wire::kInitialWindow)));
  EXPECT_FALSE(receive(wire::make_credit(1, Channel::kInput, 1)));
}

TEST_F(AgentSessionTest, WhatWasUnderWayWhenAStreamWasResetIsIgnoredButNotForEver) {
  const auto stream = greeted();
  EXPECT_TRUE(session.reset(*stream));
  const std::string piece(wire::kMaxPayload, 'x');
  for (int i = 0; i < 12; ++i) EXPECT_TRUE(receive(FrameType::kData, 1, Channel::kOutput, piece));
  bool refused = false;
  for (int i = 0; i < 200 && !refused; ++i) refused = !receive(FrameType::kData, 1, Channel::kOutput, piece);
  EXPECT_TRUE(refused);
}

TEST_F(AgentSessionTest, AMessageWithoutEndIsRefused) {
  greeted();
  std::size_t frames = 0;
  while (frames < 100 && receive(FrameType::kMore, 1, Channel::kInput, std::string(wire::kMaxPayload, ' ')))
    ++frames;
  EXPECT_EQ(frames, wire::kMaxMessage / wire::kMaxPayload);
}

TEST_F(AgentSessionTest, AnAgentThatDoesNotReadIsLimitedAndThenGivenUp) {
  EXPECT_TRUE(hello());
  const std::string request(wire::kMaxMessage, ' ');
  int opened = 0;
  std::shared_ptr<SessionStream> stream;
  for (; opened < 100; ++opened) {
    auto result = session.open(request);
    if (!result) {
      EXPECT_EQ(result.error().kind(), ErrorKind::kLimited);
      break;
    }
    stream = *result;
  }
  EXPECT_LT(opened, 6);
  bool given_up = false;
  for (int i = 0; i < 100 && !given_up; ++i) given_up = !session.send_control(*stream, request);
  EXPECT_TRUE(given_up);
}

TEST_F(AgentSessionTest, TooManyStreamsAndTooLongRequestsAreRefused) {
  EXPECT_EQ(session.open(std::string(wire::kMaxMessage + 1, ' ')).error().kind(), ErrorKind::kTooLarge);
  for (std::size_t i = 0; i < wire::kMaxStreams; ++i) EXPECT_TRUE(session.open("{}"));
  EXPECT_EQ(session.open("{}").error().kind(), ErrorKind::kLimited);
}

}  // namespace
}  // namespace warren::runtime
