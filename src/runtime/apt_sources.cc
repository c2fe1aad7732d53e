#include "runtime/apt_sources.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

namespace warren::runtime {
namespace {

constexpr std::string_view kKeyring = "/usr/share/keyrings/debian-archive-keyring.gpg";

using Words = std::vector<std::string>;

// An entry of either format, as lists of words.
struct Source {
  Words types, uris, suites, components;
  std::string signed_by;
  bool enabled = true;
};

Words words_of(std::string_view text) {
  std::istringstream in{std::string(text)};
  Words words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

bool is_debians_keyring(std::string_view path) {
  return path.starts_with("/") && path.find("debian-archive") != std::string_view::npos &&
         std::filesystem::exists(path);
}

// "deb [option=value …] URI suite component…"; options other than signed-by are dropped.
Source parse_line(std::string line) {
  Source source;
  line = line.substr(0, line.find('#'));
  if (std::size_t open = line.find('['); open != std::string::npos) {
    std::size_t close = line.find(']', open);
    if (close == std::string::npos) return {};
    for (const std::string& option : words_of(line.substr(open + 1, close - open - 1)))
      if (option.starts_with("signed-by=")) source.signed_by = option.substr(10);
    line.erase(open, close - open + 1);
  }
  Words words = words_of(line);
  if (words.size() < 4) return {};
  source.types = {words[0]};
  source.uris = {words[1]};
  source.suites = {words[2]};
  source.components.assign(words.begin() + 3, words.end());
  return source;
}

void read_one_line_file(const std::filesystem::path& path, std::vector<Source>& sources) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) sources.push_back(parse_line(line));
}

// deb822: stanzas of "Field: value" with continuation lines, apart by empty lines.
void read_deb822_file(const std::filesystem::path& path, std::vector<Source>& sources) {
  std::ifstream in(path);
  std::map<std::string, std::string> fields;
  std::string last;
  auto finish = [&] {
    if (fields.empty()) return;
    Source source{words_of(fields["types"]),
                  words_of(fields["uris"]),
                  words_of(fields["suites"]),
                  words_of(fields["components"]),
                  "",
                  fields["enabled"].find("no") == std::string::npos};
    Words keys = words_of(fields["signed-by"]);
    // A key that stands in the file itself is not one of Debian's keyrings.
    source.signed_by = keys.empty() ? "" : keys[0];
    sources.push_back(source);
    fields.clear();
    last.clear();
  };
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with('#')) continue;
    if (line.find_first_not_of(" \t\r") == std::string::npos) {
      finish();
    } else if (line[0] == ' ' || line[0] == '\t') {
      if (!last.empty()) fields[last] += " " + line;
    } else if (std::size_t colon = line.find(':'); colon != std::string::npos) {
      last = line.substr(0, colon);
      std::ranges::transform(last, last.begin(), [](unsigned char c) { return std::tolower(c); });
      fields[last] = line.substr(colon + 1);
    }
  }
  finish();
}

bool contains(const Words& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

std::string keyring_option() {
  return std::filesystem::exists(kKeyring) ? fmt::format("[signed-by={}] ", kKeyring) : "";
}

}  // namespace

std::vector<std::string> host_apt_sources(const std::filesystem::path& etc_apt, std::string_view suite) {
  std::vector<std::filesystem::path> paths{etc_apt / "sources.list"};
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(etc_apt / "sources.list.d", error))
    paths.push_back(entry.path());
  std::ranges::sort(paths);
  std::vector<Source> sources;
  for (const auto& path : paths) {
    if (path.extension() == ".list") read_one_line_file(path, sources);
    if (path.extension() == ".sources") read_deb822_file(path, sources);
  }

  const Words wanted{std::string(suite), fmt::format("{}-updates", suite), fmt::format("{}-security", suite)};
  std::vector<std::string> lines;
  bool has_release = false;
  for (const Source& source : sources) {
    if (!source.enabled || !contains(source.types, "deb") || !contains(source.components, "main")) continue;
    for (const std::string& uri : source.uris) {
      if (source.signed_by.empty() ? uri.find("debian") == std::string::npos
                                   : !is_debians_keyring(source.signed_by))
        continue;
      for (const std::string& its_suite : source.suites) {
        if (!contains(wanted, its_suite)) continue;
        std::string line = fmt::format("deb {}{} {} main", keyring_option(), uri, its_suite);
        if (std::ranges::find(lines, line) != lines.end()) continue;
        has_release = has_release || its_suite == suite;
        lines.push_back(line);
      }
    }
  }
  return has_release ? lines : public_apt_sources(suite);
}

std::vector<std::string> public_apt_sources(std::string_view suite) {
  std::string key = keyring_option();
  return {fmt::format("deb {}http://deb.debian.org/debian {} main", key, suite),
          fmt::format("deb {}http://deb.debian.org/debian {}-updates main", key, suite),
          fmt::format("deb {}http://deb.debian.org/debian-security {}-security main", key, suite)};
}

}  // namespace warren::runtime
