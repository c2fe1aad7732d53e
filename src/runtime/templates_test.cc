// Definitions, digests, listing and this machine's sources. Building for real needs
// root and the network, and takes minutes: tests/e2e does it.
#include "runtime/templates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "runtime/apt_sources.h"
#include "runtime/child_lines.h"

namespace warren::runtime {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class TemplatesTest : public ::testing::Test {
 protected:
  TemplatesTest() {
    std::string pattern = (fs::temp_directory_path() / "templates_test.XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    fs::create_directories(definitions());
  }
  ~TemplatesTest() override { fs::remove_all(folder_); }

  fs::path definitions() const { return folder_ / "definitions"; }
  Templates templates() const { return {folder_ / "home/templates", definitions()}; }

  void write(const fs::path& path, std::string_view text) const {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  void define(const std::string& name, std::string_view text) const {
    write(definitions() / (name + ".toml"), text);
  }
  Result<TemplateDefinition> read(std::string_view name) const {
    return read_template_definition(definitions(), name);
  }
  void expect_refused(std::string_view text, std::string_view reason) const {
    define("bad", text);
    auto definition = read("bad");
    ASSERT_FALSE(definition) << text;
    EXPECT_EQ(definition.error().kind(), ErrorKind::kInvalid) << definition.error().message();
    EXPECT_THAT(definition.error().message(), HasSubstr(reason));
  }

  fs::path folder_;
};

constexpr std::string_view kBase = R"(
description = "the base"
suite = "bookworm"
packages = ["git", "curl"]
[files]
"/etc/a" = "base"
"/etc/b" = "base"
)";

TEST_F(TemplatesTest, ADefinitionIsRead) {
  define("base", kBase);
  auto definition = read("base");
  ASSERT_TRUE(definition) << definition.error().message();
  EXPECT_EQ(definition->description, "the base");
  EXPECT_EQ(definition->suite, "bookworm");
  EXPECT_THAT(definition->packages, ElementsAre("curl", "git"));
  EXPECT_EQ(definition->files.at("/etc/a"), "base");
}

TEST_F(TemplatesTest, AnExtensionHasThePackagesAndFilesOfItsBase) {
  define("base", kBase);
  define("more",
         "description = 'more'\nextends = 'base'\npackages = ['jq', 'git']\nfiles = {'/etc/b' = 'mine'}");
  auto definition = read("more");
  ASSERT_TRUE(definition) << definition.error().message();
  EXPECT_EQ(definition->description, "more");
  EXPECT_EQ(definition->suite, "bookworm");
  EXPECT_THAT(definition->packages, ElementsAre("curl", "git", "jq"));
  EXPECT_EQ(definition->files.at("/etc/a"), "base");
  EXPECT_EQ(definition->files.at("/etc/b"), "mine");
}

TEST_F(TemplatesTest, BrokenDefinitionsAreRefusedWithTheReason) {
  define("circle", "suite = 'bookworm'\nextends = 'circle'");
  auto circle = read("circle");
  ASSERT_FALSE(circle);
  EXPECT_THAT(circle.error().message(), HasSubstr("circle"));
  expect_refused("packages = ['git']", "suite");
  expect_refused("suite = 'bookworm'\nextends = 'nowhere'", "nowhere");
  expect_refused("suite = 'bookworm'\nextends = '../x'", "extends");
  expect_refused("suite = 'bookworm'\npackges = []", "packges");
  expect_refused("suite = 'bookworm'\npackages = 'git'", "list");
  expect_refused("suite = 'bookworm'\npackages = [1]", "package");
  expect_refused("suite = '--mode=fakeroot'", "suite");
  expect_refused("suite = 3", "string");
  expect_refused("suite = ", ":1:");
  for (const char* name : {"--option", "a b", "git,curl", "git=1.0", "git/sid", "git-", "git+", "?all", "~n",
                           "A", "", "git\\u0000"})
    expect_refused("suite = 'bookworm'\npackages = [\"" + std::string(name) + "\"]", "package");
  for (const char* path : {"etc/a", "/etc/../../a", "/", "/etc/", "/etc//a", "/./a"})
    expect_refused("suite = 'bookworm'\nfiles = {\"" + std::string(path) + "\" = ''}", "path");
  expect_refused("suite = 'bookworm'\nfiles = {'/a' = 1}", "content");
}

TEST_F(TemplatesTest, NamesThatAreNoneNeverReachAPath) {
  for (const char* name : {"", "..", "../default", "a/b", "Default", ".hidden"}) {
    auto root = templates().root_of(name);
    ASSERT_FALSE(root) << name;
    EXPECT_EQ(root.error().kind(), ErrorKind::kInvalid) << name;
  }
}

TEST_F(TemplatesTest, TheDigestFollowsWhatIsBuiltAndNothingElse) {
  define("base", kBase);
  const std::string before = read("base")->digest();
  EXPECT_EQ(before.size(), 16U);
  define("base",
         "packages = ['curl', 'git', 'git']\nsuite = 'bookworm'\nfiles = {'/etc/b' = 'base', '/etc/a' = "
         "'base'}");
  EXPECT_EQ(read("base")->digest(), before) << "order, repetition and description do not matter";
  for (const char* other :
       {"suite = 'trixie'\npackages = ['curl', 'git']\nfiles = {'/etc/b' = 'base', '/etc/a' = 'base'}",
        "suite = 'bookworm'\npackages = ['curl']\nfiles = {'/etc/b' = 'base', '/etc/a' = 'base'}",
        "suite = 'bookworm'\npackages = ['curl', 'git']\nfiles = {'/etc/b' = 'base', '/etc/a' = 'x'}"}) {
    define("base", other);
    EXPECT_NE(read("base")->digest(), before) << other;
  }
}

TEST_F(TemplatesTest, OnlyABuiltTemplateHasARoot) {
  EXPECT_THAT(templates().list(), IsEmpty());
  EXPECT_EQ(templates().root_of("base").error().kind(), ErrorKind::kNotFound);
  define("base", kBase);
  define("broken", "suite =");
  EXPECT_EQ(templates().root_of("base").error().kind(), ErrorKind::kConflict);
  auto list = templates().list();
  ASSERT_EQ(list.size(), 1U);
  EXPECT_EQ(list[0].name, "base");
  EXPECT_FALSE(list[0].built);

  fs::path root = folder_ / "home/templates" / ("base-" + list[0].digest);
  fs::create_directories(root);
  EXPECT_TRUE(templates().list()[0].built);
  ASSERT_TRUE(templates().root_of("base"));
  EXPECT_EQ(*templates().root_of("base"), root);
  const auto unexpected = [](std::string_view line) { ADD_FAILURE() << line; };
  auto built = templates().build("base", {.step = unexpected, .status = unexpected});
  ASSERT_TRUE(built);
  EXPECT_TRUE(built->built);
}

TEST_F(TemplatesTest, AFinishedRootHasNothingOfThisMachine) {
  define("base", kBase);
  fs::path root = folder_ / "root";
  write(root / "etc/machine-id", "0123");
  write(root / "etc/resolv.conf", "nameserver 10.1.2.3");
  write(root / "etc/hostname", "build-host");
  write(root / "etc/apt/sources.list", "deb http://mirror.internal/debian bookworm main");
  write(root / "etc/apt/sources.list.d/0000mirror.list", "deb http://mirror.internal/debian bookworm main");
  write(root / "etc/apt/apt.conf.d/99mmdebstrap", "Acquire::http::Proxy \"http://proxy.internal\";");
  write(root / "usr/lib/python3.11/EXTERNALLY-MANAGED", "[externally-managed]");
  write(root / "dev/null", "");
  auto finished = finish_root(*read("base"), root);
  ASSERT_TRUE(finished) << finished.error().message();
  for (const char* gone :
       {"etc/machine-id", "etc/apt/sources.list.d/0000mirror.list", "etc/apt/apt.conf.d/99mmdebstrap",
        "usr/lib/python3.11/EXTERNALLY-MANAGED", "dev/null"})
    EXPECT_FALSE(fs::exists(root / gone)) << gone;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream in(entry.path());
    std::string text(std::istreambuf_iterator<char>(in), {});
    EXPECT_THAT(text, ::testing::Not(HasSubstr("internal"))) << entry.path();
    EXPECT_THAT(text, ::testing::Not(HasSubstr("10.1.2.3"))) << entry.path();
  }
  EXPECT_TRUE(fs::exists(root / "etc/a"));
  EXPECT_EQ(access((root / "usr/sbin/policy-rc.d").c_str(), X_OK), 0);
}

TEST_F(TemplatesTest, SourcesOfBothFormatsAreFoundAndThirdPartiesAreNot) {
  write(folder_ / "apt/sources.list",
        "# deb http://commented.example/debian bookworm main\n"
        "deb [arch=amd64] http://mirror.example/debian bookworm main contrib\n"
        "deb-src http://mirror.example/debian bookworm main\n"
        "deb http://other.example/debian trixie main\n"
        "deb http://vendor.example/packages bookworm main\n"
        "deb [broken http://mirror.example/debian bookworm main\n");
  write(folder_ / "apt/sources.list.d/security.sources",
        "Types: deb deb-src\nURIs: http://mirror.example/debian-security\n"
        "Suites: bookworm-security\nComponents: main\n\n"
        "Types: deb\nURIs: http://vendor.example/debian\nSuites: bookworm\nComponents: main\n"
        "Signed-By: /usr/share/keyrings/vendor.gpg\n\n"
        "Types: deb\nEnabled: no\nURIs: http://off.example/debian\nSuites: bookworm\nComponents: main\n");
  write(folder_ / "apt/sources.list.d/off.list.disabled", "deb http://off.example/debian bookworm main\n");
  auto sources = host_apt_sources(folder_ / "apt", "bookworm");
  EXPECT_THAT(sources,
              ElementsAre(HasSubstr("http://mirror.example/debian bookworm main"),
                          HasSubstr("http://mirror.example/debian-security bookworm-security main")));
}

TEST_F(TemplatesTest, WithoutSourcesOfItsOwnAMachineUsesThePublicOnes) {
  EXPECT_EQ(host_apt_sources(folder_ / "apt", "bookworm"), public_apt_sources("bookworm"));
  write(folder_ / "apt/sources.list", "deb http://mirror.example/debian-security bookworm-security main\n");
  EXPECT_EQ(host_apt_sources(folder_ / "apt", "bookworm"), public_apt_sources("bookworm"));
}

TEST(ChildLines, HandsOutLinesAndTheExitCode) {
  std::vector<std::string> lines;
  ChildHandlers handlers{[&](std::string_view line) { lines.emplace_back(line); }, nullptr, Seconds(5)};
  auto code = run_lines({"/bin/sh", "-c", "echo one; echo two >&2; printf 'three\\rfour'; echo; exit 7"}, {},
                        handlers);
  ASSERT_TRUE(code);
  EXPECT_EQ(*code, 7);
  EXPECT_THAT(lines, ElementsAre("one", "two", "three", "four"));
  EXPECT_EQ(*run_lines({"/bin/sh", "-c", "kill -9 $$"}, {}, handlers), 137);
  EXPECT_EQ(*run_lines({"/nonexistent"}, {}, handlers), 127);
}

TEST(ChildLines, SaysThatASilentProgramStillRuns) {
  int quiet = 0;
  ChildHandlers handlers{[](std::string_view) {}, [&](Seconds) { ++quiet; }, Seconds(1)};
  EXPECT_EQ(*run_lines({"/bin/sleep", "1.5"}, {}, handlers), 0);
  EXPECT_EQ(quiet, 1);
}

}  // namespace
}  // namespace warren::runtime
