#include "warren/copy.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "base/ids.h"
#include "base/unique_fd.h"
#include "warren/console.h"

namespace warren::cli {
namespace {

constexpr std::size_t kPiece = 256UL * 1024;

struct Remote {
  std::string sandbox;
  std::string path;
};

// SANDBOX:PATH; a name with a slash before the colon is a local path.
std::optional<Remote> as_remote(const std::string& text) {
  const auto colon = text.find(':');
  if (colon == std::string::npos || colon == 0 || text.find('/') < colon) return std::nullopt;
  return Remote{text.substr(0, colon), text.substr(colon + 1)};
}

std::string base_name(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

bool is_folder(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

std::string files_target(const std::string& id, const std::string& path) {
  return "/v1/sandboxes/" + id + "/files?path=" + percent_encoded(path);
}

Task<Result<std::string>> read_piece(std::shared_ptr<UniqueFd> file) {
  std::string piece(kPiece, '\0');
  while (true) {
    const auto got = read(file->get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) co_return fail_errno("read the local file");
    piece.resize(static_cast<std::size_t>(got));
    co_return piece;
  }
}

Task<Result<int>> upload(std::shared_ptr<ApiClient> client, std::string local, Remote remote) {
  auto id = co_await client->resolve(remote.sandbox);
  if (!id) co_return std::unexpected(std::move(id).error());
  const bool from_input = local == "-";
  if (!from_input && is_folder(local)) {
    co_return fail(
        ErrorKind::kInvalid,
        fmt::format("{0} is a folder; pack it: tar -C {0} -cf - . | warren sandbox cp - {1}:/tmp/x.tar",
                    local, remote.sandbox));
  }
  auto file = std::make_shared<UniqueFd>(from_input ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                                                    : open(local.c_str(), O_RDONLY | O_CLOEXEC));
  if (!*file) co_return fail_errno("open " + local);
  if (remote.path.empty() || remote.path.ends_with('/')) {
    if (from_input) co_return fail(ErrorKind::kInvalid, "name the target file: SANDBOX:/path/name");
    remote.path += base_name(local);
  }
  http::ClientRequest request;
  request.method = "PUT";
  request.target = files_target(*id, remote.path);
  request.headers.set("Content-Type", "application/octet-stream");
  request.body_source = [file] { return read_piece(file); };
  auto response = co_await client->send(std::move(request));
  if (!response) co_return std::unexpected(std::move(response).error());
  const auto drained = co_await (*response)->read_all(kPiece);
  if (!drained) co_return std::unexpected(drained.error());
  co_return 0;
}

// Writes the answer's body to `fd`.
Task<Result<void>> pour(std::shared_ptr<http::ClientResponse> response, int fd) {
  while (true) {
    auto bytes = co_await response->read();
    if (!bytes) co_return std::unexpected(std::move(bytes).error());
    if (bytes->empty()) co_return Result<void>{};
    WARREN_TRY_CO(print(fd, *bytes));
  }
}

Task<Result<int>> download(std::shared_ptr<ApiClient> client, Remote remote, std::string local) {
  auto id = co_await client->resolve(remote.sandbox);
  if (!id) co_return std::unexpected(std::move(id).error());
  http::ClientRequest request;
  request.target = files_target(*id, remote.path);
  auto response = co_await client->send(std::move(request));
  if (!response) co_return std::unexpected(std::move(response).error());
  if (local == "-") {
    const auto poured = co_await pour(std::move(*response), STDOUT_FILENO);
    if (!poured) co_return std::unexpected(poured.error());
    co_return 0;
  }
  if (local.ends_with('/') || is_folder(local)) local += "/" + base_name(remote.path);
  const auto beside = fmt::format("{}.warren-{}", local, random_hex(4));
  auto poured = Result<void>{};
  {
    const UniqueFd file(open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!file) co_return fail_errno("open " + beside);
    poured = co_await pour(std::move(*response), file.get());
  }
  if (poured && rename(beside.c_str(), local.c_str()) != 0) poured = fail_errno("rename to " + local);
  if (!poured) {
    unlink(beside.c_str());
    co_return std::unexpected(std::move(poured).error());
  }
  co_return 0;
}

}  // namespace

Task<Result<int>> copy_file(std::shared_ptr<ApiClient> client, std::string source, std::string target) {
  auto from = as_remote(source);
  auto to = as_remote(target);
  if (from && to) {
    co_return fail(ErrorKind::kInvalid, "one side must be local; copy by way of a local file or a pipe");
  }
  if (to) co_return co_await upload(std::move(client), std::move(source), std::move(*to));
  if (from) co_return co_await download(std::move(client), std::move(*from), std::move(target));
  co_return fail(ErrorKind::kInvalid, "one side must be SANDBOX:PATH, like sbx_…:/root/file");
}

}  // namespace warren::cli
