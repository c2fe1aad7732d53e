// How NamespaceDriver keeps sandboxes ready.
#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <utility>

#include "base/ids.h"
#include "base/log.h"
#include "runtime/namespace/namespace_driver.h"
#include "runtime/namespace/runners.h"
#include "runtime/namespace/sandbox.h"
#include "runtime/namespace/tear_down.h"

namespace warren::runtime {

std::shared_ptr<Sandbox> NamespaceDriver::claim(std::shared_ptr<Sandbox> waiting, const std::string& id) {
  if (!waiting) return waiting;
  sandboxes_.erase(waiting->id);
  waiting->id = id;
  waiting->steps.start();
  sandboxes_.emplace(id, waiting);
  return waiting;
}

void NamespaceDriver::restock() {
  if (is_restocking_ || stopping_) return;
  is_restocking_ = true;
  boost::asio::co_spawn(executor_, fill_stock(), boost::asio::detached);
}

Task<void> NamespaceDriver::fill_stock() {
  // Whoever waits for a sandbox of his own, or for the end of one, comes first; and where people
  // ask one time after another, what is made for later costs more than it saves, for a while.
  constexpr Millis kBetween{5};
  constexpr Millis kQuiet{30};
  constexpr Millis kLongest{200};
  auto at_the_latest = Clock::now() + kLongest;
  while (!stopping_) {
    co_await pause(kBetween);
    if (making_ > 0) continue;
    if (Clock::now() < std::min(last_asked_ + kQuiet, at_the_latest)) continue;
    at_the_latest = Clock::now() + kLongest;
    auto want = stock_.wanted();
    if (!want || !runners_->is_warm(want->spec.template_name, want->template_root)) break;
    want->spec.id = new_sandbox_id();
    if (!admit(want->spec)) break;
    Result<void> added;
    if (want->is_shell) {
      added = add_shell(*want);
    } else {
      auto adding = add_ready(*std::move(want));
      added = co_await std::move(adding);
    }
    if (added) continue;
    log::debug("nothing for the stock: {}", added.error().message());
    break;
  }
  is_restocking_ = false;
}

Task<Result<void>> NamespaceDriver::add_ready(Stock::Want want) {
  auto making = make(std::move(want.spec), std::move(want.template_root));
  auto made = co_await std::move(making);
  if (!made) co_return fail(std::move(made.error()));
  prepare_network(**made);
  auto given = runners_->give(*made);
  if (given && !stock_.add(*made)) given = fail(ErrorKind::kUnavailable, "it is of no use any more");
  if (!given) tear_down_->begin(*made);
  co_return given;
}

Result<void> NamespaceDriver::add_shell(const Stock::Want& want) {
  auto [shell, made] = make_shell(want.spec, want.template_root);
  if (made) prepare_network(*shell);
  if (made && !stock_.add_shell(shell)) made = fail(ErrorKind::kUnavailable, "it is of no use any more");
  if (!made) tear_down_->begin(shell);
  return made;
}

void NamespaceDriver::drop_stock(const std::string& account) {
  // One that is being made just now finds no place, and ends.
  for (const auto& sandbox : stock_.drop(account)) tear_down_->begin(sandbox);
}

void NamespaceDriver::sort_out_stock() {
  const auto useless = stock_.sort_out([this](const std::string& name, const std::filesystem::path& root) {
    const auto newest = options_.template_root(name);
    return newest && *newest == root;
  });
  for (const auto& sandbox : useless) tear_down_->begin(sandbox);
  restock();
}

}  // namespace warren::runtime
