#include "warren/command.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <optional>

#include "warren/config.h"

namespace warren::cli {

Result<int> with_server(const std::function<Task<Result<int>>(std::shared_ptr<ApiClient>)>& body) {
  const auto config = load_config();
  if (!config) return std::unexpected(config.error());
  const auto access = find_access(*config);
  if (!access) return std::unexpected(access.error());
  return with_server(*access, body);
}

Result<int> with_server(const Access& access,
                        const std::function<Task<Result<int>>(std::shared_ptr<ApiClient>)>& body) {
  boost::asio::io_context context(1);
  auto client = ApiClient::make(context.get_executor(), access);
  if (!client) return std::unexpected(std::move(client).error());

  std::optional<Result<int>> result;
  boost::asio::co_spawn(context, body(*client), [&](const std::exception_ptr& thrown, Result<int> value) {
    if (thrown == nullptr) result = std::move(value);
    context.stop();  // with it, whatever else was begun
  });
  context.run();
  if (!result) return fail(ErrorKind::kInternal, "the command ended without a result");
  return std::move(*result);
}

}  // namespace warren::cli
