// The steps that bring a database from nothing to what this Warren expects. Step n
// (from 1) leads to version n, which SQLite keeps as `user_version`. A step that has
// been released is never changed: what comes later is a new step.
#pragma once

#include <span>
#include <string_view>

namespace warren::store {

// In order; each is one or more SQL statements, run in a transaction of its own.
std::span<const std::string_view> migrations();

}  // namespace warren::store
