// The files that Warren itself writes into a sandbox, by the sandbox's host name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace warren::changes {

inline constexpr std::uint32_t kModeOfOwnFiles = 0644;
inline constexpr std::size_t kLongestOwnFile = 512;

// A sandbox's host name begins with it; letters and digits follow.
inline constexpr std::string_view kHostnamePrefix = "sbx-";

// What is in /etc/hostname and /etc/hosts.
std::string hostname_file(const std::string& hostname);
std::string hosts_file(const std::string& hostname);

// Whether that is what Warren has written to one of the two for some sandbox. `path` is as in
// changes/tree.h.
bool is_own_file(std::string_view path, std::string_view content);

}  // namespace warren::changes
