// The answer of an exec as newline-delimited JSON, one event a line:
//
//   {"type":"stdout","data":"…","seq":0,"ts":1764510383123}
//
// Output that is not UTF-8 has "data_base64" in place of "data"; a character that is
// cut by the end of a piece is completed by the next piece. Joined in order, what the
// lines of a stream carry is that stream, byte for byte.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "service/sandboxes.h"

namespace warren::api::podflare {

class EventLines {
 public:
  // The lines that tell `event`, each with its newline; none while a piece of
  // output is only the beginning of a character.
  std::string lines(const service::ExecEvent& event);

  // The line of a call that cannot be told to its end: an "error" with "fatal". It
  // is the last; no "exit" follows it.
  std::string broken(const Error& error);

 private:
  void output(std::string& out, const service::Output& piece);
  void flush(std::string& out);
  // `valid` is the valid_utf8_prefix of `bytes`, which the caller knows.
  void data_line(std::string& out, service::OutputStream stream, std::string_view bytes, std::size_t valid,
                 std::string_view extra);
  void close_line(std::string& out);

  std::uint64_t seq_ = 0;
  std::array<std::string, 2> begun_;  // of each stream: the first bytes of a character
};

}  // namespace warren::api::podflare
