#include "base/result.h"

#include <cerrno>
#include <cstring>

namespace warren {

std::string_view name_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalid: return "invalid";
    case ErrorKind::kUnauthorized: return "unauthorized";
    case ErrorKind::kForbidden: return "forbidden";
    case ErrorKind::kNotFound: return "not_found";
    case ErrorKind::kConflict: return "conflict";
    case ErrorKind::kTooLarge: return "too_large";
    case ErrorKind::kLimited: return "limited";
    case ErrorKind::kNoSpace: return "no_space";
    case ErrorKind::kTimeout: return "timeout";
    case ErrorKind::kCancelled: return "cancelled";
    case ErrorKind::kUnavailable: return "unavailable";
    case ErrorKind::kInternal: return "internal";
  }
  return "internal";
}

Error Error::from_errno(std::string_view what) { return from_errno(what, errno); }

Error Error::from_errno(std::string_view what, int code) {
  ErrorKind kind = ErrorKind::kInternal;
  if (code == ENOSPC || code == EDQUOT) kind = ErrorKind::kNoSpace;
  if (code == ENOENT) kind = ErrorKind::kNotFound;
  return Error(kind, std::string(what) + ": " + std::strerror(code));
}

Error Error::in(std::string_view context) && {
  return Error(kind_, std::string(context) + ": " + message_);
}

}  // namespace warren
