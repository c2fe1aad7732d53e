// What a call that can fail returns. An Error is a value with a kind that a
// program can act on, a sentence that a person can act on, and the chain of what
// caused it. Exceptions do not cross the edge of a module.
#pragma once

#include <expected>
#include <string>
#include <string_view>

namespace warren {

// What sort of failure it is, seen from whoever asked. Each face maps these to
// its own status codes; nothing below a face knows HTTP.
enum class ErrorKind {
  kInvalid,       // the caller's input is wrong; the message says what was expected
  kUnauthorized,  // no credential, or not one that counts
  kForbidden,     // a credential that lacks the right
  kNotFound,      // no such thing, or not the caller's
  kConflict,      // it exists, but its state forbids this
  kTooLarge,      // more bytes than the limit
  kLimited,       // a quota or rate is used up; try later
  kNoSpace,       // the sandbox's or the host's disk is full
  kTimeout,       // the deadline passed
  kCancelled,     // the caller withdrew
  kUnavailable,   // a part that is needed is not there now; try again
  kInternal,      // our own bug, or the host's failure
};

std::string_view name_of(ErrorKind kind);

class Error {
 public:
  Error(ErrorKind kind, std::string message) : kind_(kind), message_(std::move(message)) {}

  // The failed system call `what` with the errno that stands now (or `code`):
  // "mount /proc: Operation not permitted". ENOSPC and EDQUOT become kNoSpace,
  // ENOENT kNotFound, everything else kInternal.
  static Error from_errno(std::string_view what);
  static Error from_errno(std::string_view what, int code);

  ErrorKind kind() const { return kind_; }
  const std::string& message() const { return message_; }

  // The same failure seen from one level up: "create sandbox: mount /proc: …".
  Error in(std::string_view context) &&;

 private:
  ErrorKind kind_;
  std::string message_;
};

template <typename T>
using Result = std::expected<T, Error>;

inline std::unexpected<Error> fail(ErrorKind kind, std::string message) {
  return std::unexpected(Error(kind, std::move(message)));
}
inline std::unexpected<Error> fail(Error error) { return std::unexpected(std::move(error)); }
// The failed system call `what`, with errno as it stands.
inline std::unexpected<Error> fail_errno(std::string_view what) {
  return std::unexpected(Error::from_errno(what));
}

}  // namespace warren

// Returns the error of `expression` (a Result<void> or Result<T>) from the
// enclosing function; WARREN_TRY_CO does it from a coroutine.
#define WARREN_TRY(expression)                                                     \
  do {                                                                             \
    if (auto warren_try_result = (expression); !warren_try_result)                 \
      return std::unexpected(std::move(warren_try_result).error());                \
  } while (false)
#define WARREN_TRY_CO(expression)                                                  \
  do {                                                                             \
    if (auto warren_try_result = (expression); !warren_try_result)                 \
      co_return std::unexpected(std::move(warren_try_result).error());             \
  } while (false)
