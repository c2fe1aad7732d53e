// Random edits of two forks of random trees, merged by worker and agent, against a model that
// merges nested maps.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "agent/application.h"
#include "changes/overlay_under_test.h"

namespace warren::agent {
namespace {

using changes::OnConflict;
using changes::Overlay;
using changes::Overlays;
namespace fs = std::filesystem;

// A file with its content, or a folder with what is in it.
struct Value {
  bool folder = false;
  std::string content;
  std::map<std::string, Value> in;
  bool operator==(const Value&) const = default;
};
using Maybe = std::optional<Value>;

bool is_folder(const Maybe& value) { return value && value->folder; }

Maybe get(const Maybe& folder, const std::string& name) {
  if (!is_folder(folder)) return std::nullopt;
  const auto found = folder->in.find(name);
  return found == folder->in.end() ? std::nullopt : Maybe(found->second);
}

std::vector<std::string> names_of(const std::vector<const Maybe*>& folders) {
  std::set<std::string> names;
  for (const Maybe* folder : folders)
    if (is_folder(*folder))
      for (const auto& [name, value] : (*folder)->in) names.insert(name);
  return {names.begin(), names.end()};
}

// Files are no text, each content is written once, modes stay: only whole values change.
class Model {
 public:
  explicit Model(OnConflict side) : side_(side) {}

  Maybe merge(const Maybe& base, const Maybe& ours, const Maybe& theirs) {
    if (is_folder(theirs)) {
      if (is_folder(ours)) {
        Value merged{.folder = true};
        const Maybe inner = is_folder(base) ? base : Maybe();
        for (const auto& name : names_of({&inner, &ours, &theirs}))
          if (auto value = merge(get(inner, name), get(ours, name), get(theirs, name)))
            merged.in[name] = *std::move(value);
        return merged;
      }
      if (is_folder(base)) {
        auto changed = changes_in(*base, *theirs);
        if (!changed) return ours;
        ++conflicts;
        return side_ == OnConflict::kTheirs ? changed : ours;
      }
      if (ours == base) return theirs;
      return conflict(ours, theirs);
    }
    if (!theirs) {
      if (!base || !ours) return ours;
      if (is_folder(base)) return is_folder(ours) ? leave(*base, *ours) : conflict(ours, theirs);
      return ours == base ? Maybe() : conflict(ours, theirs);
    }
    if (theirs == base || ours == theirs) return ours;
    if (ours == base) return theirs;
    return conflict(ours, theirs);
  }

  int conflicts = 0;

 private:
  Maybe conflict(const Maybe& ours, const Maybe& theirs) {
    ++conflicts;
    return side_ == OnConflict::kTheirs ? theirs : ours;
  }

  // What the winner changed or added in a folder that the parent no longer has.
  static Maybe changes_in(const Value& base, const Value& theirs) {
    Value changed{.folder = true};
    for (const auto& [name, now] : theirs.in) {
      const Maybe before = get(base, name);
      if (now.folder && is_folder(before)) {
        if (auto inner = changes_in(*before, now)) changed.in[name] = *std::move(inner);
      } else if (before != now) {
        changed.in[name] = now;
      }
    }
    return changed.in.empty() ? Maybe() : changed;
  }

  // What stays of a folder that the winner deleted.
  Maybe leave(const Value& base, const Value& ours) {
    Value left{.folder = true};
    for (const auto& [name, now] : ours.in) {
      const Maybe before = get(base, name);
      if (now.folder && is_folder(before)) {
        if (auto inner = leave(*before, now)) left.in[name] = *std::move(inner);
      } else if (before != now) {
        ++conflicts;
        if (side_ != OnConflict::kTheirs) left.in[name] = now;
      }
    }
    return left.in.empty() ? Maybe() : left;
  }

