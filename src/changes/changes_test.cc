#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/openat2.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>

#include "changes/diff.h"
#include "changes/operation_decoder.h"
#include "changes/overlay_under_test.h"
#include "changes/own_files.h"

namespace warren::changes {
namespace {

namespace fs = std::filesystem;

std::string listed(const Diff& diff) {
  std::string text;
  for (const auto& entry : diff.entries) {
    text += !entry.before ? "+" : !entry.after ? "-" : "~";
    text += entry.path + " ";
  }
  return text;
}

TEST(DiffTest, NothingChangedIsNothing) {
  Overlays overlays;
  overlays.write("lower", "root/a", "one\n");
  auto& a = overlays.make("a");
  auto& b = overlays.make("b");
  EXPECT_EQ(listed(overlays.diff(a, b)), "");
}

TEST(DiffTest, TellsWhatIsAddedRemovedAndModified) {
  Overlays overlays;
  overlays.write("lower", "root/changed", "one\n");
  overlays.write("lower", "root/gone", "one\n");
  overlays.write("lower", "root/stays", "one\n");
  overlays.write("lower", "root/touched", "one\n");
  auto& a = overlays.make("a");
  auto& b = overlays.make("b");
  b.write("root/changed", "two\n");
  b.write("root/new/file", "two\n");
  b.write("root/touched", "one\n");
  b.remove("root/gone");
  EXPECT_EQ(listed(overlays.diff(a, b)), "~/root/changed -/root/gone +/root/new +/root/new/file ");
  EXPECT_EQ(listed(overlays.diff(b, a)), "~/root/changed +/root/gone -/root/new -/root/new/file ");
}

TEST(DiffTest, TimesAndCopiesUpAreNoDifference) {
  Overlays overlays;
  overlays.write("lower", "root/touched", "one\n");
  overlays.write("lower", "root/mode", "one\n");
  auto& a = overlays.make("a");
  auto& b = overlays.make("b");
  fs::last_write_time(b.at("root/touched"), fs::file_time_type::clock::now() + std::chrono::hours(1));
  fs::permissions(b.at("root/mode"), fs::perms(0700));
  const Diff diff = overlays.diff(a, b);
  ASSERT_EQ(listed(diff), "~/root/mode ");
  EXPECT_EQ(diff.entries[0].before->mode, 0644U);
  EXPECT_EQ(diff.entries[0].after->mode, 0700U);
}

TEST(DiffTest, FilesThatWarrenWroteAreNoDifferenceUntilSomebodyChangesThem) {
  Overlays overlays;
  auto& before = overlays.make("before");
  auto& after = overlays.make("after");
  for (const auto& [overlay, name] : {std::pair{&before, "sbx-one1"}, {&after, "sbx-Two2"}}) {
    overlay->write("etc/hostname", hostname_file(name));
    overlay->write("etc/hosts", hosts_file(name));
  }
  EXPECT_TRUE(overlays.diff(before, after).entries.empty());
  after.write("etc/hosts", hosts_file("sbx-Two2") + "10.0.0.1\tmine\n");
  after.write("etc/hostname", "mine\n");
  const auto entries = overlays.diff(before, after).entries;
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].path, "/etc/hostname");
  EXPECT_EQ(entries[1].path, "/etc/hosts");
}

TEST(DiffTest, LooksOnlyBelowThePathsAskedFor) {
  Overlays overlays;
  auto& a = overlays.make("a");
  auto& b = overlays.make("b");
  for (const char* name : {"root/in", "rootout", "srv/file", "tmp/.warren/spool", "tmp/in", "proc/x"})
    b.write(name, "x");
  EXPECT_EQ(listed(overlays.diff(a, b, {"/root", "/tmp", "/root/deeper"})),
            "+/root +/root/in +/tmp +/tmp/in ");
  EXPECT_EQ(listed(overlays.diff(a, b, {"/srv/file"})), "+/srv/file ");
  EXPECT_EQ(listed(overlays.diff(a, b, {"/nowhere/at/all", "/proc"})), "");
}

