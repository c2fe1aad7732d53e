#include "changes/diff.h"

namespace warren::changes {

std::string_view name_of(Type type) {
  switch (type) {
    case Type::kFile:
      return "file";
    case Type::kFolder:
      return "directory";
    case Type::kSymlink:
      return "symlink";
    case Type::kFifo:
      return "fifo";
    case Type::kSocket:
      return "socket";
    case Type::kDevice:
      break;
  }
  return "device";
}

std::string_view name_of(NoText reason) {
  switch (reason) {
    case NoText::kBinary:
      return "binary";
    case NoText::kTooLarge:
      return "too large";
    case NoText::kLimit:
      return "limit";
    case NoText::kVanished:
      break;
  }
  return "vanished";
}

}  // namespace warren::changes
