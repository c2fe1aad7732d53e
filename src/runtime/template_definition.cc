#include "runtime/template_definition.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <optional>
#include <set>

#include "base/ids.h"

namespace warren::runtime {
namespace {

// Rises when the same definition would give another root file system.
constexpr int kFormatVersion = 1;
// A chain longer than this is a circle.
constexpr int kMaxChain = 8;

struct File {
  std::string description;
  std::optional<std::string> suite;
  std::optional<std::string> base;
  std::vector<std::string> packages;
  std::map<std::string, std::string> files;
  std::vector<std::string> imports;
};

bool all_of(std::string_view text, std::string_view extra) {
  return !text.empty() && std::ranges::all_of(text, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || extra.find(c) != std::string_view::npos;
  });
}

// Debian Policy 5.6.1. Nothing that apt or mmdebstrap reads as an option, a version,
// a pattern or a list.
bool is_package_name(std::string_view text) {
  return text.size() >= 2 && text.size() <= 128 && all_of(text, "+-.") && text[0] != '-' && text[0] != '+' &&
         text[0] != '.' && text.back() != '-' && (text.back() != '+' || text.ends_with("++"));
}

bool is_suite(std::string_view text) { return text.size() <= 64 && all_of(text, "-") && text[0] != '-'; }

bool is_file_path(std::string_view text) {
  std::filesystem::path path(text);
  return text.size() > 1 && text[0] == '/' && text.back() != '/' &&
         text.find('\0') == std::string_view::npos && path.lexically_normal().string() == text;
}

Result<std::string> string_of(const toml::node& node, std::string_view key) {
  if (auto value = node.value_exact<std::string>()) return *value;
  return fail(ErrorKind::kInvalid, fmt::format("\"{}\" must be a string", key));
}

Result<void> read_packages(const toml::node& node, File& file) {
  const toml::array* array = node.as_array();
  if (!array) return fail(ErrorKind::kInvalid, "\"packages\" must be a list of package names");
  for (const toml::node& element : *array) {
    auto name = element.value_exact<std::string>();
    if (!name || !is_package_name(*name))
      return fail(ErrorKind::kInvalid, fmt::format("\"packages\" has an entry that is no package name{}",
                                                   name ? fmt::format(": \"{}\"", *name) : ""));
    file.packages.push_back(*name);
  }
  return {};
}

// "numpy", "matplotlib.pyplot".
bool is_module_name(std::string_view text) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  bool begins = true;  // a part of it
  for (const char c : text) {
    if (!is_letter(c) && (begins || (!is_digit(c) && c != '.'))) return false;
    begins = c == '.';
  }
  return !begins && text.size() <= 128;
}

Result<void> read_imports(const toml::node& node, File& file) {
  const toml::array* array = node.as_array();
  if (!array) return fail(ErrorKind::kInvalid, "\"imports\" must be a list of Python modules");
  for (const toml::node& element : *array) {
    auto name = element.value_exact<std::string>();
    if (!name || !is_module_name(*name))
      return fail(ErrorKind::kInvalid, "\"imports\" has an entry that is no Python module's name");
    file.imports.push_back(*name);
  }
  return {};
}

Result<void> read_files(const toml::node& node, File& file) {
  const toml::table* table = node.as_table();
  if (!table) return fail(ErrorKind::kInvalid, "\"files\" must be a table from path to content");
  for (const auto& [key, value] : *table) {
    std::string path(key.str());
    auto content = value.value_exact<std::string>();
    if (!is_file_path(path))
      return fail(ErrorKind::kInvalid,
                  fmt::format("\"files\": \"{}\" is no absolute path without . and ..", path));
    if (!content)
      return fail(ErrorKind::kInvalid,
                  fmt::format("\"files\": the content of \"{}\" must be a string", path));
    file.files[path] = *content;
  }
  return {};
}

Result<void> read_entry(std::string_view key, const toml::node& node, File& file) {
  if (key == "packages") return read_packages(node, file);
  if (key == "files") return read_files(node, file);
  if (key == "imports") return read_imports(node, file);
  if (key != "description" && key != "suite" && key != "extends")
    return fail(
        ErrorKind::kInvalid,
        fmt::format(
            "unknown entry \"{}\"; there are description, suite, extends, packages, imports and files", key));
  auto text = string_of(node, key);
  if (!text) return fail(std::move(text).error());
  if (key == "description") {
    file.description = *text;
  } else if (key == "suite") {
    if (!is_suite(*text)) return fail(ErrorKind::kInvalid, "\"suite\" must name a Debian release");
    file.suite = *text;
  } else {
    if (!is_safe_name(*text)) return fail(ErrorKind::kInvalid, "\"extends\" must name a template");
    file.base = *text;
  }
  return {};
}

Result<File> read_file(const std::filesystem::path& folder, std::string_view name) {
  std::filesystem::path path = folder / (std::string(name) + ".toml");
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    return fail(
        ErrorKind::kNotFound,
        fmt::format("there is no template \"{}\"; `warren template list` shows those there are", name));
  toml::parse_result parsed = toml::parse_file(path.string());
  if (!parsed)
    return fail(ErrorKind::kInvalid,
                fmt::format("{}:{}: {}", path.string(), parsed.error().source().begin.line,
                            parsed.error().description()));
  File file;
  for (const auto& [key, value] : parsed.table())
    if (auto read = read_entry(key.str(), value, file); !read)
      return fail(std::move(read).error().in(path.string()));
  return file;
}

}  // namespace

std::string TemplateDefinition::digest() const {
  // Every part with its length before it, so that no two definitions read the same.
  std::string all;
  auto add = [&all](std::string_view part) { all += fmt::format("{}:{}\n", part.size(), part); };
  add(std::to_string(kFormatVersion));
  add(suite);
  add(std::to_string(packages.size()));
  for (const std::string& package : packages) add(package);
  for (const auto& [path, content] : files) {
    add(path);
    add(content);
  }
  return sha256_hex(all).substr(0, 16);
}

Result<TemplateDefinition> read_template_definition(const std::filesystem::path& folder,
                                                    std::string_view name) {
  if (!is_safe_name(name))
    return fail(ErrorKind::kInvalid,
                "a template's name has 1 to 64 characters of a-z, 0-9, _, . and -, not beginning with a dot");
  TemplateDefinition definition;
  definition.name = name;
  std::set<std::string> packages;
  std::optional<std::string> next(definition.name);
  for (int depth = 0; next; ++depth) {
    if (depth == kMaxChain)
      return fail(ErrorKind::kInvalid, fmt::format("template \"{}\": \"extends\" goes in a circle", name));
    auto file = read_file(folder, *next);
    if (!file) {
      Error error = std::move(file).error();
      if (depth == 0) return fail(std::move(error));
      return fail(ErrorKind::kInvalid, fmt::format("template \"{}\" extends: {}", name, error.message()));
    }
    if (depth == 0) definition.description = file->description;
    if (definition.suite.empty()) definition.suite = file->suite.value_or(std::string());
    packages.insert(file->packages.begin(), file->packages.end());
    definition.imports.insert(definition.imports.begin(), file->imports.begin(), file->imports.end());
    definition.files.merge(file->files);  // what is there already, from nearer by, stays
    next = file->base;
  }
  if (definition.suite.empty())
    return fail(ErrorKind::kInvalid, fmt::format("template \"{}\" names no \"suite\"", name));
  definition.packages.assign(packages.begin(), packages.end());
  return definition;
}

}  // namespace warren::runtime
