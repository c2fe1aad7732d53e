// What a face tells of an Error. A caller's mistake is told as it is; our own bug
// is told by an id that stands beside the whole story in the log.
#pragma once

#include <string>

#include "base/result.h"

namespace warren::api {

// The sentence for the client. For kInternal: "internal error ID; …", and the
// error's own message goes to the log under that id.
std::string told(const Error& error);

// The HTTP status that stands for `kind` in the faces that have no rule of their own.
int status_of(ErrorKind kind);

}  // namespace warren::api