  OnConflict side_;
};

Value value_of(const fs::path& folder) {
  Value value{.folder = true};
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (entry.is_directory()) {
      value.in[name] = value_of(entry.path());
      continue;
    }
    std::string content(entry.file_size(), '\0');
    const UniqueFd file(::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
    EXPECT_EQ(::read(file.get(), content.data(), content.size()), static_cast<ssize_t>(content.size()));
    value.in[name] = {.folder = false, .content = std::move(content)};
  }
  return value;
}

std::string text_of(const Value& value, const std::string& indent = "  ") {
  if (!value.folder) return " = " + value.content.substr(1) + "\n";
  std::string text = "/\n";
  for (const auto& [name, inner] : value.in) text += indent + name + text_of(inner, indent + "  ");
  return text;
}

class Editor {
 public:
  explicit Editor(std::uint32_t seed) : random_(seed) {}

  void edit(const fs::path& root, int times) {
    for (int i = 0; i < times; ++i) edit_once(root);
  }

  std::uint32_t below(std::uint32_t limit) {
    return std::uniform_int_distribution<std::uint32_t>(0, limit - 1)(random_);
  }

 private:
  void edit_once(const fs::path& root) {
    fs::path path = root;
    const std::uint32_t depth = 1 + below(3);
    for (std::uint32_t i = 0; i < depth; ++i) path /= std::string(1, static_cast<char>('a' + below(3)));
    const std::uint32_t what = below(10);
    if (what < 3) {
      std::error_code ignored;  // a file may lie in its way
      fs::remove_all(path, ignored);
      return;
    }
    // What lies in the way of a folder goes.
    for (fs::path folder = path.parent_path(); folder != root; folder = folder.parent_path())
      if (const auto status = fs::symlink_status(folder); fs::exists(status) && !fs::is_directory(status))
        fs::remove(folder);
    fs::create_directories(path.parent_path());
    if (what < 5) {
      if (!fs::is_directory(fs::symlink_status(path))) fs::remove(path);
      fs::create_directory(path);
      return;
    }
    if (!fs::is_regular_file(fs::symlink_status(path))) fs::remove_all(path);
    // Never twice the same, with a NUL so that it is no text, and of few sizes.
    std::string content(1, '\0');
    content += std::to_string(1000 + written_++) + std::string(below(2), 'x');
    const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    EXPECT_EQ(::write(file.get(), content.data(), content.size()), static_cast<ssize_t>(content.size()));
  }

  std::mt19937 random_;
  int written_ = 0;
};

Result<void> apply_to(const Overlay& parent, const std::string& operations) {
  auto started = Application::start(UniqueFd(::open(parent.mount.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)));
  if (!started) return fail(started.error());
  Application application = *std::move(started);
  changes::OperationDecoder decoder;
  WARREN_TRY(decoder.feed(operations, application));
  WARREN_TRY(application.finish_writing());
  for (std::size_t i = 0; i < application.size(); ++i) WARREN_TRY(application.check(i));
  for (std::size_t i = 0; i < application.size(); ++i) WARREN_TRY(application.perform(i));
  return application.finish();
}

void check(std::uint32_t seed, Overlays::Disk disk) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Editor editor(seed);
  Overlays overlays(disk);
  editor.edit(overlays.at("lower", ""), 12);
  editor.edit(overlays.at("guest", ""), 4);
  auto& parent = overlays.make("parent");
  editor.edit(parent.mount, 8);
  auto& winner = overlays.fork(parent, "winner");
  const Maybe base = value_of(parent.mount);
  editor.edit(parent.mount, 1 + static_cast<int>(editor.below(6)));
  editor.edit(winner.mount, 1 + static_cast<int>(editor.below(6)));
  const Maybe ours = value_of(parent.mount);
  const Maybe theirs = value_of(winner.mount);
  const auto side = std::array{OnConflict::kFail, OnConflict::kOurs, OnConflict::kTheirs}[editor.below(3)];
  Model model(side);
  Maybe expected = model.merge(base, ours, theirs);
  if (side == OnConflict::kFail && model.conflicts > 0) expected = ours;