TEST(DiffTest, AFolderRemovedAndMadeAnewHidesWhatWasInIt) {
  Overlays overlays;
  overlays.write("lower", "root/folder/a", "a\n");
  overlays.write("guest", "root/folder/b", "b\n");
  overlays.write("lower", "root/folder/c", "c\n");
  auto& a = overlays.make("a");
  auto& b = overlays.make("b");
  b.remove("root/folder");
  b.write("root/folder/c", "c\n");
  EXPECT_EQ(listed(overlays.diff(a, b)), "-/root/folder/a -/root/folder/b ");
}

TEST(DiffTest, TreesOverOtherLowersAreComparedWhole) {
  Overlays overlays;
  overlays.write("lower", "same", "x\n");
  overlays.write("lower", "mine", "x\n");
  overlays.write("other", "same", "x\n");
  overlays.write("other", "yours/deep", "x\n");
  auto& a = overlays.make("a");
  auto& b = overlays.make("b", overlays.at("other", ""));
  EXPECT_EQ(listed(overlays.diff(a, b)), "-/mine +/yours +/yours/deep ");
}

TEST(DiffTest, TextIsAsGitWritesIt) {
  Overlays overlays;
  overlays.write("lower", "root/a", "1\n2\n");
  overlays.write("lower", "root/binary", std::string("\0a", 2));
  auto& a = overlays.make("a");
  auto& b = overlays.make("b");
  b.write("root/a", "1\ntwo");
  b.write("root/new", "n\n");
  b.write("root/binary", std::string("\0b", 2));
  b.write("root/huge", std::string(2 << 20, 'x'));
  b.write("root/latin", "caf\xe9\n");
  const Diff diff = overlays.diff(a, b, {"/root"}, WithText::kYes);
  ASSERT_EQ(listed(diff), "~/root/a ~/root/binary +/root/huge +/root/latin +/root/new ");
  const auto& text = diff.entries[0].text;
  ASSERT_TRUE(text);
  EXPECT_TRUE(text->starts_with("diff --git a/root/a b/root/a\n")) << *text;
  EXPECT_TRUE(text->ends_with(
      "--- a/root/a\n+++ b/root/a\n@@ -1,2 +1,2 @@\n 1\n-2\n+two\n\\ No newline at end of file\n"))
      << *text;
  EXPECT_EQ(diff.entries[1].no_text, NoText::kBinary);
  EXPECT_EQ(diff.entries[2].no_text, NoText::kTooLarge);
  EXPECT_NE(diff.entries[3].text->find("+caf\xe9\n"), std::string::npos);
  EXPECT_NE(diff.entries[4].text->find("--- /dev/null\n+++ b/root/new\n"), std::string::npos)
      << *diff.entries[4].text;
}

