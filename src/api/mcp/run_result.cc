#include "api/mcp/run_result.h"

#include <fmt/format.h>

#include <boost/json/serialize.hpp>
#include <utility>

#include "base/base64.h"
#include "base/utf8.h"

namespace warren::api::mcp {

namespace json = boost::json;

namespace {

// With both, and the rest, an answer stays below the 10 MiB that the official
// client libraries take as one line over stdio.
constexpr std::size_t kMaxImageBytes = 6UL << 20U;
constexpr std::size_t kMaxDisplayBytes = 256UL << 10U;

bool is_image(std::string_view mime_type) {
  return mime_type == "image/png" || mime_type == "image/jpeg" || mime_type == "image/gif" ||
         mime_type == "image/webp";
}

// A value of a MIME bundle, cut like a stream of output where it is long.
json::value bounded(const json::value& value) {
  if (value.is_string()) return json::string(cut_in_the_middle(value.get_string()));
  std::string text = json::serialize(value);
  if (text.size() <= Capture::kLimit) return value;
  return json::string(cut_in_the_middle(text));
}

// What of a bundle reads best as text; empty if nothing does.
std::string readable(const json::object& bundle) {
  for (const std::string_view type :
       {"text/plain", "text/markdown", "text/latex", "text/html", "application/json"}) {
    const json::value* value = bundle.if_contains(type);
    if (value == nullptr) continue;
    return value->is_string() ? std::string(value->get_string()) : json::serialize(*value);
  }
  return {};
}

void add_section(std::string& text, std::string_view title, std::string_view body) {
  if (body.empty()) return;
  if (!text.empty() && text.back() != '\n') text += '\n';
  text.append(title).append(":\n").append(body);
}

}  // namespace

void RunResult::add(const service::Output& output) {
  if (output.late) {
    late_.add(output.bytes);
  } else if (output.stream == service::OutputStream::kStdout) {
    stdout_.add(output.bytes);
  } else {
    stderr_.add(output.bytes);
  }
}

void RunResult::add_image(std::string_view mime_type, std::string_view base64) {
  if (image_bytes_ + base64.size() > kMaxImageBytes) {
    ++left_out_;
    return;
  }
  // What comes out of a sandbox may be anything; clients refuse bad base64.
  const auto bytes = decode_base64(base64);
  if (!bytes) {
    ++left_out_;
    return;
  }
  image_bytes_ += base64.size();
  json::object block;
  block["type"] = "image";
  block["data"] = encode_base64(*bytes);
  block["mimeType"] = mime_type;
  images_.push_back(std::move(block));
  json::object note;
  note["mime_type"] = mime_type;
  note["size"] = bytes->size();
  image_notes_.push_back(std::move(note));
}

void RunResult::add(const service::Bundle& bundle) {
  json::object kept;
  std::size_t bytes = 0;
  for (const auto& [type, value] : bundle.data) {
    if (is_image(type)) {
      if (value.is_string()) add_image(type, value.get_string());
      continue;
    }
    json::value cut = bounded(value);
    bytes += type.size() + json::serialize(cut).size();
    kept[type] = std::move(cut);
  }
  if (display_bytes_ + bytes > kMaxDisplayBytes) {
    ++left_out_;
    return;
  }
  display_bytes_ += bytes;
  if (bundle.is_result) {
    result_ = std::move(kept);
  } else if (!kept.empty()) {
    displays_.push_back(std::move(kept));
  }
}

void RunResult::add(const service::PythonError& error) {
  error_ = service::PythonError{to_utf8(utf8_prefix(error.name, 1000)), cut_in_the_middle(error.value),
                                cut_in_the_middle(error.traceback)};
}

std::string RunResult::headline(const service::Finished& finished) const {
  std::string text = fmt::format("exit_code: {}", finished.exit_code);
  if (finished.timed_out) {
    text += fmt::format("\ntimed out: the deadline of {} s passed", timeout_seconds_);
    if (language_ == Language::kBash) {
      text +=
          "; the command and its processes were ended. Pass a longer timeout_seconds (up to 3600) if it "
          "needs more";
    } else if (!finished.restarted) {
      text += "; the call was interrupted, the session's variables are kept";
    }
  }
  if (finished.cancelled) text += "\ncancelled";
  if (!finished.died.empty()) text += fmt::format("\nthe Python process died: {}", to_utf8(finished.died));
  if (finished.oom) text += "\nout of memory: the sandbox reached its memory limit";
  if (finished.restarted) text += "\na fresh Python session was started: variables are lost, files are kept";
  return text;
}

std::string RunResult::as_text(const service::Finished& finished) const {
  std::string text = headline(finished);
  add_section(text, "stdout", stdout_.text(finished.stdout_file));
  add_section(text, "stderr", stderr_.text(finished.stderr_file));
  for (const json::value& display : displays_) add_section(text, "display", readable(display.get_object()));
  if (result_) add_section(text, "result", readable(*result_));
  if (error_) {
    add_section(text, "error",
                error_->traceback.empty() ? error_->name + ": " + error_->value : error_->traceback);
  }
  add_section(text, "late output of earlier calls", late_.text({}));
  if (left_out_ > 0) {
    add_section(text, "left out", fmt::format("{} displayed items beyond what one answer holds", left_out_));
  }
  if (stdout_.empty() && stderr_.empty() && !result_ && !error_ && images_.empty() && displays_.empty()) {
    text += "\n(no output)";
  }
  return text;
}

ToolResult RunResult::finish(const service::Finished& finished) && {
  const bool failed = finished.exit_code != 0 || finished.timed_out || finished.cancelled || finished.oom ||
                      !finished.died.empty();
  json::object structured;
  structured["exit_code"] = finished.exit_code;
  structured["stdout"] = stdout_.text(finished.stdout_file);
  structured["stderr"] = stderr_.text(finished.stderr_file);
  structured["truncated"] = stdout_.truncated() || stderr_.truncated() || late_.truncated() || left_out_ > 0;
  structured["duration_ms"] = finished.duration.count();
  if (!finished.stdout_file.empty()) structured["stdout_file"] = to_utf8(finished.stdout_file);
  if (!finished.stderr_file.empty()) structured["stderr_file"] = to_utf8(finished.stderr_file);
  if (finished.timed_out) structured["timed_out"] = true;
  if (finished.oom) structured["out_of_memory"] = true;
  if (!finished.died.empty()) structured["died"] = to_utf8(finished.died);
  if (finished.restarted) structured["restarted"] = true;
  if (!late_.empty()) structured["late_output"] = late_.text({});

  ToolResult result;
  result.outcome = failed ? Outcome::kFailed : Outcome::kDone;
  result.content.push_back(text_block(as_text(finished)));
  for (json::value& image : images_) result.content.push_back(std::move(image));

  if (result_) structured["result"] = std::move(*result_);
  if (!displays_.empty()) structured["displays"] = std::move(displays_);
  if (!image_notes_.empty()) structured["images"] = std::move(image_notes_);
  if (error_) {
    structured["error"] =
        json::object{{"name", error_->name}, {"value", error_->value}, {"traceback", error_->traceback}};
  }
  result.structured = std::move(structured);
  return result;
}

}  // namespace warren::api::mcp
