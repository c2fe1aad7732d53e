// The files of one sandbox, through the REST face. What a listing says is the sandbox's
// own word: names are checked here to be names, everything else is taken with care by
// who uses it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/task.h"
#include "warren/api_client.h"

namespace warren::cli {

enum class RemoteType { kFile, kFolder, kLink, kOther };

struct RemoteEntry {
  std::string name;  // is_entry_name()
  RemoteType type = RemoteType::kOther;
  std::uint64_t size = 0;
  unsigned mode = 0;
  std::string target;  // of a link; empty if the server could not tell it
};

class RemoteFiles {
 public:
  RemoteFiles(std::shared_ptr<ApiClient> client, std::string sandbox_id)
      : client_(std::move(client)), base_("/v1/sandboxes/" + std::move(sandbox_id)) {}

  // The folder's entries; nothing if the path is something else, or not there.
  // kTooLarge if there are more than a listing tells.
  Task<Result<std::optional<std::vector<RemoteEntry>>>> list(std::string path);

  Task<Result<std::shared_ptr<http::ClientResponse>>> read(std::string path);
  // `source` gives the content piece by piece, nothing at its end, and owns what it uses.
  Task<Result<void>> write(std::string path, std::function<Task<Result<std::string>>()> source);

  // Runs a script for sh(1), of any bytes. kInternal with what it said if it fails.
  Task<Result<void>> run_script(std::string script);

 private:
  std::string target(const std::string& path) const;

  std::shared_ptr<ApiClient> client_;
  std::string base_;
};

}  // namespace warren::cli
