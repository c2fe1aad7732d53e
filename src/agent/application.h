// Operations on files (changes/operation.h) done to a tree: first everything that is new is
// written into a folder of its own and what must hold is looked at, then it is put in place.
// Up to that point nothing of the tree has changed, and from there on it can be undone until all is
// there. No symbolic link is followed, whatever runs beside does to the tree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/placement.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "changes/operation_decoder.h"

namespace warren::agent {

class Application final : public changes::OperationHandler {
 public:
  // To the tree below `root`, an open folder.
  static Result<Application> start(UniqueFd root);
  Application(Application&&) = default;
  Application& operator=(Application&&) = delete;
  // Removes what was written and not put in place, and what was replaced.
  ~Application() override;

  Result<void> begin(changes::Operation operation) override;
  Result<void> content(std::uint64_t offset, std::string_view bytes) override;
  // Once all has come.
  Result<void> finish_writing();

  std::size_t size() const { return operations_.size(); }
  // kConflict if something in the tree is not as the operation needs it. In their order, each
  // once, all of them before the first is performed.
  Result<void> check(std::size_t which);
  // Does the operation; in their order, each once.
  Result<void> perform(std::size_t which);
  // After the last: gives new folders their attributes, within before without.
  Result<void> finish();
  // What has been done; for undoing it step by step when something fails, or for letting go, step by
  // step, of what was replaced.
  Placement& placement() { return placement_; }

 private:
  Application(UniqueFd root, UniqueFd home, UniqueFd stage)
      : root_(std::move(root)),
        home_(std::move(home)),
        stage_(std::move(stage)),
        placement_(root_.get(), stage_.get()) {}

  // An operation without what it no longer needs.
  struct Pending {
    changes::Operation operation;
    bool staged = false;
  };
  Result<void> stage_file(Pending& pending);
  Result<void> finish_file();
  Result<void> stage_link(std::size_t which);

  UniqueFd root_;
  UniqueFd home_;  // the folder that the stage lies in
  UniqueFd stage_;
  Placement placement_;
  std::string name_;  // of the stage
  std::uint64_t device_ = 0;
  std::vector<Pending> operations_;
  UniqueFd file_;                                          // what content() writes
  std::map<std::string, std::size_t, std::less<>> files_;  // which operation writes a path
  // What earlier operations leave: for check().
  std::set<std::string, std::less<>> removed_;
  std::set<std::string, std::less<>> made_;
};

}  // namespace warren::agent
