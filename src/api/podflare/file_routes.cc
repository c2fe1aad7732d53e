#include <fmt/core.h>

#include "api/podflare/answers.h"
#include "api/podflare/routes.h"

namespace warren::api::podflare {
namespace {

// Files are raw bytes of the sandbox's making: no browser may take them for a page of ours.
http::Headers file_headers(std::uint64_t size) {
  http::Headers headers;
  headers.set("Content-Type", "application/octet-stream");
  headers.set("Content-Length", fmt::format("{}", size));
  headers.set("Content-Disposition", "attachment");
  headers.set("X-Content-Type-Options", "nosniff");
  headers.set("Cache-Control", "no-store");
  return headers;
}

// A directory cannot be read as a file: says how it is listed.
Error with_hint(Error error, const std::string& id) {
  if (error.kind() != ErrorKind::kInvalid || error.message().find("directory") == std::string::npos)
    return error;
  return {error.kind(),
          fmt::format("{}; list a directory with GET /v1/sandboxes/{}/list?path=…", error.message(), id)};
}

Task<void> read(std::shared_ptr<Face> face, service::Caller caller, http::Request& request,
                http::ResponseWriter& writer) {
  const auto& id = request.params.at("id");
  auto path = path_parameter(request);
  if (!path) {
    co_await refuse(writer, std::move(path).error());
    co_return;
  }
  auto reader = co_await face->sandboxes.read_file(std::move(caller), id, std::move(*path));
  if (!reader) {
    co_await refuse(writer, with_hint(std::move(reader).error(), id));
    co_return;
  }
  std::uint64_t left = (*reader)->size();
  auto headers = file_headers(left);
  const auto begun = co_await writer.begin(200, std::move(headers));
  if (!begun) co_return;
  const bool only_head = request.method == "HEAD";
  while (left > 0 && !only_head) {
    auto bytes = co_await (*reader)->read();
    // Shorter than it was when it was opened, or lost: ends without finish(), so
    // that the client sees that it has not all of it.
    if (!bytes || bytes->empty()) co_return;
    // A file that grows meanwhile is read as long as it was.
    if (bytes->size() > left) bytes->resize(left);
    left -= bytes->size();
    const auto written = co_await writer.write(std::move(*bytes));
    if (!written) co_return;
  }
  (void)co_await writer.finish();
}

// Streams the request's body into `file`; the file is replaced only if all came.
Task<Result<service::Written>> pour(http::BodyReader& body, service::FileWriter& file) {
  while (true) {
    auto bytes = co_await body.read();
    if (!bytes) co_return std::unexpected(std::move(bytes).error());
    if (bytes->empty()) break;
    WARREN_TRY_CO(co_await file.write(std::move(*bytes)));
  }
  co_return co_await file.finish();
}

Task<Result<http::Response>> write(std::shared_ptr<Face> face, service::Caller caller,
                                   http::Request& request) {
  const auto path = path_parameter(request);
  if (!path) co_return std::unexpected(path.error());
  auto file = co_await face->sandboxes.write_file(std::move(caller), request.params.at("id"), *path,
                                                  request.body->length());
  if (!file) co_return std::unexpected(std::move(file).error());
  const auto written = co_await pour(*request.body, **file);
  if (!written) co_return std::unexpected(written.error());
  co_return http::json_response(200, written_json(*path, *written));
}

Task<Result<http::Response>> remove(std::shared_ptr<Face> face, service::Caller caller,
                                    http::Request& request) {
  const auto path = path_parameter(request);
  if (!path) co_return std::unexpected(path.error());
  const auto removed =
      co_await face->sandboxes.remove_file(std::move(caller), request.params.at("id"), *path);
  if (!removed) co_return std::unexpected(removed.error());
  co_return no_content();
}

Task<Result<http::Response>> list(std::shared_ptr<Face> face, service::Caller caller,
                                  http::Request& request) {
  const auto path = request.query.empty() ? Result<std::string>("/root") : path_parameter(request);
  if (!path) co_return std::unexpected(path.error());
  const auto listing = co_await face->sandboxes.list_files(std::move(caller), request.params.at("id"), *path);
  if (!listing) co_return std::unexpected(listing.error());
  co_return http::json_response(200, listing_json(*listing));
}

}  // namespace

void add_file_routes(http::Router& router, const std::shared_ptr<Face>& face) {
  add_route(router, face, "GET", "/v1/sandboxes/{id}/files", read);
  add_route(router, face, "HEAD", "/v1/sandboxes/{id}/files", read);
  add_route(router, face, "PUT", "/v1/sandboxes/{id}/files", write);
  add_route(router, face, "DELETE", "/v1/sandboxes/{id}/files", remove);
  add_route(router, face, "GET", "/v1/sandboxes/{id}/list", list);
}

}  // namespace warren::api::podflare
