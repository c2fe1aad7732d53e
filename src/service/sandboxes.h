// The life of sandboxes: who may make how many, how long they live, what can be
// done in them. Every face comes through here. A sandbox of another account is
// kNotFound, like one that never was.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/task.h"
#include "changes/answer.h"
#include "changes/report.h"
#include "runtime/client.h"
#include "runtime/driver.h"
#include "service/caller.h"
#include "service/ports.h"

namespace warren::store {
class Database;
}

namespace warren::service {

struct SandboxParts;

// What an account may have.
struct Tier {
  std::string name = "default";
  runtime::Limits limits;
  std::size_t max_sandboxes = 1000;
  std::uint64_t memory_bytes = 0;  // of all sandboxes together; 0: no limit
  Seconds min_ttl{60};
  Seconds default_ttl{3600};
  Seconds max_ttl{24 * 3600};
  Seconds idle_timeout{30 * 60};
};

enum class SandboxState { kReady, kDead };  // dead: its machine has ended; only destroy works

struct SandboxInfo {
  std::string id;
  std::string account_id;
  std::string name;  // may be empty
  std::string template_name;
  std::string isolation;    // "namespace"
  std::string fork_copies;  // "runner"
  runtime::EgressPolicy egress;
  SandboxState state = SandboxState::kReady;
  std::string state_reason;  // of kDead
  bool persistent = false;   // no idle end
  WallTime created_at;
  WallTime expires_at;
};

struct CreateSpec {
  std::optional<std::string> template_name;  // "default" if absent
  std::optional<std::string> name;           // at most 128 bytes of printable UTF-8
  std::optional<std::int64_t> ttl_seconds;   // within the tier's bounds, else kInvalid
  std::optional<std::string> isolation;      // auto, namespace, microvm
  std::optional<runtime::EgressPolicy> egress;  // Options::default_egress if absent
  bool persistent = false;
};

struct ForkSpec {
  std::int64_t children = 1;  // 1 to 32, else kInvalid
  bool keep_random = false;   // they draw the random numbers that the parent would have drawn
};
struct Forked {
  std::vector<SandboxInfo> children;
  // What the children do not have: "threads" (how many), "processes" (command lines),
  // "descriptors" (which, and what they were). Absent where there is none, cut where there
  // are very many.
  boost::json::object not_copied;
};

struct MergeSpec {
  std::string winner;
  std::optional<std::string> mode;         // replace (if absent) or files
  std::optional<std::string> on_conflict;  // of files: fail (if absent), ours or theirs
};
struct Merged {
  SandboxInfo sandbox;                         // the parent
  std::optional<changes::MergeReport> report;  // of files; if it does not apply, nothing was changed
};

struct DiffSpec {
  std::string other;
  std::vector<std::string> paths;  // absolute or from /root; if none, /root and /tmp
  bool with_text = false;
};

struct PythonCall {
  std::string code;
  std::optional<std::int64_t> timeout_seconds;  // 1..3600, else kInvalid
  std::optional<std::string> cwd;
  std::map<std::string, std::string> env;
  std::uint64_t spool_after = 0;  // 0: no spooling
};

struct BashCall {
  std::string command;
  std::optional<std::int64_t> timeout_seconds;
  std::optional<std::string> cwd;
  std::map<std::string, std::string> env;
  std::uint64_t spool_after = 0;
};

// A terminal: a login shell unless a command is given.
struct TerminalCall {
  std::optional<std::string> command;
  int rows = 24;
  int columns = 80;
};

enum class OutputStream { kStdout, kStderr };

struct Output {
  OutputStream stream;
  std::string bytes;  // as they came; may end inside a UTF-8 sequence
  bool late = false;  // of an earlier Python call's threads or children
};
struct Bundle {
  boost::json::object data;  // MIME type to value; images are base64 text
  bool is_result = false;    // the value of the last expression, else display()
};
struct PythonError {
  std::string name;
  std::string value;
  std::string traceback;
};
struct Finished {
  int exit_code = 0;
  bool timed_out = false;
  bool cancelled = false;
  bool interrupted = false;
  bool restarted = false;  // Python only: the session's state is lost
  std::string died;        // Python only: how the runner died; empty if it lives
  bool oom = false;
  Millis duration{0};
  std::uint64_t stdout_bytes = 0;
  std::uint64_t stderr_bytes = 0;
  std::string stdout_file;  // where the whole of a long output is kept; may be empty
  std::string stderr_file;
};
using ExecEvent = std::variant<Output, Bundle, PythonError, Finished>;

// A call that runs. Dropping the last reference cancels it.
class Execution {
 public:
  virtual ~Execution() = default;
  // What happens next; Finished is the last. kUnavailable if the sandbox ended meanwhile.
  virtual Task<Result<ExecEvent>> next() = 0;
  // Whether something has come that next() has not given yet.
  virtual bool has_next() const = 0;
  virtual void cancel() = 0;
  // Terminals only.
  virtual Task<Result<void>> write_input(std::string bytes) = 0;
  virtual void resize(int rows, int columns) = 0;
};

struct FileEntry {
  std::string name;  // bytes; may not be UTF-8
  std::string type;  // file, directory, symlink, fifo, socket, device
  std::uint64_t size = 0;
  std::uint32_t mode = 0;
  WallTime modified_at;
  std::string target;  // of a symlink
};
struct FileListing {
  std::vector<FileEntry> entries;
  bool truncated = false;
};

// A file that is read; its bytes stream out.
class FileReader {
 public:
  virtual ~FileReader() = default;
  virtual std::uint64_t size() const = 0;
  // The next bytes, empty at the end.
  virtual Task<Result<std::string>> read() = 0;
};

struct Written {
  std::uint64_t size = 0;
  std::string sha256;
};

// A file that is written. It replaces the old one only when finish() succeeds.
class FileWriter {
 public:
  virtual ~FileWriter() = default;
  virtual Task<Result<void>> write(std::string bytes) = 0;
  virtual Task<Result<Written>> finish() = 0;
};

struct Capacity {
  std::size_t sandboxes = 0;
  std::size_t max_sandboxes = 0;
  std::vector<runtime::TemplateInfo> templates;
  runtime::StockInfo stock;
};

// What the whole server has, of all accounts together, and has seen since it started.
struct Census {
  struct Kind {
    std::string isolation;
    std::string state;  // making, ready, dead
    auto operator<=>(const Kind&) const = default;
  };
  std::map<Kind, std::uint64_t> sandboxes;
  std::map<std::string, std::uint64_t> ended;  // by why: idle, expired, died
  runtime::StockInfo stock;
  bool runtime_is_there = false;
  std::uint64_t runtime_restarts = 0;
};

// Whether clients may have sandboxes reach the internet without saying where. Withheld, lists must be
// of narrow ranges: a /16 of IPv4 at most, a /32 of IPv6.
enum class OpenEgress { kOffered, kWithheld };

class Sandboxes {
 public:
  struct Options {
    Tier tier;
    std::size_t max_sandboxes = 4000;  // of all accounts together
    Seconds default_timeout{50};       // a call's deadline where neither caller nor face says one
    Seconds max_timeout{3600};
    Ports::Options ports;
    // Of sandboxes whose creator says nothing.
    runtime::EgressPolicy default_egress = runtime::EgressPolicy::open();
    OpenEgress open_egress = OpenEgress::kOffered;
  };

