#include "api/podflare/event_lines.h"

#include <boost/json/serialize.hpp>
#include <charconv>
#include <utility>

#include "api/failure.h"
#include "api/podflare/json_string.h"
#include "base/base64.h"
#include "base/utf8.h"

namespace warren::api::podflare {
namespace {

void append_number(std::string& out, std::int64_t number) {
  std::array<char, 24> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  out.append(digits.data(), end);
}

std::string_view name_of(service::OutputStream stream) {
  return stream == service::OutputStream::kStdout ? "stdout" : "stderr";
}

std::string text_json(const std::string& text) { return boost::json::serialize(boost::json::string(text)); }

std::string python_error_json(const service::PythonError& error) {
  return R"({"name":)" + text_json(error.name) + R"(,"value":)" + text_json(error.value) +
         R"(,"traceback":)" + text_json(error.traceback) + "}";
}

// What an exit says beside its code; what is usual is left out.
std::string exit_members(const service::Finished& finished) {
  std::string out = R"(,"duration_ms":)";
  append_number(out, finished.duration.count());
  const auto flag = [&](std::string_view name, bool set) {
    if (!set) return;
    out += ",\"";
    out += name;
    out += "\":true";
  };
  flag("timed_out", finished.timed_out);
  flag("cancelled", finished.cancelled);
  flag("interrupted", finished.interrupted);
  flag("oom", finished.oom);
  flag("restarted", finished.restarted);
  if (!finished.died.empty()) out += R"(,"died":)" + text_json(finished.died);
  return out;
}

}  // namespace

std::string EventLines::lines(const service::ExecEvent& event) {
  std::string out;
  if (const auto* piece = std::get_if<service::Output>(&event)) {
    output(out, *piece);
  } else if (const auto* bundle = std::get_if<service::Bundle>(&event)) {
    out = bundle->is_result ? R"({"type":"result","data":)" : R"({"type":"display","data":)";
    out += boost::json::serialize(bundle->data);
    close_line(out);
  } else if (const auto* error = std::get_if<service::PythonError>(&event)) {
    out = R"({"type":"error","data":)" + python_error_json(*error);
    close_line(out);
  } else if (const auto* finished = std::get_if<service::Finished>(&event)) {
    flush(out);
    out += R"({"type":"exit","data":)";
    append_number(out, finished->exit_code);
    out += exit_members(*finished);
    close_line(out);
  }
  return out;
}

std::string EventLines::broken(const Error& error) {
  std::string out;
  flush(out);
  out += R"({"type":"error","data":)" +
         python_error_json(
             {.name = std::string(warren::name_of(error.kind())), .value = told(error), .traceback = ""}) +
         R"(,"fatal":true)";
  close_line(out);
  return out;
}

void EventLines::output(std::string& out, const service::Output& piece) {
  if (piece.late) {
    data_line(out, piece.stream, piece.bytes, valid_utf8_prefix(piece.bytes), R"(,"late":true)");
    return;
  }
  auto& begun = begun_.at(static_cast<std::size_t>(piece.stream));
  std::string joined;
  std::string_view bytes = piece.bytes;
  if (!begun.empty()) {
    joined = std::exchange(begun, {}) + piece.bytes;
    bytes = joined;
  }
  const auto valid = valid_utf8_prefix(bytes);
  if (is_begun_character(bytes.substr(valid))) {
    begun = bytes.substr(valid);
    bytes = bytes.substr(0, valid);
  }
  if (!bytes.empty()) data_line(out, piece.stream, bytes, valid, "");
}

void EventLines::flush(std::string& out) {
  for (const auto stream : {service::OutputStream::kStdout, service::OutputStream::kStderr}) {
    const auto bytes = std::exchange(begun_.at(static_cast<std::size_t>(stream)), {});
    if (!bytes.empty()) data_line(out, stream, bytes, 0, "");  // never a whole character
  }
}

void EventLines::data_line(std::string& out, service::OutputStream stream, std::string_view bytes,
                           std::size_t valid, std::string_view extra) {
  out.reserve(out.size() + bytes.size() + bytes.size() / 2 + 128);
  out += R"({"type":")";
  out += name_of(stream);
  if (valid == bytes.size()) {
    out += R"(","data":)";
    append_json_string(out, bytes);
  } else {
    out += R"(","data_base64":")";
    append_base64(out, bytes);
    out += '"';
  }
  out += extra;
  close_line(out);
}

void EventLines::close_line(std::string& out) {
  out += R"(,"seq":)";
  append_number(out, static_cast<std::int64_t>(seq_++));
  out += R"(,"ts":)";
  append_number(out, wall_now().time_since_epoch().count());
  out += "}\n";
}

}  // namespace warren::api::podflare
