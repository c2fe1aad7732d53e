#include "warren/remote_files.h"

#include <fmt/core.h>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include "api/arguments.h"
#include "base/base64.h"
#include "base/ids.h"
#include "warren/console.h"
#include "warren/local_tree.h"

namespace warren::cli {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxAnswer = 256UL * 1024;
constexpr std::size_t kMaxTold = 1024;

// A member that is text, or bytes as NAME_base64.
std::string bytes_at(const json::object& object, const std::string& name) {
  if (const auto* value = object.if_contains(name); value != nullptr && value->is_string())
    return std::string(value->get_string());
  const auto* encoded = object.if_contains(name + "_base64");
  if (encoded == nullptr || !encoded->is_string()) return {};
  return decode_base64(encoded->get_string()).value_or("");
}

std::uint64_t number_at(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  return value != nullptr && value->is_int64() && value->get_int64() > 0
             ? static_cast<std::uint64_t>(value->get_int64())
             : 0;
}

RemoteType type_of(std::string_view name) {
  if (name == "file") return RemoteType::kFile;
  if (name == "directory") return RemoteType::kFolder;
  if (name == "symlink") return RemoteType::kLink;
  return RemoteType::kOther;
}

Result<std::vector<RemoteEntry>> entries_of(const json::object& answer, const std::string& path) {
  const auto* list = answer.if_contains("entries");
  if (list == nullptr || !list->is_array()) return fail(ErrorKind::kInternal, "the server sent no listing");
  if (const auto* cut = answer.if_contains("truncated"); cut != nullptr && cut->is_bool() && cut->get_bool())
    return fail(ErrorKind::kTooLarge,
                fmt::format("{} has more than {} entries, which is more than a listing tells; pack it inside "
                            "with tar, and copy that",
                            printable(path), list->get_array().size()));
  std::vector<RemoteEntry> entries;
  entries.reserve(list->get_array().size());
  for (const auto& each : list->get_array()) {
    if (!each.is_object()) return fail(ErrorKind::kInternal, "the server sent no listing");
    const auto& object = each.get_object();
    RemoteEntry entry;
    entry.name = bytes_at(object, "name");
    if (!is_entry_name(entry.name))
      return fail(ErrorKind::kInvalid, fmt::format("{}: the listing has a name that is none: \"{}\"",
                                                   printable(path), printable(entry.name)));
    entry.type = type_of(bytes_at(object, "type"));
    entry.size = number_at(object, "size");
    entry.mode = static_cast<unsigned>(number_at(object, "mode") & 07777U);
    entry.target = bytes_at(object, "target");
    entries.push_back(std::move(entry));
  }
  return entries;
}

// How a script ended: nothing, or what it said.
Task<Result<std::optional<std::string>>> failure_of(std::shared_ptr<http::ClientResponse> response) {
  LineReader lines(std::move(response));
  std::string said;
  while (true) {
    auto line = co_await lines.next();
    if (!line) co_return std::unexpected(std::move(line).error());
    const std::optional<std::string> text = std::move(*line);
    if (!text) co_return fail(ErrorKind::kUnavailable, "the output ended before the command did");
    auto event = api::parse_object(*text, "a line of the server's answer");
    if (!event) co_return std::unexpected(std::move(event).error());
    const auto type = bytes_at(*event, "type");
    if (type == "stderr" && said.size() < kMaxTold) said += bytes_at(*event, "data");
    if (type != "exit") continue;
    const auto* status = event->if_contains("data");
    if (status != nullptr && status->is_int64() && status->get_int64() == 0) co_return std::nullopt;
    if (said.empty()) said = "the command failed: " + *text;
    while (said.ends_with('\n')) said.pop_back();
    co_return std::optional(std::move(said));
  }
}

}  // namespace

std::string RemoteFiles::target(const std::string& path) const {
  return base_ + "/files?path=" + percent_encoded(path);
}

Task<Result<std::optional<std::vector<RemoteEntry>>>> RemoteFiles::list(std::string path) {
  auto answer = co_await client_->call("GET", base_ + "/list?path=" + percent_encoded(path));
  if (!answer) {
    const auto kind = answer.error().kind();
    // A sandbox that is not there is kNotFound too; the next request says so.
    if (kind == ErrorKind::kInvalid || kind == ErrorKind::kNotFound) co_return std::nullopt;
    co_return std::unexpected(std::move(answer).error());
  }
  auto entries = entries_of(*answer, path);
  if (!entries) co_return std::unexpected(std::move(entries).error());
  co_return std::optional(std::move(*entries));
}

Task<Result<std::shared_ptr<http::ClientResponse>>> RemoteFiles::read(std::string path) {
  http::ClientRequest request;
  request.target = target(path);
  co_return co_await client_->send(std::move(request));
}

Task<Result<void>> RemoteFiles::write(std::string path, std::function<Task<Result<std::string>>()> source) {
  http::ClientRequest request;
  request.method = "PUT";
  request.target = target(path);
  request.headers.set("Content-Type", "application/octet-stream");
  request.body_source = std::move(source);
  auto response = co_await client_->send(std::move(request));
  if (!response) co_return std::unexpected(std::move(response).error());
  const auto drained = co_await (*response)->read_all(kMaxAnswer);
  if (!drained) co_return std::unexpected(drained.error());
  co_return Result<void>{};
}

Task<Result<void>> RemoteFiles::run_script(std::string script) {
  // As a file, since a command must be UTF-8 and short.
  const auto path = "/tmp/.warren-copy-" + random_hex(8);
  http::ClientRequest upload;
  upload.method = "PUT";
  upload.target = target(path);
  upload.body = std::move(script);
  auto stored = co_await client_->send(std::move(upload));
  if (!stored) co_return std::unexpected(std::move(stored).error());
  const auto drained = co_await (*stored)->read_all(kMaxAnswer);
  if (!drained) co_return std::unexpected(drained.error());

  http::ClientRequest run;
  run.method = "POST";
  run.target = base_ + "/exec";
  run.headers.set("Content-Type", "application/json");
  const json::object body{{"language", "bash"},
                          {"code", fmt::format("sh {0}; status=$?; rm -f {0}; exit $status", path)}};
  run.body = json::serialize(body);
  auto response = co_await client_->send(std::move(run));
  if (!response) co_return std::unexpected(std::move(response).error());
  auto failure = co_await failure_of(std::move(*response));
  if (!failure) co_return std::unexpected(std::move(failure).error());
  const std::optional<std::string>& said = *failure;
  if (said) co_return fail(ErrorKind::kInternal, "in the sandbox: " + printable(*said));
  co_return Result<void>{};
}

}  // namespace warren::cli
