#include <gtest/gtest.h>

#include <string>

#include "wire/assembler.h"
#include "wire/frame.h"
#include "wire/outbox.h"
#include "wire/protocol.h"

namespace warren::wire {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string raw(std::uint32_t length, unsigned type, unsigned channel, unsigned padding,
                std::uint32_t stream) {
  std::string bytes;
  for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<char>(length >> (8 * i)));
  bytes.push_back(static_cast<char>(type));
  bytes.push_back(static_cast<char>(channel));
  bytes.push_back(static_cast<char>(padding & 255));
  bytes.push_back(static_cast<char>(padding >> 8));
  for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<char>(stream >> (8 * i)));
  return bytes;
}

bool is_refused(const std::string& header) {
  return !decode(std::span<const std::byte, kHeaderSize>(bytes_of(header).data(), kHeaderSize));
}

TEST(FrameTest, AHeaderIsDecodedAsItWasEncoded) {
  const Header header{1234, FrameType::kData, Channel::kError, 0xABCDEF01};
  const auto decoded = decode(encode(header));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->length, 1234U);
  EXPECT_EQ(decoded->type, FrameType::kData);
  EXPECT_EQ(decoded->channel, Channel::kError);
  EXPECT_EQ(decoded->stream, 0xABCDEF01U);
}

TEST(FrameTest, WhatNoPeerSendsIsRefused) {
  EXPECT_FALSE(is_refused(raw(1, 5, 2, 0, 1)));
  EXPECT_TRUE(is_refused(raw(kMaxPayload + 1, 5, 1, 0, 1))) << "too long";
  EXPECT_TRUE(is_refused(raw(1, 0, 0, 0, 1))) << "no type";
  EXPECT_TRUE(is_refused(raw(1, 12, 0, 0, 1))) << "unknown type";
  EXPECT_TRUE(is_refused(raw(1, 5, 3, 0, 1))) << "unknown channel";
  EXPECT_TRUE(is_refused(raw(1, 2, 1, 0, 1))) << "a channel where there is none";
  EXPECT_TRUE(is_refused(raw(1, 5, 1, 1, 1))) << "padding";
  EXPECT_TRUE(is_refused(raw(1, 5, 1, 256, 1))) << "padding";
  EXPECT_TRUE(is_refused(raw(1, 5, 1, 0, 0))) << "stream 0";
  EXPECT_TRUE(is_refused(raw(1, 1, 0, 0, 1))) << "a hello on a stream";
  EXPECT_TRUE(is_refused(raw(1, 6, 0, 0, 1))) << "an end with a payload";
  EXPECT_TRUE(is_refused(raw(1, 9, 0, 0, 1))) << "a cancel with a payload";
  EXPECT_TRUE(is_refused(raw(1, 10, 0, 0, 1))) << "a reset with a payload";
  EXPECT_TRUE(is_refused(raw(3, 7, 0, 0, 1))) << "a credit of three bytes";
}

