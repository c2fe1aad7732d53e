// `warren doctor`: whether this host has what Warren needs, and what to do if not.
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>

#include "runtime/doctor.h"
#include "warren/command.h"
#include "warren/config.h"
#include "warren/console.h"
#include "warren/tls_files.h"

namespace warren::cli {
namespace {

constexpr auto kCertificateEndsSoon = std::chrono::days(14);

std::string_view mark(runtime::Condition condition) {
  switch (condition) {
    case runtime::Condition::kOk:
      return "ok";
    case runtime::Condition::kWarn:
      return "warning";
    case runtime::Condition::kMissing:
      break;
  }
  return "MISSING";
}

// What is the matter with the certificate, where one is set.
runtime::Finding examine_tls(const TlsFiles& files) {
  runtime::Finding finding;
  finding.name = "TLS";
  const auto text = read_tls_files(files);
  if (!text) {
    finding.condition = runtime::Condition::kMissing;
    finding.message = text.error().message();
    return finding;
  }
  const auto certificate = certificate_of(*text);
  if (!certificate) {
    finding.condition = runtime::Condition::kMissing;
    finding.message = certificate.error().message();
    return finding;
  }
  const auto left = (*certificate)->expires_at() - wall_now();
  finding.message = fmt::format("a certificate for {} until {}", (*certificate)->names(),
                                to_rfc3339((*certificate)->expires_at()));
  if (left < kCertificateEndsSoon) {
    finding.condition = runtime::Condition::kWarn;
    finding.message += ", which is soon: renew it; the files are read again when they change";
  }
  struct stat status {};
  if (stat(files.key.c_str(), &status) == 0 && (status.st_mode & 0077) != 0) {
    finding.condition = runtime::Condition::kWarn;
    finding.message += fmt::format("; others than its owner may read {}: chmod 600 it", files.key);
  }
  return finding;
}

// 1 if something is missing that Warren does not work without.
Result<int> examine() {
  const auto config = load_config();
  if (!config) return std::unexpected(config.error());
  std::string out;
  int missing = 0;
  runtime::DoctorOptions options{.home = config->home, .server_user = config->user};
  options.egress = config->egress ? std::optional(config->forwarding) : std::nullopt;
  auto findings = runtime::examine(options);
  if (config->tls.wanted()) findings.push_back(examine_tls(config->tls));
  for (const auto& finding : findings) {
    if (finding.condition == runtime::Condition::kMissing) ++missing;
    out += fmt::format("{:<9}{:<20}{}\n", mark(finding.condition), finding.name, finding.message);
  }
  out += missing == 0 ? "\nWarren can run here.\n"
                      : fmt::format("\n{} missing: Warren cannot run here until that is mended.\n", missing);
  WARREN_TRY(print(STDOUT_FILENO, out));
  return missing == 0 ? 0 : 1;
}

}  // namespace

void add_doctor_command(CLI::App& app, Action& chosen) {
  app.add_subcommand("doctor", "Say what this host has and lacks for Warren")->callback([&chosen] {
    chosen = examine;
  });
}

}  // namespace warren::cli
