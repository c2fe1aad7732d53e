#include "warren/account_removal.h"

#include <fmt/core.h>
#include <unistd.h>

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json/array.hpp>

#include "service/accounts.h"
#include "service/keys.h"
#include "store/database.h"
#include "store/sandbox_repository.h"
#include "warren/command.h"
#include "warren/console.h"
#include "warren/home.h"
#include "warren/home_database.h"

namespace warren::cli {
namespace {

// A sandbox that was being made when the keys were revoked may appear until then.
constexpr Seconds kPatience{30};
constexpr Millis kPause{50};

// Revokes the account's keys; a new one, for this process alone.
Result<std::string> take_over(store::Database& database, const std::string& name) {
  const auto account = service::Accounts(database).find(name);
  if (!account) return std::unexpected(account.error());
  if (account->is_operator)
    return fail(ErrorKind::kConflict, fmt::format("{} is the operator's own account, which stays", name));
  service::Keys keys(database);
  const auto known = keys.list(account->id);
  if (!known) return std::unexpected(known.error());
  for (const auto& key : *known) WARREN_TRY(keys.revoke(account->id, key.id));
  auto made = keys.create(account->id, "account rm", {"sandboxes"});
  if (!made) return std::unexpected(std::move(made).error());
  return std::move(made->secret);
}

Result<std::string> close(store::Database& database, const std::string& name) {
  service::Accounts accounts(database);
  const auto account = accounts.find(name);
  if (!account) return std::unexpected(account.error());
  WARREN_TRY(accounts.close(*account));
  return std::string();
}

// Without a server no sandbox runs: what is left of them are their rows. What the host
// may still have of them ends at the next start, when nobody asks for them.
Result<std::string> close_with_rows(store::Database& database, const std::string& name) {
  const auto account = service::Accounts(database).find(name);
  if (!account) return std::unexpected(account.error());
  WARREN_TRY(store::SandboxRepository(database).remove_of_account(account->id));
  return close(database, name);
}

Task<Result<void>> end_sandboxes(std::shared_ptr<ApiClient> client) {
  auto answer = co_await client->call("GET", "/v1/sandboxes");
  if (!answer) co_return std::unexpected(std::move(answer).error());
  const auto* list = answer->if_contains("sandboxes");
  if (list == nullptr || !list->is_array()) co_return fail(ErrorKind::kInternal, "the server sent no list");
  for (const auto& each : list->get_array()) {
    const auto* id = each.is_object() ? each.get_object().if_contains("id") : nullptr;
    if (id == nullptr || !id->is_string()) continue;
    const auto gone = co_await client->call("DELETE", "/v1/sandboxes/" + std::string(id->get_string()));
    // One that ended by itself meanwhile is gone as well.
    if (!gone && gone.error().kind() != ErrorKind::kNotFound) co_return std::unexpected(gone.error());
  }
  co_return Result<void>{};
}

Task<Result<int>> end_and_close(std::shared_ptr<ApiClient> client, std::string name) {
  const auto executor = co_await boost::asio::this_coro::executor;
  const auto end = Clock::now() + kPatience;
  while (true) {
    const auto ended = co_await end_sandboxes(client);
    if (!ended) co_return fail(Error(ended.error()).in("its keys are revoked, but its sandboxes live"));
    // What is ready for its next sandbox, too.
    const auto dropped = co_await client->call("DELETE", "/stock");
    if (!dropped)
      co_return fail(Error(dropped.error()).in("its keys are revoked, but it could not be removed"));
    const auto closed = with_database([&name](store::Database& database) { return close(database, name); });
    if (closed) co_return 0;
    if (closed.error().kind() != ErrorKind::kConflict || Clock::now() > end)
      co_return fail(Error(closed.error()).in("its keys are revoked, but it could not be removed"));
    boost::asio::steady_timer pause(executor, kPause);
    co_await pause.async_wait(boost::asio::use_awaitable);
  }
}

}  // namespace

Result<int> remove_account(const std::string& name) {
  const auto config = load_config();
  if (!config) return std::unexpected(config.error());
  if (geteuid() != 0) return fail(ErrorKind::kForbidden, "removing an account needs root; use sudo");
  const auto key = with_database([&name](store::Database& database) { return take_over(database, name); });
  if (!key) return std::unexpected(key.error());

  // Held, it keeps a server from starting in between.
  const auto lock = lock_home(*config, "supervisor", Clock::now());
  Result<int> done = 0;
  if (lock) {
    const auto closed =
        with_database([&name](store::Database& database) { return close_with_rows(database, name); });
    if (!closed) return std::unexpected(closed.error());
  } else if (lock.error().kind() == ErrorKind::kConflict) {
    done = with_server(
        Access{.url = local_url(*config), .key = *key, .home = config->home},
        [&name](std::shared_ptr<ApiClient> client) { return end_and_close(std::move(client), name); });
  } else {
    return std::unexpected(lock.error());
  }
  if (!done) return done;
  WARREN_TRY(print(STDOUT_FILENO, fmt::format("{} is removed, with its keys and sandboxes\n", name)));
  return 0;
}

}  // namespace warren::cli
