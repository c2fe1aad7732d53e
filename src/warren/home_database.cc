#include "warren/home_database.h"

#include <unistd.h>

#include "service/accounts.h"
#include "store/database.h"
#include "warren/console.h"
#include "warren/home.h"
#include "warren/privileges.h"

namespace warren::cli {

Result<std::string> with_database(const std::function<Result<std::string>(store::Database&)>& body) {
  const auto config = load_config();
  if (!config) return std::unexpected(config.error());
  WARREN_TRY(require_home(*config));
  const auto user = find_user(config->user);
  if (!user) return std::unexpected(user.error());
  if (geteuid() == 0) WARREN_TRY(prepare_home(*config, *user));
  return run_as(*user, [&]() -> Result<std::string> {
    auto database = store::Database::open(config->database_file());
    if (!database) return std::unexpected(std::move(database).error());
    WARREN_TRY(service::Accounts(**database).operator_account());
    return body(**database);
  });
}

Result<int> print_from_database(const std::function<Result<std::string>(store::Database&)>& body) {
  const auto text = with_database(body);
  if (!text) return std::unexpected(text.error());
  WARREN_TRY(print(STDOUT_FILENO, *text));
  return 0;
}

}  // namespace warren::cli
