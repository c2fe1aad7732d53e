// `warren account rm`: an account goes with all that it has.
#pragma once

#include <string>

#include "base/result.h"

namespace warren::cli {

// Ends the account's sandboxes, through the server if one runs here, and forgets the
// account and its keys. From the first step on no key of the account counts, whatever
// comes after; called again, it goes on where it was broken off. Needs root.
Result<int> remove_account(const std::string& name);

}  // namespace warren::cli