TEST(FrameTest, FramesComeOutHoweverTheBytesAreCut) {
  std::string stream = make_frame(FrameType::kOpen, 1, Channel::kInput, "{}");
  stream += make_frame(FrameType::kData, 1, Channel::kOutput, std::string(kMaxPayload, 'x'));
  stream += make_frame(FrameType::kCancel, 1, Channel::kInput, "");
  stream += make_frame(FrameType::kData, 2, Channel::kError, std::string(70'000, 'y'));
  for (const std::size_t cut :
       {std::size_t{1}, std::size_t{7}, std::size_t{4096}, std::size_t{100'000}, stream.size()}) {
    Decoder fed;
    Decoder filled;
    std::vector<Frame> from_fed;
    std::vector<Frame> from_filled;
    for (std::size_t at = 0; at < stream.size(); at += cut) {
      const auto piece = bytes_of(std::string_view(stream).substr(at, cut));
      fed.feed(piece);
      while (auto frame = fed.next().value()) from_fed.push_back(*std::move(frame));
      for (auto rest = piece; !rest.empty();) {
        const auto space = filled.space();
        const std::size_t first = std::min(rest.size(), space[0].size());
        std::copy_n(rest.begin(), first, space[0].begin());
        const std::size_t second = std::min(rest.size() - first, space[1].size());
        std::copy_n(rest.begin() + static_cast<std::ptrdiff_t>(first), second, space[1].begin());
        filled.commit(first + second);
        rest = rest.subspan(first + second);
        while (auto frame = filled.next().value()) from_filled.push_back(*std::move(frame));
      }
    }
    for (const auto* frames : {&from_fed, &from_filled}) {
      ASSERT_EQ(frames->size(), 4U) << cut;
      EXPECT_EQ((*frames)[0].payload, "{}");
      EXPECT_EQ((*frames)[1].payload, std::string(kMaxPayload, 'x'));
      EXPECT_EQ((*frames)[2].header.type, FrameType::kCancel);
      EXPECT_EQ((*frames)[3].payload, std::string(70'000, 'y'));
      EXPECT_EQ((*frames)[3].header.channel, Channel::kError);
    }
  }
}

TEST(FrameTest, ABrokenDecoderStaysBroken) {
  Decoder decoder;
  decoder.feed(bytes_of(raw(1, 99, 0, 0, 1)));
  EXPECT_FALSE(decoder.next());
  decoder.feed(bytes_of(make_frame(FrameType::kOpen, 1, Channel::kInput, "{}")));
  EXPECT_FALSE(decoder.next());
}

TEST(WindowTest, NoMoreThanWhatIsThereIsSpentAndNoMoreThanTwiceIsGranted) {
  Window window;
  EXPECT_FALSE(window.spend(kInitialWindow + 1));
  EXPECT_TRUE(window.spend(kInitialWindow));
  EXPECT_FALSE(window.spend(1));
  EXPECT_FALSE(window.grant(0));
  EXPECT_TRUE(window.grant(2 * kInitialWindow));
  EXPECT_FALSE(window.grant(1));
  EXPECT_FALSE(window.grant(UINT32_MAX));
  EXPECT_EQ(window.available(), 2 * kInitialWindow);
}

TEST(AssemblerTest, ALongMessageIsCutAndPutTogetherAgain) {
  for (const std::size_t size :
       {std::size_t{1}, std::size_t{2}, kMaxPayload, kMaxPayload + 1, 3 * kMaxPayload, kMaxMessage}) {
    const std::string message(size, 'j');
    Outbox outbox;
    outbox.push_message(FrameType::kNotice, 7, message);
    Decoder decoder;
    while (!outbox.empty()) {
      std::array<iovec, 4> parts;
      const std::size_t used = outbox.gather(parts);
      // The first part only, and not all of it: as a socket may take it.
      ASSERT_GT(used, 0U);
      const std::size_t some = (parts[0].iov_len + 1) / 2;
      decoder.feed({static_cast<const std::byte*>(parts[0].iov_base), some});
      outbox.consume(some);
    }
    Assembler assembler;
    std::optional<std::string> whole;
    while (auto frame = decoder.next().value()) {
      EXPECT_FALSE(whole);
      whole = assembler.add(*std::move(frame)).value();
    }
    EXPECT_EQ(whole, message) << size;
  }
}

Frame frame(FrameType type, std::uint32_t stream, std::string payload) {
  return {{static_cast<std::uint32_t>(payload.size()), type, Channel::kInput, stream}, std::move(payload)};
}

TEST(AssemblerTest, MixedMessagesAreRefused) {
  Assembler assembler;
  EXPECT_EQ(assembler.add(frame(FrameType::kMore, 1, "{")).value(), std::nullopt);
  EXPECT_FALSE(assembler.add(frame(FrameType::kNotice, 2, "}")));
}

TEST(AssemblerTest, AMessageBeyondTheLimitIsRefused) {
  Assembler assembler;
  for (std::size_t size = 0; size < kMaxMessage; size += kMaxPayload)
    EXPECT_TRUE(assembler.add(frame(FrameType::kMore, 1, std::string(kMaxPayload, 'x'))));
  EXPECT_FALSE(assembler.add(frame(FrameType::kMore, 1, "x")));
}

}  // namespace
}  // namespace warren::wire
