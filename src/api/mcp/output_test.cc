#include "api/mcp/output.h"

#include <gtest/gtest.h>

#include "api/mcp/accept.h"
#include "api/mcp/sse.h"

namespace warren::api::mcp {
namespace {

TEST(Capture, IsCutInTheMiddleWithoutLosingCount) {
  Capture capture;
  std::string whole;
  for (int i = 0; i < 5000; ++i) {
    const std::string line = std::to_string(i) + "€\n";
    capture.add(line);
    whole += line;
  }
  const std::string text = capture.text("/x");
  const auto mark = text.find("\n[... ");
  const auto after = text.find("...]\n");
  ASSERT_NE(mark, std::string::npos);
  EXPECT_TRUE(whole.starts_with(text.substr(0, mark)));
  EXPECT_TRUE(whole.ends_with(text.substr(after + 5)));
  const std::size_t told = std::stoul(text.substr(mark + 6));
  EXPECT_EQ(told, whole.size() - mark - (text.size() - after - 5));

  Capture small;
  small.add(std::string(Capture::kLimit, 'a'));
  EXPECT_FALSE(small.truncated());
  EXPECT_EQ(small.text("/x"), std::string(Capture::kLimit, 'a'));
}

TEST(Accept, StarsMeanJsonAndEventsGoByName) {
  EXPECT_TRUE(read_accept(std::nullopt).json);
  EXPECT_TRUE(read_accept("*/*").json);
  EXPECT_FALSE(read_accept("*/*").events);
  EXPECT_TRUE(read_accept("application/json, text/event-stream").events);
  EXPECT_FALSE(read_accept("text/event-stream").json);
  EXPECT_FALSE(read_accept("application/json;q=0, text/event-stream").json);
  EXPECT_FALSE(read_accept("text/html").json);
}

TEST(Sse, EventsAreReadHoweverTheyAreCut) {
  const std::string stream =
      sse_opening("1.0") + sse_event("1.1", "{\"a\":1}") + ": \n\n" + "data: {\"b\":\r\ndata: 2}\r\n\r\n";
  for (std::size_t piece = 1; piece < stream.size(); ++piece) {
    SseReader reader(1000);
    std::vector<std::string> events;
    for (std::size_t at = 0; at < stream.size(); at += piece) {
      reader.add(std::string_view(stream).substr(at, piece));
      while (auto event = reader.next()) events.push_back(*event);
    }
    EXPECT_EQ(events, (std::vector<std::string>{"{\"a\":1}", "{\"b\":\n2}"}));
  }
  SseReader small(10);
  small.add(std::string(100, 'x'));
  EXPECT_FALSE(small.next());
  EXPECT_TRUE(small.overflowed());
}

}  // namespace
}  // namespace warren::api::mcp
