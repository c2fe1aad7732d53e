#include "runtime/root_builder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <utility>

#include "runtime/apt_sources.h"
#include "runtime/build_phases.h"
#include "runtime/child_lines.h"

namespace warren::runtime {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMmdebstrap = "/usr/bin/mmdebstrap";
// Documentation that nobody in a sandbox reads; licences stay, as they must.
constexpr std::array kDpkgOptions{
    "path-exclude=/usr/share/doc/*",     "path-include=/usr/share/doc/*/copyright",
    "path-exclude=/usr/share/man/*",     "path-exclude=/usr/share/info/*",
    "path-exclude=/usr/share/locale/*",  "path-include=/usr/share/locale/locale.alias",
    "path-exclude=/usr/share/lintian/*", "force-unsafe-io",
};
// The host's settings that decide whether and how its package sources can be reached.
constexpr std::array kHostAptSettings{
    "Acquire::http::Proxy",       "Acquire::https::Proxy", "Acquire::https::CaInfo",
    "Acquire::Check-Valid-Until", "Acquire::Check-Date",   "Acquire::Retries",
};
// The same of the environment.
constexpr std::array kHostVariables{
    "http_proxy", "https_proxy", "no_proxy",      "HTTP_PROXY",   "HTTPS_PROXY",
    "NO_PROXY",   "all_proxy",   "SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE",
};
// How many of mmdebstrap's last lines an error quotes.
constexpr std::size_t kQuotedLines = 6;

std::vector<std::string> environment() {
  std::vector<std::string> out{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8",
                               "DEBIAN_FRONTEND=noninteractive"};
  for (const char* name : kHostVariables)
    if (const char* value = std::getenv(name)) out.push_back(fmt::format("{}={}", name, value));
  return out;
}

// The value of an apt setting on this machine; empty if unset.
std::string host_apt_setting(std::string_view name) {
  std::string value;
  // Prints: VALUE='…'
  auto ran = run_lines({"/usr/bin/apt-config", "shell", "VALUE", std::string(name)}, environment(),
                       {[&](std::string_view line) {
                          if (line.starts_with("VALUE='") && line.ends_with('\''))
                            value = line.substr(7, line.size() - 8);
                        },
                        nullptr, Seconds(5)});
  // Such a value cannot be put into a setting again.
  if (!ran || value.find_first_of("\"'\\;") != std::string::npos) return {};
  return value;
}

std::vector<std::string> command(const TemplateDefinition& definition, const fs::path& root) {
  std::vector<std::string> argv{kMmdebstrap, "--verbose", "--variant=minbase", "--mode=root",
                                "--format=directory"};
  argv.emplace_back("--aptopt=Acquire::Languages \"none\"");
  for (const char* name : kHostAptSettings)
    if (std::string value = host_apt_setting(name); !value.empty())
      argv.push_back(fmt::format("--aptopt={} \"{}\"", name, value));
  for (const char* option : kDpkgOptions) argv.push_back(fmt::format("--dpkgopt={}", option));
  argv.push_back(fmt::format("--include={}", fmt::join(definition.packages, ",")));
  argv.push_back(definition.suite);
  argv.push_back(root.string());
  for (std::string& source : host_apt_sources("/etc/apt", definition.suite))
    argv.push_back(std::move(source));
  return argv;
}

// Writes `content` to the file `path` of the new root, in place of whatever is there.
Result<void> put(const fs::path& root, std::string_view path, std::string_view content, mode_t mode) {
  fs::path target = root / path.substr(1);
  std::error_code error;
  fs::create_directories(target.parent_path(), error);
  if (!error) fs::remove(target, error);
  if (error) return fail(Error::from_errno(target.string(), error.value()));
  std::ofstream out(target, std::ios::binary);
  out << content;
  out.close();
  if (!out || chmod(target.c_str(), mode) < 0) return fail_errno(fmt::format("write {}", target.string()));
  return {};
}

Result<void> empty_folder(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder, error)) return {};
  for (const auto& entry : fs::directory_iterator(folder, error)) fs::remove_all(entry.path(), error);
  if (error) return fail(Error::from_errno(fmt::format("empty {}", folder.string()), error.value()));
  return {};
}

}  // namespace

