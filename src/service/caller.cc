#include "service/caller.h"

#include <fmt/format.h>

#include <algorithm>

namespace warren::service {
namespace {

constexpr std::string_view kScope = "sandboxes";
constexpr std::string_view kAdminScope = "admin";

}  // namespace

bool Caller::has_scope(std::string_view scope) const {
  return std::ranges::find(scopes, scope) != scopes.end();
}

Result<void> check_scope(const Caller& caller) {
  if (caller.has_scope(kScope) || caller.has_scope(kAdminScope)) return {};
  return fail(ErrorKind::kForbidden, fmt::format("this key lacks the scope '{}'", kScope));
}

}  // namespace warren::service
