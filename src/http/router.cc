#include "http/router.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "http/status.h"
#include "http/target.h"

namespace warren::http {
namespace {

Response default_fallback(const Request&, int status, const std::string& detail) {
  std::string sentence = detail;
  if (status == 404 && detail.empty()) sentence = "nothing is served at this path";
  if (status == 405) sentence = "this path answers to " + detail + " only";
  if (sentence.empty()) sentence = reason_of(status);
  std::string json = R"({"error":")";
  for (const char c : sentence) {
    if (c == '"' || c == '\\') json += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) json += c;
  }
  json += "\"}";
  return json_response(status, std::move(json));
}

bool covers(std::string_view prefix, std::string_view path) {
  if (!path.starts_with(prefix)) return false;
  return path.size() == prefix.size() || prefix.empty() || prefix.back() == '/' || path[prefix.size()] == '/';
}

// The path of the request as segments: from the target as it was sent, so that an
// encoded slash stays inside its segment.
std::vector<std::string> segments_of(const Request& request) {
  std::string_view raw = request.raw_path.empty() ? std::string_view(request.path) : request.raw_path;
  auto segments = path_segments(raw);
  // "*" has no segments and matches no pattern.
  return segments ? *std::move(segments) : std::vector<std::string>{};
}

}  // namespace

void Router::add(std::string method, const std::string& pattern, Handler handler) {
  Route route{.method = std::move(method), .pattern = pattern, .segments = {}, .handler = std::move(handler)};
  for (std::size_t begin = 1; begin <= pattern.size();) {
    const std::size_t end = std::min(pattern.find('/', begin), pattern.size());
    std::string text = pattern.substr(begin, end - begin);
    begin = end + 1;
    auto kind = Segment::Kind::kLiteral;
    if (text.size() > 2 && text.front() == '{' && text.back() == '}') {
      text = text.substr(1, text.size() - 2);
      kind = Segment::Kind::kParam;
      if (text.size() > 3 && text.ends_with("...")) {
        text.resize(text.size() - 3);
        kind = Segment::Kind::kRest;
      }
    }
    route.segments.push_back({kind, std::move(text)});
  }
  routes_.push_back(std::move(route));
}

void Router::set_fallback(std::string prefix, Fallback fallback) {
  if (prefix == "/") prefix.clear();
  const auto same =
      std::find_if(fallbacks_.begin(), fallbacks_.end(), [&](const auto& f) { return f.first == prefix; });
  if (same != fallbacks_.end())
    same->second = std::move(fallback);
  else
    fallbacks_.emplace_back(std::move(prefix), std::move(fallback));
}

bool Router::matches(const Route& route, const std::vector<std::string>& path) {
  const auto& segments = route.segments;
  const bool rest = !segments.empty() && segments.back().kind == Segment::Kind::kRest;
  if (rest ? path.size() < segments.size() : path.size() != segments.size()) return false;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    if (segments[i].kind == Segment::Kind::kLiteral && segments[i].text != path[i]) return false;
    if (segments[i].kind == Segment::Kind::kParam && path[i].empty()) return false;
  }
  return true;
}

bool Router::more_literal(const Route& a, const Route& b) {
  const std::size_t common = std::min(a.segments.size(), b.segments.size());
  for (std::size_t i = 0; i < common; ++i)
    if (a.segments[i].kind != b.segments[i].kind) return a.segments[i].kind < b.segments[i].kind;
  return a.segments.size() > b.segments.size();
}

Handler Router::find(Request& request) const {
  if (host_)
    if (Handler handler = host_(request)) return handler;
  const std::vector<std::string> path = segments_of(request);
  std::set<std::string> allowed;
  const Route* best = nullptr;
  const Route* best_get = nullptr;
  const Route* best_any = nullptr;
  for (const Route& route : routes_) {
    if (!matches(route, path)) continue;
    allowed.insert(route.method);
    if (route.method == "GET") {
      allowed.insert("HEAD");
      if (best_get == nullptr || more_literal(route, *best_get)) best_get = &route;
    }
    if (route.method == request.method && (best == nullptr || more_literal(route, *best))) best = &route;
    if (route.method == "*" && (best_any == nullptr || more_literal(route, *best_any))) best_any = &route;
  }
  if (best == nullptr && request.method == "HEAD") best = best_get;
  if (best == nullptr) best = best_any;
  if (best == nullptr) {
    const int status = allowed.empty() ? 404 : 405;
    Response response = fall_back(request, status, fmt::format("{}", fmt::join(allowed, ", ")));
    return [response = std::move(response)](Request&, ResponseWriter& writer) -> Task<void> {
      Response copy = response;
      (void)co_await writer.send(std::move(copy));
    };
  }
  request.route = best->pattern;
  request.params.clear();
  for (std::size_t i = 0; i < best->segments.size(); ++i) {
    const Segment& segment = best->segments[i];
    if (segment.kind == Segment::Kind::kParam) request.params[segment.text] = path[i];
    if (segment.kind == Segment::Kind::kRest)
      request.params[segment.text] =
          fmt::format("{}", fmt::join(path.begin() + static_cast<std::ptrdiff_t>(i), path.end(), "/"));
  }
  return best->handler;
}

Response Router::error(const Request& request, int status, const std::string& message) const {
  return fall_back(request, status, message);
}

Response Router::fall_back(const Request& request, int status, const std::string& detail) const {
  const std::pair<std::string, Fallback>* best = nullptr;
  for (const auto& fallback : fallbacks_)
    if (covers(fallback.first, request.path) &&
        (best == nullptr || fallback.first.size() > best->first.size()))
      best = &fallback;
  Response response =
      best != nullptr ? best->second(request, status, detail) : default_fallback(request, status, detail);
  if (response.status == 405 && status == 405 && !response.headers.get("Allow"))
    response.headers.set("Allow", detail);
  return response;
}

}  // namespace warren::http
