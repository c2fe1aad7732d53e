#include "service/agent_events.h"

#include <boost/json/value.hpp>
#include <limits>
#include <utility>

#include "base/utf8.h"

namespace warren::service {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxWordBytes = 4096;

std::unexpected<Error> nonsense() {
  return fail(ErrorKind::kInternal, "the sandbox's agent said something that it never says");
}

std::string string_of(const json::object& object, std::string_view name, std::size_t limit) {
  const json::value* value = object.if_contains(name);
  if (value == nullptr || !value->is_string()) return {};
  const json::string& text = value->get_string();
  return std::string(utf8_prefix(std::string_view(text.data(), text.size()), limit));
}

bool flag_of(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value != nullptr && value->is_bool() && value->get_bool();
}

std::optional<std::int64_t> number_of(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_int64()) return value->get_int64();
  return std::nullopt;
}

std::uint64_t count_of(const json::object& object, std::string_view name) {
  const auto number = number_of(object, name);
  return number && *number > 0 ? static_cast<std::uint64_t>(*number) : 0;
}

Result<std::optional<ExecEvent>> output_of(runtime::StreamData data) {
  if (data.channel == wire::Channel::kInput) return nonsense();
  const auto stream = data.channel == wire::Channel::kError ? OutputStream::kStderr : OutputStream::kStdout;
  return ExecEvent(Output{.stream = stream, .bytes = std::move(data.bytes)});
}

Result<std::optional<ExecEvent>> late_of(const json::object& late) {
  const std::string stream = string_of(late, "stream", kMaxWordBytes);
  if (stream != "stdout" && stream != "stderr") return nonsense();
  return ExecEvent(Output{.stream = stream == "stderr" ? OutputStream::kStderr : OutputStream::kStdout,
                          .bytes = string_of(late, "text", std::string::npos),
                          .late = true});
}

Result<std::optional<ExecEvent>> notice_of(json::object& notice) {
  if (notice.contains("started")) return std::nullopt;
  for (const std::string_view kind : {"late", "display", "result", "error"}) {
    json::value* value = notice.if_contains(kind);
    if (value == nullptr) continue;
    if (!value->is_object()) return nonsense();
    json::object& object = value->get_object();
    if (kind == "late") return late_of(object);
    if (kind == "error")
      return ExecEvent(PythonError{.name = string_of(object, "name", kMaxWordBytes),
                                   .value = string_of(object, "value", std::string::npos),
                                   .traceback = string_of(object, "traceback", std::string::npos)});
    return ExecEvent(Bundle{.data = std::move(object), .is_result = kind == "result"});
  }
  return nonsense();
}

Result<std::optional<ExecEvent>> finish_of(const json::object& close) {
  const auto exit_code = number_of(close, "exit_code");
  if (!exit_code || *exit_code < std::numeric_limits<int>::min() ||
      *exit_code > std::numeric_limits<int>::max())
    return nonsense();
  return ExecEvent(Finished{.exit_code = static_cast<int>(*exit_code),
                            .timed_out = flag_of(close, "timed_out"),
                            .cancelled = flag_of(close, "cancelled"),
                            .interrupted = flag_of(close, "interrupted"),
                            .restarted = flag_of(close, "restarted"),
                            .died = string_of(close, "died", kMaxWordBytes),
                            .oom = flag_of(close, "oom"),
                            .duration = Millis(static_cast<std::int64_t>(count_of(close, "duration_ms"))),
                            .stdout_bytes = count_of(close, "stdout_bytes"),
                            .stderr_bytes = count_of(close, "stderr_bytes"),
                            .stdout_file = string_of(close, "stdout_file", kMaxWordBytes),
                            .stderr_file = string_of(close, "stderr_file", kMaxWordBytes)});
}

}  // namespace

Result<std::optional<ExecEvent>> exec_event_of(runtime::StreamEvent event) {
  if (auto* data = std::get_if<runtime::StreamData>(&event)) return output_of(std::move(*data));
  if (auto* notice = std::get_if<runtime::StreamNotice>(&event)) return notice_of(notice->value);
  return finish_of(std::get<runtime::StreamClose>(event).value);
}

bool is_start_notice(const runtime::StreamEvent& event) {
  const auto* notice = std::get_if<runtime::StreamNotice>(&event);
  return notice != nullptr && notice->value.contains("started");
}

}  // namespace warren::service
