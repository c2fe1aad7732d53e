#include "warren/api_client.h"

#include <fmt/core.h>

#include <boost/json/serialize.hpp>
#include <cstdlib>
#include <optional>

#include "api/arguments.h"
#include "base/ids.h"
#include "warren/home.h"

namespace warren::cli {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxAnswer = 64UL * 1024 * 1024;
// The longest line of output the server sends is a few hundred kilobytes.
constexpr std::size_t kMaxLine = 64UL * 1024 * 1024;

ErrorKind kind_of(int status) {
  switch (status) {
    case 401:
      return ErrorKind::kUnauthorized;
    case 403:
      return ErrorKind::kForbidden;
    case 404:
      return ErrorKind::kNotFound;
    case 409:
      return ErrorKind::kConflict;
    case 413:
      return ErrorKind::kTooLarge;
    case 429:
      return ErrorKind::kLimited;
    case 503:
      return ErrorKind::kUnavailable;
    default:
      return status < 500 ? ErrorKind::kInvalid : ErrorKind::kInternal;
  }
}

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.pop_back();
  return text;
}

// The server's sentence in a refusal.
Error refusal(int status, const std::string& body) {
  auto object = api::parse_object(body, "the answer");
  if (object) {
    if (const auto* sentence = object->if_contains("error"); sentence != nullptr && sentence->is_string()) {
      return {kind_of(status), std::string(sentence->get_string())};
    }
  }
  return {kind_of(status), fmt::format("the server answered {}", status)};
}

}  // namespace

std::string local_url(const Config& config) {
  const auto written = read_small_file(config.run_dir() + "/address");
  return "http://" + (written ? trimmed(*written) : config.listen.text());
}

Result<Access> find_access(const Config& config) {
  Access access;
  const char* url = std::getenv("WARREN_URL");
  const char* listen = std::getenv("WARREN_LISTEN");
  if (url != nullptr && *url != '\0') {
    access.url = url;
  } else {
    const bool told = listen != nullptr && *listen != '\0';
    access.url = told && !config.tls.wanted() ? "http://" + config.listen.text() : local_url(config);
    if (!told) access.home = config.home;
  }
  const char* key = std::getenv("WARREN_KEY");
  if (key != nullptr && *key != '\0') {
    access.key = key;
    return access;
  }
  auto kept = read_small_file(config.key_file());
  if (!kept) {
    auto there = require_home(config);
    if (!there && there.error().kind() == ErrorKind::kNotFound) return std::unexpected(there.error());
    return fail(ErrorKind::kUnauthorized,
                fmt::format("no key: set WARREN_KEY, or run this as a user who can read {} (sudo)",
                            config.key_file()));
  }
  access.key = trimmed(std::move(*kept));
  return access;
}

Result<std::shared_ptr<ApiClient>> ApiClient::make(Executor executor, const Access& access) {
  auto client = http::Client::make(std::move(executor), access.url);
  if (!client) return std::unexpected(std::move(client).error());
  return std::make_shared<ApiClient>(std::move(*client), access);
}

Task<Result<std::shared_ptr<http::ClientResponse>>> ApiClient::send(http::ClientRequest request) {
  request.headers.set("Authorization", "Bearer " + key_);
  auto response = co_await http_->send(std::move(request));
  if (!response) {
    auto error = std::move(response).error();
    if (error.kind() == ErrorKind::kUnavailable) {
      const auto which = home_.empty() ? std::string() : fmt::format(" with WARREN_HOME={}", home_);
      co_return fail(ErrorKind::kUnavailable,
                     fmt::format("{}; is `warren serve` running{}?", error.message(), which));
    }
    co_return fail(std::move(error));
  }
  const int status = (*response)->status();
  if (status < 400) co_return std::move(*response);
  auto body = co_await (*response)->read_all(kMaxAnswer);
  co_return fail(refusal(status, body.value_or("")));
}

Task<Result<json::object>> ApiClient::call(std::string method, std::string target, json::object body) {
  http::ClientRequest request;
  request.method = std::move(method);
  request.target = std::move(target);
  if (!body.empty()) {
    request.headers.set("Content-Type", "application/json");
    request.body = json::serialize(body);
  }
  auto response = co_await send(std::move(request));
  if (!response) co_return std::unexpected(std::move(response).error());
  auto text = co_await (*response)->read_all(kMaxAnswer);
  if (!text) co_return std::unexpected(std::move(text).error());
  if (text->empty()) co_return json::object{};
  co_return api::parse_object(*text, "the server's answer");
}

Task<Result<json::object>> ApiClient::call(std::string method, std::string target) {
  return call(std::move(method), std::move(target), {});
}

Task<Result<std::vector<std::string>>> ApiClient::named(std::string name) {
  auto answer = co_await call("GET", "/v1/sandboxes");
  if (!answer) co_return std::unexpected(std::move(answer).error());
  std::vector<std::string> found;
  const auto* list = answer->if_contains("sandboxes");
  if (list == nullptr || !list->is_array()) co_return fail(ErrorKind::kInternal, "the server sent no list");
  for (const auto& each : list->get_array()) {
    const auto* object = each.if_object();
    if (object == nullptr) continue;
    const auto* own = object->if_contains("name");
    const auto* id = object->if_contains("id");
    if (own == nullptr || id == nullptr || !own->is_string() || !id->is_string()) continue;
    if (own->get_string() == name) found.emplace_back(id->get_string());
  }
  co_return found;
}

Task<Result<std::string>> ApiClient::resolve(std::string name) {
  if (is_sandbox_id(name)) co_return name;
  auto found = co_await named(name);
  if (!found) co_return std::unexpected(std::move(found).error());
  if (found->empty()) {
    co_return fail(ErrorKind::kNotFound,
                   fmt::format("there is no sandbox {}; `warren sandbox list` shows those there are",
                               api::in_quotes(name)));
  }
  if (found->size() > 1) {
    co_return fail(ErrorKind::kConflict,
                   fmt::format("{} sandboxes are named {}; use its id", found->size(), api::in_quotes(name)));
  }
  co_return std::move(found->front());
}

Task<Result<std::optional<std::string>>> LineReader::next() {
  while (true) {
    const auto end = buffer_.find('\n', searched_);
    if (end != std::string::npos) {
      auto line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      searched_ = 0;
      co_return line;
    }
    searched_ = buffer_.size();
    if (buffer_.size() > kMaxLine) co_return fail(ErrorKind::kTooLarge, "the server sent an endless line");
    auto bytes = co_await response_->read();
    if (!bytes) co_return std::unexpected(std::move(bytes).error());
    if (bytes->empty()) co_return std::nullopt;
    buffer_ += *bytes;
  }
}

std::string text_at(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : std::string();
}

std::string percent_encoded(std::string_view bytes) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/";
  std::string out;
  for (const char c : bytes) {
    if (kPlain.find(c) != std::string_view::npos) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

}  // namespace warren::cli