  const auto merged = overlays.merge(parent, winner, side);
  ASSERT_TRUE(merged.report) << merged.error->message();
  EXPECT_EQ(merged.report->counts.conflicts > 0, model.conflicts > 0);
  if (merged.report->applies) {
    const auto applied = apply_to(parent, merged.operations);
    ASSERT_TRUE(applied) << applied.error().message() << "\n" << merged.operations;
  }
  const Value now = value_of(parent.mount);
  EXPECT_EQ(now, *expected) << "base" << text_of(*base) << "ours" << text_of(*ours) << "theirs"
                            << text_of(*theirs) << "expected" << text_of(*expected) << "now" << text_of(now)
                            << merged.operations;
}

// Everything that can be done to a tree, but for what is not merged.
void edit_richly(Editor& editor, const Overlay& overlay, int times) {
  const auto any = [&] {
    fs::path path = overlay.mount;
    for (std::uint32_t left = 1 + editor.below(3); left > 0; --left)
      path /= std::string(1, static_cast<char>('a' + editor.below(3)));
    return path;
  };
  for (int i = 0; i < times; ++i) {
    const fs::path path = any();
    const fs::path other = any();
    std::error_code ignored;
    switch (editor.below(7)) {
      case 0:
        ::chmod(path.c_str(), 0400 + editor.below(0400));
        break;
      case 1:
        fs::rename(path, other, ignored);
        break;
      case 2:
        fs::create_hard_link(path, other, ignored);
        break;
      case 3:
        fs::create_symlink(std::to_string(editor.below(3)), path, ignored);
        break;
      case 4:
        if (fs::is_regular_file(fs::symlink_status(path, ignored)))
          fs::resize_file(path, editor.below(100'000), ignored);
        break;
      case 5:
        if (::lchown(path.c_str(), editor.below(3), editor.below(3)) != 0) break;
        break;
      default:
        if (fs::is_symlink(fs::symlink_status(path, ignored))) fs::remove(path, ignored);
        editor.edit(overlay.mount, 1);
    }
  }
}

void become_winner(std::uint32_t seed, Overlays::Disk disk) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Editor editor(seed);
  Overlays overlays(disk);
  editor.edit(overlays.at("lower", ""), 12);
  editor.edit(overlays.at("guest", ""), 4);
  auto& parent = overlays.make("parent");
  edit_richly(editor, parent, 10);
  auto& winner = overlays.fork(parent, "winner");
  edit_richly(editor, winner, 20);
  const auto merged = overlays.merge(parent, winner);
  ASSERT_TRUE(merged.report) << merged.error->message();
  ASSERT_EQ(merged.report->counts.conflicts, 0U)
      << merged.report->conflicts[0].path << merged.report->conflicts[0].reason;
  const auto applied = apply_to(parent, merged.operations);
  ASSERT_TRUE(applied) << applied.error().message() << "\n" << merged.operations;
  EXPECT_EQ(parent.all(), winner.all()) << merged.operations;
  EXPECT_TRUE(overlays.diff(parent, winner).entries.empty());
}

// More by hand: WARREN_MERGE_SEEDS.
std::uint32_t seeds() {
  const char* const more = std::getenv("WARREN_MERGE_SEEDS");
  return static_cast<std::uint32_t>(more != nullptr ? std::atoi(more) : 60);
}

TEST(MergePropertyTest, AParentThatDidNothingBecomesTheWinner) {
  for (std::uint32_t seed = 100'001; seed <= 100'000 + seeds() && !::testing::Test::HasFailure(); ++seed)
    become_winner(seed, Overlays::Disk::kTmpfs);
}

TEST(MergePropertyTest, AParentOfSnapshotsThatDidNothingBecomesTheWinner) {
  for (std::uint32_t seed = 3001; seed <= 3006 && !::testing::Test::HasFailure(); ++seed)
    become_winner(seed, Overlays::Disk::kBtrfs);
}

TEST(MergePropertyTest, MergesAsNestedMapsDo) {
  for (std::uint32_t seed = 1; seed <= seeds() && !::testing::Test::HasFailure(); ++seed)
    check(seed, Overlays::Disk::kTmpfs);
}

TEST(MergePropertyTest, MergesSnapshotsAsNestedMapsDo) {
  for (std::uint32_t seed = 1001; seed <= 1006 && !::testing::Test::HasFailure(); ++seed)
    check(seed, Overlays::Disk::kBtrfs);
}

}  // namespace
}  // namespace warren::agent
