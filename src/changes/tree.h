// What an overlay shows, read from its layers without mounting it: folders merge, a
// whiteout hides what lies below, an opaque folder all of it. Everything in the layers is
// hostile and may change while it is read: no symbolic link is followed, no layer is left,
// nothing but folders and regular files is opened, and what has vanished is absent.
//
// Paths are relative to the tree's root and without a leading slash: "" is the root,
// "root/notes.txt" a file. One longer than kLongestPath is never visited.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace warren::changes {

// A layer's number in its LayerTable.
using Layer = std::uint8_t;
inline constexpr std::size_t kMostLayersOfTree = 8;
// With room for the slash that makes it absolute, as long as the kernel takes (PATH_MAX).
inline constexpr std::size_t kLongestPath = 4094;

enum class Type : std::uint8_t { kFile, kFolder, kSymlink, kFifo, kSocket, kDevice };

std::string_view name_of(Type type);

struct Node {
  Type type = Type::kFile;
  std::uint32_t mode = 0;  // the lower twelve bits
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::uint64_t size = 0;
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t links = 0;
  std::int64_t mtime_ns = 0;
  std::int64_t ctime_ns = 0;
  Layer layer = 0;  // the one that it comes from; of a folder the uppermost
};

// Layers in the order in which they are looked at, the uppermost first.
class LayerList {
 public:
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  void push_back(Layer layer) { layers_[size_++] = layer; }  // at most kMostLayersOfTree
  std::span<const Layer> all() const { return {layers_.data(), size_}; }
  // All but the last `count`.
  std::span<const Layer> all_but_last(std::size_t count) const { return {layers_.data(), size_ - count}; }

 private:
  std::array<Layer, kMostLayersOfTree> layers_{};
  std::uint8_t size_ = 0;
};

// How many layers two lists have in common, from the bottom up: what only those hold is
// the same in both.
std::size_t common_layers(const LayerList& a, const LayerList& b);

// The layers of all trees that are looked at together, each once.
class LayerTable {
 public:
  // Adds a tree, given as open folders, the uppermost layer first; they stay the caller's
  // and open. kInvalid for more than kMostLayersOfTree, or none.
  Result<LayerList> add_tree(std::span<const int> layers);
  int root(Layer layer) const { return layers_[layer].fd; }
  std::size_t size() const { return layers_.size(); }

 private:
  struct Entry {
    int fd;
    std::uint64_t device;
    std::uint64_t inode;
  };
  std::vector<Entry> layers_;
};

// What a tree has by a name.
struct Found {
  std::optional<Node> node;
  LayerList below;  // of a folder: the layers that show in it
  bool is(Type type) const { return node && node->type == type; }
  bool is_folder() const { return is(Type::kFolder); }
};

// Names in the order of their bytes, each once.
using Names = std::vector<std::string>;

// One folder, looked at in several trees at once: it opens the folder of each layer when it
// is first needed, and closes them all when it goes.
class FolderView {
 public:
  FolderView(const LayerTable& table, std::string path) : table_(table), path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  // The path of something in it.
  std::string child(std::string_view name) const;

  // What the tree whose layers in this folder are `layers` has by that name.
  Result<Found> find(const LayerList& layers, const std::string& name);

  // Adds the names in `layers`, whiteouts' too. kTooLarge for a folder that nobody can want
  // compared (kMostNames, kMostNameBytes).
  Result<void> list(std::span<const Layer> layers, Names& names);
  // The names by which two trees may differ here.
  Result<Names> differing_names(const LayerList& a, const LayerList& b);

  // The target of a symbolic link; nothing if it is none any more.
  Result<std::optional<std::string>> read_link(const Node& node, const std::string& name);

  static constexpr std::size_t kMostNames = 4'000'000;
  static constexpr std::size_t kMostNameBytes = std::size_t{192} << 20;

 private:
  // Of the folder in the layer; -1 if it is none there (any more).
  Result<int> folder(Layer layer);
  Result<bool> has_mark(int folder, const std::string& name, int flags, const char* attribute,
                        std::string_view value);

  const LayerTable& table_;
  std::string path_;
  std::map<Layer, UniqueFd> folders_;
};

// A file or folder by its path in one layer. An invalid descriptor: it is not there (any
// more), or is something else.
Result<UniqueFd> open_in_layer(const LayerTable& table, Layer layer, const std::string& path, Type type);

// What lies at `path` in the tree, through folders only.
Result<Found> look_up(const LayerTable& table, const LayerList& root, const std::string& path);

}  // namespace warren::changes
