// What a worker (changes/worker.h) answers, on its pipe, and how it is read. The worker has
// read what a sandbox wrote, so its answer is taken as if the sandbox had written it: bounded,
// checked, and its paths are only ever shown.
//
// All lines are JSON objects. Of a diff, one for each difference, by path:
//   {"path":P,"before":SIDE?,"after":SIDE?,"text":T?,"no_text":S?}
//   SIDE: {"type":S,"size":N,"mode":N,"target":T?}
// and the last {"end":{"truncated":B}}. Of a merge, first
//   {"report":{"applies":B,"truncated":B,"operations":N,"content_bytes":N,
//     "counts":{"added":N,"modified":N,"deleted":N,"renamed":N,"merged":N,"conflicts":N,"skipped":N},
//     "added":[{"path":P}…],"modified":[…],"deleted":[…],"merged":[…],
//     "renamed":[{"from":P,"path":P}…],"conflicts":[{"path":P,"reason":S,"resolved":S?}…],
//     "skipped":[{"path":P,"reason":S}…]}}
// and, if it applies, the operations (changes/operation.h). In the place of any of these lines
// {"error":{"kind":S,"message":S}} may stand, which is then the last. P and T as in
// changes/operation.h. An answer that ends otherwise is cut short: the worker died.
#pragma once

#include <boost/json/object.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "changes/diff.h"
#include "changes/report.h"

namespace warren::changes {

std::string encode(const DiffEntry& entry);
std::string encode(const DiffEnd& end);
std::string encode(const MergeReport& report);

// "truncated", "counts" and the lists of a report as above, which are what clients get, too.
boost::json::object told(const MergeReport& report);
std::string encode_failure(const Error& error);

struct Diff {
  std::vector<DiffEntry> entries;
  bool truncated = false;
};

// Lines of an answer, one by one, from pieces of any size.
class LineReader {
 public:
  explicit LineReader(std::size_t longest) : longest_(longest) {}
  // Takes from the front of `bytes`; the next line once it is whole, without its end.
  // kTooLarge for one that is too long.
  Result<std::optional<std::string>> next(std::string_view& bytes);

 private:
  std::size_t longest_;
  std::string line_;
};

class DiffAnswer {
 public:
  Result<void> feed(std::string_view bytes);
  // At the answer's end: kUnavailable if it was cut short.
  Result<Diff> finish() &&;

 private:
  LineReader lines_{std::size_t{16} << 20};
  std::size_t text_ = 0;
  std::size_t bytes_ = 0;
  Diff diff_;
  bool ended_ = false;
};

class MergeAnswer {
 public:
  // Takes the report from the front of `bytes`, and leaves the operations that follow it.
  Result<void> feed(std::string_view& bytes);
  // Once it is whole.
  const std::optional<MergeReport>& report() const { return report_; }

 private:
  LineReader lines_{std::size_t{32} << 20};
  std::optional<MergeReport> report_;
};

}  // namespace warren::changes
