// Subcommands that ask a server.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <utility>

#include "warren/command.h"

namespace warren::cli {

template <typename Options>
using ServerCommand = Task<Result<int>> (*)(std::shared_ptr<ApiClient>, std::shared_ptr<Options>);

// Once the line is read, `subcommand` runs `body` with a client for the server that find_access() names.
template <typename Options>
void choose(CLI::App* subcommand, Action& chosen, const std::shared_ptr<Options>& options,
            ServerCommand<Options> body) {
  subcommand->callback([&chosen, options, body] {
    chosen = [options, body] {
      return with_server(
          [options, body](std::shared_ptr<ApiClient> client) { return body(std::move(client), options); });
    };
  });
}

}  // namespace warren::cli
