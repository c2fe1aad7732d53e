#include "service/caller.h"

#include <algorithm>

namespace warren::service {

bool Caller::has_scope(std::string_view scope) const {
  return std::ranges::find(scopes, scope) != scopes.end();
}

}  // namespace warren::service