  static std::shared_ptr<Sandboxes> start(Executor executor, store::Database& database,
                                          std::string runtime_socket, Options options);
  // The same with other parts (see sandbox_parts.h). The database must outlive
  // the executor's context in both.
  static std::shared_ptr<Sandboxes> start(Executor executor, store::Database& database, Options options,
                                          SandboxParts parts);
  virtual ~Sandboxes() = default;

  // Ready for its first call when this returns. Where the host offers no network it reaches
  // nothing, whatever was asked for: see no_network().
  virtual Task<Result<SandboxInfo>> create(Caller caller, CreateSpec spec) = 0;
  virtual Result<SandboxInfo> get(const Caller& caller, std::string_view id) const = 0;
  virtual std::vector<SandboxInfo> list(const Caller& caller) const = 0;
  virtual Task<Result<void>> destroy(Caller caller, std::string id) = 0;

  // Copies of the sandbox, files and Python session, ready for their first call: all of
  // them or none. They have its limits and lifetime, but no name. Waits for the Python
  // calls that are before it; cancelling it leaves no child. kConflict: the session cannot
  // be forked; kTooLarge: it is too large for that.
  virtual Task<Result<Forked>> fork(Caller caller, std::string id, ForkSpec spec) = 0;

  // replace: the winner's machine takes the place of the parent's, whose calls end; nothing
  // is called by the winner's id any more. files: what the winner has changed since the two
  // were one is changed in the parent too. kConflict: they are on different templates, or,
  // for files, what has changed in both.
  virtual Task<Result<Merged>> merge(Caller caller, std::string parent, MergeSpec spec) = 0;

  // What the other sandbox's files have that this one's have not, and the other way round.
  virtual Task<Result<changes::Diff>> diff(Caller caller, std::string id, DiffSpec spec) = 0;

  virtual Task<Result<std::shared_ptr<Execution>>> run_python(Caller caller, std::string id,
                                                              PythonCall call) = 0;
  virtual Task<Result<std::shared_ptr<Execution>>> run_bash(Caller caller, std::string id, BashCall call) = 0;
  virtual Task<Result<std::shared_ptr<Execution>>> open_terminal(Caller caller, std::string id,
                                                                 TerminalCall call) = 0;

  // Paths are bytes, absolute or from /root. kInvalid for what is not a regular file.
  virtual Task<Result<std::shared_ptr<FileReader>>> read_file(Caller caller, std::string id,
                                                              std::string path) = 0;
  virtual Task<Result<std::shared_ptr<FileWriter>>> write_file(Caller caller, std::string id,
                                                               std::string path,
                                                               std::optional<std::uint64_t> size) = 0;
  virtual Task<Result<FileListing>> list_files(Caller caller, std::string id, std::string path) = 0;
  virtual Task<Result<void>> remove_file(Caller caller, std::string id, std::string path) = 0;

  virtual Task<Result<Capacity>> capacity(Caller caller) = 0;
  // For the operator's key only. Without the runtime it has no stock.
  virtual Task<Result<Census>> census(Caller caller) = 0;
  // What is kept ready for the caller's account ends, and no more is until the next create.
  virtual Task<Result<void>> drop_stock(Caller caller) = 0;
  // What it may reach from now on; connections that this does not allow end. Its forks have the
  // same, and what is merged into it has its. kUnavailable: the host offers no network; kForbidden:
  // the operator offers less.
  virtual Task<Result<SandboxInfo>> set_egress(Caller caller, std::string id,
                                               runtime::EgressPolicy policy) = 0;
  // What it may reach, and was refused.
  virtual Task<Result<runtime::EgressReport>> explain(Caller caller, std::string id) = 0;
  // Why sandboxes reach nothing here; empty: they can.
  virtual std::string no_network() const = 0;

  // What listens inside them, reached from outside.
  virtual Ports& ports() = 0;
  // Whether the runtime answers; what /healthz and doctor want to know.
  virtual bool healthy() const = 0;
};

}  // namespace warren::service
