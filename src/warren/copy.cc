#include "warren/copy.h"

#include <optional>
#include <utility>

#include "warren/copy_in.h"
#include "warren/copy_out.h"

namespace warren::cli {
namespace {

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

}  // namespace

Task<Result<int>> copy_files(std::shared_ptr<ApiClient> client, std::string source, std::string target) {
  const auto from = as_remote(source);
  const auto to = as_remote(target);
  if (from && to)
    co_return fail(ErrorKind::kInvalid, "one side must be local; copy by way of a local file or a pipe");
  if (!from && !to)
    co_return fail(ErrorKind::kInvalid,
                   "one side must be SANDBOX:PATH, like sbx_…:/root/file; write ./a:b for a local file a:b");
  auto sandbox = from ? from->sandbox : to->sandbox;
  auto id = co_await client->resolve(std::move(sandbox));
  if (!id) co_return std::unexpected(std::move(id).error());
  auto files = std::make_shared<RemoteFiles>(std::move(client), std::move(*id));
  if (to) co_return co_await copy_in(std::move(files), std::move(source), to->path);
  co_return co_await copy_out(std::move(files), from->path, std::move(target));
}

}  // namespace warren::cli
