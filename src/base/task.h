// The coroutine type of everything that waits. All of a process's tasks run on
// one thread, so that no state in Warren needs a lock.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include "base/result.h"

namespace warren {

template <typename T>
using Task = boost::asio::awaitable<T>;

using Executor = boost::asio::any_io_executor;

}  // namespace warren
