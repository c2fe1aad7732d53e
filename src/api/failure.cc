#include "api/failure.h"

#include <fmt/core.h>

#include "base/ids.h"
#include "base/log.h"

namespace warren::api {

std::string told(const Error& error) {
  if (error.kind() == ErrorKind::kNoSpace) {
    return error.message() + ": the sandbox's disk is full; delete something in it and try again";
  }
  if (error.kind() != ErrorKind::kInternal) return error.message();
  const auto id = random_hex(6);
  log::error("internal error {}: {}", id, error.message());
  return fmt::format("internal error {}; the server's log says more under that id", id);
}

int status_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalid:
      return 400;
    case ErrorKind::kUnauthorized:
      return 401;
    case ErrorKind::kForbidden:
      return 403;
    case ErrorKind::kNotFound:
      return 404;
    case ErrorKind::kConflict:
    case ErrorKind::kNoSpace:  // something must be deleted before the same request can succeed
      return 409;
    case ErrorKind::kTooLarge:
      return 413;
    case ErrorKind::kLimited:
      return 429;
    case ErrorKind::kTimeout:
    case ErrorKind::kCancelled:
    case ErrorKind::kUnavailable:
      return 503;
    case ErrorKind::kInternal:
      break;
  }
  return 500;
}

}  // namespace warren::api