Result<void> finish_root(const TemplateDefinition& definition, const fs::path& root) {
  // What is of this machine, of the build, or only in the way. /dev is the sandbox's own.
  for (const char* folder :
       {"dev", "tmp", "var/tmp", "run", "var/cache/apt", "var/lib/apt/lists", "etc/apt/sources.list.d"})
    WARREN_TRY(empty_folder(root / folder));
  std::error_code error;
  for (const char* path : {"etc/machine-id", "var/lib/dbus/machine-id", "etc/apt/apt.conf.d/99mmdebstrap",
                           "var/log/dpkg.log", "var/log/bootstrap.log", "var/log/alternatives.log",
                           "var/log/apt/history.log", "var/log/apt/term.log", "var/log/apt/eipp.log.xz"})
    fs::remove(root / path, error);
  fs::create_directories(root / "run/lock", error);
  fs::create_directories(root / "var/lib/apt/lists/partial", error);
  fs::create_directories(root / "var/cache/apt/archives/partial", error);
  // The mark that keeps pip from installing; here the sandbox is its user's own.
  for (const auto& entry : fs::directory_iterator(root / "usr/lib", error))
    if (entry.path().filename().string().starts_with("python3."))
      fs::remove(entry.path() / "EXTERNALLY-MANAGED", error);

  std::string sources = fmt::format("{}\n", fmt::join(public_apt_sources(definition.suite), "\n"));
  const std::array<std::tuple<const char*, std::string, mode_t>, 6> ours{{
      {"/etc/resolv.conf", "# Written when the sandbox has a network.\n", 0644},
      {"/etc/hostname", "sandbox\n", 0644},
      {"/etc/hosts", "127.0.0.1 localhost sandbox\n::1 localhost ip6-localhost ip6-loopback\n", 0644},
      {"/etc/apt/sources.list", sources, 0644},
      {"/etc/apt/apt.conf.d/50warren",
       // There is one user; apt's own need not be able to read what root downloads.
       "APT::Install-Recommends \"false\";\nAPT::Sandbox::User \"root\";\nAcquire::Languages \"none\";\n"
       "Dpkg::Use-Pty \"false\";\n",
       0644},
      // Installing a server does not start it: there is no init.
      {"/usr/sbin/policy-rc.d", "#!/bin/sh\nexit 101\n", 0755},
  }};
  for (const auto& [path, content, mode] : ours) WARREN_TRY(put(root, path, content, mode));
  for (const auto& [path, content] : definition.files) WARREN_TRY(put(root, path, content, 0644));
  return {};
}

Result<void> build_root(const TemplateDefinition& definition, const fs::path& root,
                        const Progress& progress) {
  if (access(kMmdebstrap, X_OK) < 0)
    return fail(ErrorKind::kUnavailable, "mmdebstrap is not installed: apt install mmdebstrap");
  std::deque<std::string> last;
  BuildPhases phases;
  ChildHandlers handlers{[&](std::string_view line) {
                           last.emplace_back(line);
                           if (last.size() > kQuotedLines) last.pop_front();
                           const auto seen = phases.take(line);
                           if (!seen.step.empty()) progress.step(seen.step);
                           if (!seen.status.empty()) progress.status(seen.status);
                         },
                         [&](Seconds) { progress.status(phases.status()); }, Seconds(5)};
  auto code = run_lines(command(definition, root), environment(), handlers);
  if (!code) return fail(std::move(code).error());
  if (*code != 0)
    return fail(ErrorKind::kInternal,
                fmt::format("mmdebstrap failed with status {}: {}", *code, fmt::join(last, " | ")));
  return finish_root(definition, root);
}

}  // namespace warren::runtime
