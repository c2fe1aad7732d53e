// Who is asking. A face gets one from Keys::authenticate and hands it down with
// every call; the rules below decide what it may do.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace warren::service {

struct Caller {
  std::string account_id;
  std::string key_id;
  std::vector<std::string> scopes;  // e.g. "sandboxes"; the operator's key has "admin" too

  bool has_scope(std::string_view scope) const;
};

// kForbidden unless the key may use sandboxes.
Result<void> check_scope(const Caller& caller);

}  // namespace warren::service