TEST(DiffTest, TextEndsAtItsLimitAndTheListGoesOn) {
  Overlays overlays;
  auto& a = overlays.make("a");
  auto& b = overlays.make("b");
  for (int i = 0; i < 6; ++i) b.write("root/" + std::to_string(i), std::string(900'000, 'x') + "\n");
  const Diff diff = overlays.diff(a, b, {"/root"}, WithText::kYes);
  ASSERT_EQ(diff.entries.size(), 7U);
  EXPECT_TRUE(diff.entries[1].text);
  EXPECT_EQ(diff.entries[6].no_text, NoText::kLimit);
}

TEST(DiffTest, AFolderOfManyEntriesIsTruncated) {
  Overlays overlays;
  auto& a = overlays.make("a");
  auto& b = overlays.make("b");
  fs::create_directory(b.at("many"));
  const UniqueFd folder(::open(b.at("many").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (int i = 0; i < 30'000; ++i)
    ASSERT_EQ(::mknodat(folder.get(), std::to_string(i).c_str(), S_IFREG | 0600, 0), 0);
  const Diff diff = overlays.diff(a, b);
  EXPECT_TRUE(diff.truncated);
  EXPECT_EQ(diff.entries.size(), kMostEntries);
}

TEST(DiffTest, DeepFoldersHolesAndOddNamesEndWell) {
  Overlays overlays;
  auto& a = overlays.make("a");
  auto& b = overlays.make("b");
  UniqueFd folder(::open(b.mount.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (int i = 0; i < 4000; ++i) {
    ASSERT_EQ(::mkdirat(folder.get(), "d", 0700), 0);
    folder.reset(::openat(folder.get(), "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ASSERT_TRUE(folder);
  }
  for (auto* side : {&a, &b}) {
    side->write("hole", side == &a ? "a" : "b");
    fs::resize_file(side->at("hole"), std::uintmax_t{4} << 40);
    side->write("same-hole", "s");
    fs::resize_file(side->at("same-hole"), std::uintmax_t{4} << 40);
  }
  b.write("\xff", "x");
  ASSERT_EQ(::mkfifo(b.at("fifo").c_str(), 0600), 0);
  const Diff diff = overlays.diff(a, b);
  EXPECT_TRUE(diff.truncated);  // what lies too deep
  EXPECT_EQ(diff.entries.size(), kLongestPath / 2 + 3);
  const Diff rest = overlays.diff(a, b, {"/hole", "/same-hole", "/fifo", "/\xff"});
  EXPECT_EQ(listed(rest), "+/fifo ~/hole +/\xff ");
}

// What an unchanged inode proves.
TEST(DiffTest, SnapshotsOfOneFileAreNotReadOnceTheyAreSettled) {
  Overlays overlays(Overlays::Disk::kBtrfs);
  auto& parent = overlays.make("parent");
  parent.write("root/file", "one\n");
  auto& a = overlays.fork(parent, "a");
  auto& b = overlays.fork(parent, "b");
  b.write("root/file", "two\n");
  EXPECT_EQ(listed(overlays.diff(a, b, {"/"}, WithText::kNo, INT64_MAX)), "~/root/file ");
  EXPECT_EQ(listed(overlays.diff(a, b)), "~/root/file ");
  EXPECT_EQ(listed(overlays.diff(parent, a, {"/"}, WithText::kNo, INT64_MAX)), "");
}

TEST(AnswerTest, WhatIsEncodedIsRead) {
  const DiffEntry entry{.path = "/\xff",
                        .before = Side{.type = Type::kSymlink, .mode = 0777, .target = "t\xfe"},
                        .after = Side{.type = Type::kFile, .size = 5, .mode = 0644},
                        .text = "caf\xe9"};
  DiffAnswer answer;
  ASSERT_TRUE(answer.feed(encode(entry)));
  ASSERT_TRUE(answer.feed(encode(DiffEnd{.truncated = true})));
  const auto diff = std::move(answer).finish();
  ASSERT_TRUE(diff);
  EXPECT_TRUE(diff->truncated);
  EXPECT_EQ(diff->entries[0].path, entry.path);
  EXPECT_EQ(diff->entries[0].before->target, "t\xfe");
  EXPECT_EQ(diff->entries[0].after->size, 5U);
  EXPECT_EQ(diff->entries[0].text, entry.text);
}

TEST(AnswerTest, GarbageIsRefused) {
  const std::string end = encode(DiffEnd{});
  for (const std::string& bad :
       {std::string("\n"), std::string("{}\n"), std::string("[]\n"), std::string("{\"path\":\"/x\"}\n"),
        std::string("{\"path\":\"x\",\"after\":{\"type\":\"file\",\"size\":1,\"mode\":1}}\n"),
        std::string("{\"path\":\"/x\",\"after\":{\"type\":\"odd\",\"size\":1,\"mode\":1}}\n"),
        std::string("{\"path\":\"/x\",\"after\":{\"type\":\"file\",\"size\":-1,\"mode\":1}}\n"),
        std::string("{\"path\":\"/x\",\"after\":{\"type\":\"file\",\"size\":1e3,\"mode\":1}}\n"),
        std::string("{\"path\":\"/x\",\"after\":{\"type\":\"file\",\"size\":1,\"mode\":1},\"more\":1}\n"),
        std::string(1000, '[') + "\n", std::string("\xff\xfe\n"), end + "x", end + end}) {
    DiffAnswer answer;
    EXPECT_FALSE(answer.feed(bad)) << bad.substr(0, 100);
  }
  DiffAnswer flood;
  const std::string piece(1 << 20, 'x');
  int pieces = 0;
  while (flood.feed(piece)) ASSERT_LT(++pieces, 64);
  DiffAnswer cut;
  EXPECT_EQ(std::move(cut).finish().error().kind(), ErrorKind::kUnavailable);
}

TEST(AnswerTest, AReportIsReadAndLeavesTheOperations) {
  MergeReport report{.operations = 3, .content_bytes = 7};
  report.added = {"/a", "/\xff"};
  report.renamed = {{.from = "/b", .path = "/c"}};
  report.conflicts = {{.path = "/d", .reason = "r", .resolved = OnConflict::kTheirs}};
  report.skipped = {{.path = "/e", .reason = "s"}};
  report.counts.added = 2;
  const std::string bytes = encode(report) + "rest";
  MergeAnswer answer;
  for (std::size_t i = 0; i < bytes.size() - 4; ++i) {
    std::string_view one(bytes.data() + i, 1);
    ASSERT_TRUE(answer.feed(one));
    ASSERT_TRUE(one.empty());
  }
  ASSERT_TRUE(answer.report());
  std::string_view rest = "rest";
  ASSERT_TRUE(answer.feed(rest));
  EXPECT_EQ(rest, "rest");
  EXPECT_EQ(answer.report()->added, report.added);
  EXPECT_EQ(answer.report()->renamed[0].from, "/b");
  EXPECT_EQ(answer.report()->conflicts[0].resolved, OnConflict::kTheirs);
  EXPECT_EQ(answer.report()->counts.added, 2U);
  for (const std::string& bad :
       {std::string("{\"report\":{}}\n"), std::string("{}\n"), std::string("null\n")}) {
    MergeAnswer refusing;
    std::string_view view = bad;
    EXPECT_FALSE(refusing.feed(view));
  }
}

class Recorder final : public OperationHandler {
 public:
  Result<void> begin(Operation operation) override {
    operations.push_back(std::move(operation));
    return {};
  }
  Result<void> content(std::uint64_t offset, std::string_view bytes) override {
    contents[offset] += bytes;
    return {};
  }
  std::vector<Operation> operations;
  std::map<std::uint64_t, std::string> contents;
};

TEST(OperationTest, AStreamIsReadInPiecesOfAnySize) {
  Operation file{.kind = OperationKind::kFile, .path = "/a\xff", .size = 100, .segments = {{0, 3}, {50, 2}}};
  file.attributes = {.mode = 0640, .uid = 1, .gid = 2, .mtime_ns = -5, .xattrs = Xattrs{{"user.x", "\xff"}}};
  file.was = Was{.nothing = false, .size = 9, .mtime_ns = 8};
  const Operation remove{.kind = OperationKind::kRemove, .path = "/b", .was = Was{}};
  const std::string bytes = encode(file) + "abcde" + encode(remove) + encode_end(2);
  for (const std::size_t size : {std::size_t{1}, std::size_t{7}, bytes.size()}) {
    OperationDecoder decoder;
    Recorder recorder;
    for (std::size_t at = 0; at < bytes.size(); at += size)
      ASSERT_TRUE(decoder.feed(std::string_view(bytes).substr(at, size), recorder));
    ASSERT_TRUE(decoder.ended());
    ASSERT_EQ(recorder.operations.size(), 2U);
    EXPECT_EQ(recorder.operations[0].path, "/a\xff");
    EXPECT_EQ(recorder.operations[0].attributes.mtime_ns, -5);
    EXPECT_EQ(recorder.operations[0].attributes.xattrs, file.attributes.xattrs);
    EXPECT_EQ(recorder.operations[0].was->size, 9U);
    EXPECT_TRUE(recorder.operations[1].was->nothing);
    std::string content;
    for (const auto& [offset, piece] : recorder.contents) content += piece;
    EXPECT_EQ(content, "abcde");
  }
}

TEST(OperationTest, GarbageIsRefused) {
  for (
      const char* const bad :
      {R"({"op":"remove","path":"/"})", R"({"op":"remove","path":"a"})",
       R"({"op":"remove","path":"/a/../b"})", R"({"op":"remove","path":"/a//b"})",
       R"({"op":"remove","path":"/a\u0000"})", R"({"op":"odd","path":"/a"})",
       R"({"op":"remove","path":"/a","more":1})", R"({"op":"remove"})", R"([])", R"({"op":"end","count":1})",
       R"({"op":"file","path":"/a","mode":1,"uid":0,"gid":0,"size":5,"segments":[[0,6]]})",
       R"({"op":"file","path":"/a","mode":1,"uid":0,"gid":0,"size":5,"segments":[[0,2],[1,2]]})",
       R"({"op":"file","path":"/a","mode":1,"uid":0,"gid":0,"size":5,"segments":[[9223372036854775807,2]]})",
       R"({"op":"file","path":"/a","mode":4096,"uid":0,"gid":0,"size":0,"segments":[]})",
       R"({"op":"file","path":"/a","mode":1,"uid":0,"gid":0,"size":0,"segments":[],"xattrs":{"trusted.x":""}})",
       R"({"op":"file","path":"/a","mode":1,"uid":0,"gid":0,"size":0,"segments":[],"xattrs":{"user.overlay.opaque":"eQ=="}})",
       R"({"op":"symlink","path":"/a","target":"","uid":0,"gid":0})"}) {
    OperationDecoder decoder;
    Recorder recorder;
    EXPECT_FALSE(decoder.feed(std::string(bad) + "\n", recorder)) << bad;
  }
  OperationDecoder decoder;
  Recorder recorder;
  EXPECT_FALSE(decoder.feed(std::string(2 << 20, ' '), recorder));
  OperationDecoder ended;
  ASSERT_TRUE(ended.feed(encode_end(0), recorder));
  EXPECT_FALSE(ended.feed("x", recorder));
}

// Runs `attempt` in a process confined to `folder`, which ends with what it returns.
int in_confinement(const fs::path& folder, const std::function<int(int folder)>& attempt) {
  const auto filter = ReadingFilter::compile();
  EXPECT_TRUE(filter);
  const UniqueFd opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) {
    std::vector<UniqueFd> folders;
    auto copy = read_only_copy(opened.get());
    if (!copy) ::_exit(100);
    folders.push_back(*std::move(copy));
    const UniqueFd answer(::open("/dev/null", O_WRONLY | O_CLOEXEC));
    if (!confine(folders, answer.get(), parent, *filter)) ::_exit(101);
    ::_exit(attempt(folders.front().get()));
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 200;
}

TEST(ConfinementTest, AWorkerReadsAndDoesNothingElse) {
  Overlays overlays;
  overlays.write("lower", "file", "x");
  overlays.write("lower", "private", "x");
  fs::permissions(overlays.at("lower", "private"), fs::perms(0));
  fs::permissions(overlays.at("lower", "file"), fs::perms(0666));
  const fs::path lower = overlays.at("lower", "");
  const auto open_how_of = [](int flags) {
    return open_how{.flags = static_cast<std::uint64_t>(flags), .mode = 0, .resolve = 0};
  };
  const auto opens = [&](int folder, const char* path, int flags) {
    open_how how = open_how_of(flags);
    if ((flags & O_CREAT) != 0) how.mode = 0600;
    const long fd = ::syscall(SYS_openat2, folder, path, &how, sizeof how);
    return fd >= 0;
  };
  EXPECT_EQ(in_confinement(lower, [&](int f) { return opens(f, "private", O_RDONLY) ? 0 : 1; }), 0);
  EXPECT_EQ(in_confinement(lower, [&](int f) { return opens(f, "file", O_WRONLY) ? 1 : 0; }), 0);
  EXPECT_EQ(in_confinement(lower, [&](int f) { return opens(f, "file", O_RDONLY | O_TRUNC) ? 1 : 0; }), 0);
  EXPECT_EQ(in_confinement(lower, [&](int f) { return opens(f, "new", O_WRONLY | O_CREAT) ? 1 : 0; }), 0);
  // Out of the folder: its parent has "guest" in it.
  EXPECT_EQ(in_confinement(lower, [&](int f) { return opens(f, "../guest", O_RDONLY) ? 1 : 0; }), 0);
  EXPECT_EQ(in_confinement(lower, [&](int f) { return opens(f, "/proc/self/status", O_RDONLY) ? 1 : 0; }), 0);
  EXPECT_EQ(in_confinement(lower, [&](int f) { return opens(f, "/../../etc/passwd", O_RDONLY) ? 1 : 0; }), 0);
  for (const long call :
       {SYS_openat, SYS_open, SYS_socket, SYS_fork, SYS_clone, SYS_execve, SYS_kill, SYS_ptrace, SYS_unlinkat,
        SYS_ioctl, SYS_fcntl, SYS_setuid, SYS_capset, SYS_mount, SYS_chroot})
    EXPECT_EQ(in_confinement(
                  lower, [&](int) { return ::syscall(call, -1, 0, 0, 0, 0) < 0 && errno == EPERM ? 0 : 1; }),
              0)
        << call;
  EXPECT_EQ(in_confinement(lower,
                           [](int) {
                             void* const page = ::mmap(nullptr, 4096, PROT_READ | PROT_EXEC,
                                                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                             return page == MAP_FAILED ? 0 : 1;
                           }),
            0);
}

TEST(WorkerTest, EndsWhenNobodyReads) {
  Overlays overlays;
  auto& a = overlays.make("a");
  auto& b = overlays.make("b");
  for (int i = 0; i < 2000; ++i) b.write("root/" + std::to_string(i) + std::string(200, 'n'), "x");
  const auto workers = Workers::prepare();
  ASSERT_TRUE(workers);
  const UniqueFd before(::open((a.upper / "data").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const UniqueFd after(::open((b.upper / "data").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  auto worker = workers->start(DiffJob{.before = {before.get()}, .after = {after.get()}, .paths = {"/"}});
  ASSERT_TRUE(worker);
  worker->answer.reset();
  int status = 0;
  EXPECT_EQ(::waitpid(worker->pid, &status, 0), worker->pid);
  EXPECT_FALSE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

// Whoever writes in the sandbox goes on doing so while it is read.
TEST(WorkerTest, ATreeThatChangesUnderItGivesAnAnswerOrAnError) {
  Overlays overlays;
  auto& parent = overlays.make("parent");
  for (int i = 0; i < 50; ++i) parent.write("d/" + std::to_string(i % 5) + "/" + std::to_string(i), "text\n");
  auto& winner = overlays.fork(parent, "winner");
  const pid_t writer = ::fork();
  if (writer == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (unsigned i = 0;; ++i) {
      const std::string path = winner.at("d/" + std::to_string(i * 7 % 5) + "/" + std::to_string(i % 60));
      switch (i % 7) {
        case 0:
          ::unlink(path.c_str());
          break;
        case 1:
          ::symlink("/etc/passwd", path.c_str());
          break;
        case 2:
          ::mkdir(path.c_str(), 0700);
          break;
        case 3:
          ::mkfifo(path.c_str(), 0600);
          break;
        case 4:
          ::rmdir(path.c_str());
          break;
        default: {
          const UniqueFd file(
              ::open(path.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
          static_cast<void>(::ftruncate(file.get(), i * 997 % 100'000));
        }
      }
    }
  }
  int answers = 0;
  for (int i = 0; i < 40; ++i) {
    overlays.diff(parent, winner, {"/"}, WithText::kYes);
    const auto merged = overlays.merge(parent, winner, OnConflict::kTheirs);
    if (merged.report) ++answers;
    if (merged.error) {
      EXPECT_EQ(merged.error->kind(), ErrorKind::kConflict) << merged.error->message();
    }
  }
  ::kill(writer, SIGKILL);
  ::waitpid(writer, nullptr, 0);
  EXPECT_GT(answers, 0);
}

TEST(WorkerTest, RefusesJobsThatMakeNoSense) {
  const auto workers = Workers::prepare();
  ASSERT_TRUE(workers);
  EXPECT_EQ(workers->start(DiffJob{}).error().kind(), ErrorKind::kInvalid);
  EXPECT_EQ(workers->start(DiffJob{.before = {0}, .after = {0}, .paths = {"relative"}}).error().kind(),
            ErrorKind::kInvalid);
  EXPECT_EQ(workers->start(DiffJob{.before = {0}, .after = {0}, .paths = {"/a/../b"}}).error().kind(),
            ErrorKind::kInvalid);
  EXPECT_EQ(workers->start(MergeJob{}).error().kind(), ErrorKind::kInvalid);
}

}  // namespace
}  // namespace warren::changes
