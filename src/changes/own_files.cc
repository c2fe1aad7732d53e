#include "changes/own_files.h"

#include <fmt/format.h>

#include <algorithm>

namespace warren::changes {
namespace {

constexpr std::string_view kBeforeName = "127.0.0.1\tlocalhost\n127.0.1.1\t";

bool is_letter_or_digit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

}  // namespace

std::string hostname_file(const std::string& hostname) { return hostname + "\n"; }

std::string hosts_file(const std::string& hostname) {
  return fmt::format("{}{}\n::1\tlocalhost ip6-localhost ip6-loopback\n", kBeforeName, hostname);
}

bool is_own_file(std::string_view path, std::string_view content) {
  const bool hosts = path == "etc/hosts";
  if (!hosts && path != "etc/hostname") return false;
  std::string_view rest = content;
  if (hosts) {
    if (!rest.starts_with(kBeforeName)) return false;
    rest.remove_prefix(kBeforeName.size());
  }
  const std::string name(rest.substr(0, rest.find('\n')));
  if (!name.starts_with(kHostnamePrefix) ||
      !std::ranges::all_of(std::string_view(name).substr(kHostnamePrefix.size()), is_letter_or_digit))
    return false;
  return content == (hosts ? hosts_file(name) : hostname_file(name));
}

}  // namespace warren::changes
