// For an optional that is known to hold something by a way that no checker follows.
#pragma once

#include <optional>
#include <utility>

namespace warren::changes {

// NOLINTBEGIN(bugprone-unchecked-optional-access): whoever calls has looked.
template <typename T>
const T& sure(const std::optional<T>& value) {
  return *value;
}
template <typename T>
T& sure(std::optional<T>& value) {
  return *value;
}
template <typename T>
T sure(std::optional<T>&& value) {
  return *std::move(value);
}
// NOLINTEND(bugprone-unchecked-optional-access)

}  // namespace warren::changes
