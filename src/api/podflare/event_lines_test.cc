#include "api/podflare/event_lines.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <sstream>
#include <vector>

namespace warren::api::podflare {
namespace {

namespace json = boost::json;
using namespace std::string_literals;

std::vector<json::object> parsed(const std::string& lines) {
  std::vector<json::object> out;
  std::istringstream stream(lines);
  std::string line;
  while (std::getline(stream, line)) out.push_back(json::parse(line).as_object());
  return out;
}

// In the order in which they are written here, which `+` would not promise.
std::string joined(std::initializer_list<std::string> pieces) {
  std::string all;
  for (const auto& piece : pieces) all += piece;
  return all;
}

service::Finished finished(int exit_code) {
  service::Finished end;
  end.exit_code = exit_code;
  return end;
}

service::Output out(std::string bytes) { return {service::OutputStream::kStdout, std::move(bytes)}; }

TEST(EventLines, NumberThemselvesAndEndWithTheExit) {
  EventLines lines;
  const auto text = joined({lines.lines(out("a\n")), lines.lines(finished(3))});
  const auto events = parsed(text);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].at("type"), "stdout");
  EXPECT_EQ(events[0].at("data"), "a\n");
  EXPECT_EQ(events[0].at("seq"), 0);
  EXPECT_GT(events[0].at("ts").as_int64(), 1'600'000'000'000);
  EXPECT_EQ(events[1].at("type"), "exit");
  EXPECT_EQ(events[1].at("data"), 3);
  EXPECT_EQ(events[1].at("seq"), 1);
  EXPECT_FALSE(events[1].contains("timed_out"));
}

TEST(EventLines, CompleteACharacterThatWasCut) {
  EventLines lines;
  EXPECT_EQ(lines.lines(out("\xf0\x9f")), "");
  const auto events = parsed(lines.lines(out("\xa4\xa3!")));

  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].at("data"), "\xf0\x9f\xa4\xa3!");
}

TEST(EventLines, KeepTheStreamsApart) {
  EventLines lines;
  EXPECT_EQ(lines.lines(out("\xc3")), "");
  const auto events = parsed(
      joined({lines.lines(service::Output{service::OutputStream::kStderr, "e"}), lines.lines(out("\xa9"))}));
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].at("data"), "e");
  EXPECT_EQ(events[1].at("data"), "é");
}

TEST(EventLines, GiveBytesThatAreNoTextAsBase64AndLoseNoneAtTheEnd) {
  EventLines lines;
  const auto events = parsed(
      joined({lines.lines(out("\xff\xfe\0"s)), lines.lines(out("x\xe2\x82")), lines.lines(finished(0))}));
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events[0].at("data_base64"), "//4A");
  EXPECT_EQ(events[1].at("data"), "x");
  EXPECT_EQ(events[2].at("data_base64"), "4oI=");
  EXPECT_EQ(events[3].at("type"), "exit");
}

TEST(EventLines, TellBundlesAndErrors) {
  EventLines lines;
  const auto events = parsed(joined({lines.lines(service::Bundle{{{"text/plain", "4"}}, true}),
                                     lines.lines(service::Bundle{{{"image/png", "AA"}}, false}),
                                     lines.lines(service::PythonError{"E", "v \"q\"", "line\nline"})}));
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0].at("type"), "result");
  EXPECT_EQ(events[0].at("data").at("text/plain"), "4");
  EXPECT_EQ(events[1].at("type"), "display");
  EXPECT_EQ(events[2].at("data").at("value"), "v \"q\"");
  EXPECT_FALSE(events[2].contains("fatal"));
}

TEST(EventLines, TellHowACallEnded) {
  EventLines lines;
  auto end = finished(137);
  end.restarted = true;
  end.died = "killed by SIGKILL";
  end.oom = true;
  const auto exit = parsed(lines.lines(end)).at(0);

  EXPECT_EQ(exit.at("died"), "killed by SIGKILL");
  EXPECT_EQ(exit.at("oom"), true);
  EXPECT_EQ(exit.at("restarted"), true);
}

TEST(EventLines, OfABrokenCallEndWithAFatalErrorAndNoExit) {
  EventLines lines;
  const auto events =
      parsed(joined({lines.lines(out("\xc3")), lines.broken({ErrorKind::kUnavailable, "it is gone"})}));
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[1].at("type"), "error");
  EXPECT_EQ(events[1].at("fatal"), true);
  EXPECT_EQ(events[1].at("data").at("value"), "it is gone");
}

}  // namespace
}  // namespace warren::api::podflare
