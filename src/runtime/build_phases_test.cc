#include "runtime/build_phases.h"

#include <gtest/gtest.h>

namespace warren::runtime {
namespace {

TEST(BuildPhases, StepsAreWhatMmdebstrapItselfSays) {
  BuildPhases phases;
  EXPECT_EQ(phases.status(), "starting");
  EXPECT_EQ(phases.take("I: running apt-get update...").step, "running apt-get update");
  EXPECT_EQ(phases.status(), "running apt-get update");
  const auto list = phases.take("Get:4 http://deb.debian.org/debian bookworm/main amd64 Packages [8790 kB]");
  EXPECT_EQ(list.status, "retrieving the lists of packages");
  EXPECT_TRUE(list.step.empty());
  EXPECT_EQ(phases.take("E: Unable to locate package nope").step, "E: Unable to locate package nope");
}

TEST(BuildPhases, PackagesAreCountedInEachSet) {
  BuildPhases phases;
  EXPECT_TRUE(phases.take("0 upgraded, 2 newly installed, 0 to remove and 0 not upgraded.").status.empty());
  const auto get = [&phases](std::string_view package) {
    return phases
        .take("Get:1 http://deb.debian.org/debian bookworm/main amd64 " + std::string(package) +
              " amd64 1-1 [1 kB]")
        .status;
  };
  EXPECT_EQ(get("git"), "retrieving 1 of 2 packages (git)");
  EXPECT_EQ(get("curl"), "retrieving 2 of 2 packages (curl)");
  EXPECT_EQ(phases.take("Unpacking git:amd64 (1:2.39.5-0) ...").status, "unpacking 1 of 2 packages (git)");
  EXPECT_EQ(phases.take("Setting up git (1:2.39.5-0) ...").status, "setting up 1 of 2 packages (git)");
  phases.take("0 upgraded, 312 newly installed, 0 to remove and 0 not upgraded.");
  EXPECT_EQ(phases.take("Unpacking tree (2.1.0-1) ...").status, "unpacking 1 of 312 packages (tree)");
  EXPECT_EQ(phases.status(), "unpacking 1 of 312 packages (tree)");
}

TEST(BuildPhases, OtherLinesSayNothing) {
  BuildPhases phases;
  for (const char* line :
       {"", " ", "Reading package lists...", "Fetched 14.7 MB in 0s (267 MB/s)", "Get:", "Get:1 x y",
        "Unpacking", "Setting up", "Unpacking what nobody wrote", "1 2 3 newly installed,",
        "  libnumber-compare-perl libpam-modules libpam-modules-bin libpam-runtime"}) {
    const auto seen = phases.take(line);
    EXPECT_TRUE(seen.step.empty()) << line;
    EXPECT_TRUE(seen.status.empty() || std::string_view(line).starts_with("Get:")) << line;
  }
}

}  // namespace
}  // namespace warren::runtime
