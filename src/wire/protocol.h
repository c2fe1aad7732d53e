// What the JSON in the frames says. Paths are absolute, UTF-8, inside the
// sandbox's root; a path that is not UTF-8 is sent with "path_base64" in place of
// "path". Times are milliseconds. Every kClose of the agent carries either what
// its op says below or {"error":{"kind":K,"message":M}}, K one of name_of(ErrorKind).
//
// kOpen requests ("op" names them; unknown members are refused):
//
//  {"op":"exec","argv":[S…],"cwd":S?,"env":{S:S}?,"timeout_ms":N?,
//   "input":B?,              without it the command's input is at end of file
//   "tty":{"rows":N,"cols":N}?, a terminal: output is all on channel 1
//   "spool_after":N?}        see below
//     data 1 and 2; kClose {"exit_code":N,        128+S where a signal S ended it,
//                                   124 after the deadline, 130 after a cancel
//       "signal":N?, "timed_out":B, "cancelled":B, "oom":B, "duration_ms":N,
//       "stdout_bytes":N, "stderr_bytes":N, "stdout_file":S?, "stderr_file":S?}
//     kControl {"signal":N} to the command's process group, {"resize":{"rows":N,"cols":N}}.
//     When the command's own process has ended the stream ends, though children
//     of it may live on and hold its pipes (those are drained to nowhere).
//     At its deadline or on cancel the whole process tree is killed, SIGTERM first.
//
//  {"op":"python","code":S,"timeout_ms":N,"cwd":S?,"env":{S:S}?,"spool_after":N?}
//     queues behind other calls; the deadline counts from when it starts.
//     data 1 and 2; kNotice:
//       {"started":true}
//       {"late":{"call":N,"stream":"stdout"|"stderr","text":S}}  output of an earlier
//           call's threads or children, which must not pass for this one's
//       {"display":{MIME:…}}, {"result":{MIME:…}}   images are base64 text, JSON is JSON
//       {"error":{"name":S,"value":S,"traceback":S}}
//     What a program has put into these is bounded (wire/content.h, kMaxMessage); the agent
//     sends a text in the place of what is not.
//     kClose {"exit_code":N, "timed_out":B, "cancelled":B, "interrupted":B,
//       "restarted":B,                  the session's state is lost
//       "died":S?,                      how the runner died: "killed by SIGSEGV", …
//       "oom":B, "duration_ms":N, "queued_ms":N, and the byte counts and files as for exec}
//     exit_code: 0, 1 after an uncaught exception, N after exit(N), 124 after a
//     deadline, 130 after an interrupt, 128+S or the exit status of a dead runner.
//
//  {"op":"read","path":S,"offset":N?,"length":N?}
//     regular files only; kNotice {"size":N,"mode":N,"mtime_ms":N}, data 1,
//     kClose {"size":N}. Anything else at the path is refused by what it is.
//  {"op":"write","path":S,"mode":N?,"size":N?}
//     data 0 then kEnd; into a new file beside the target, then renamed over it, so
//     that a failure leaves the old one whole; makes missing folders; follows a
//     symlink at the end as open(2) would, inside the root. kClose {"size":N,"sha256":S}.
//     If "size" is given and other than what came, the file is not replaced.
//  {"op":"list","path":S}   kNotice {"entries":[{"name":S | "name_base64":S,
//     "type":"file"|"directory"|"symlink"|"fifo"|"socket"|"device","size":N,"mode":N,"mtime_ms":N,
//     "target":S?}…]} in batches; kClose {"count":N,"truncated":B}
//  {"op":"stat","path":S}   kClose: one entry, as above
//  {"op":"remove","path":S,"recursive":B?}   kClose {}
//  {"op":"fork","keep_random":B?}
//     Waits its turn among the Python calls, says kNotice {"holding":true}, and holds the
//     session until the runtime has forked it. kClose {"not_copied":{…}}; kCancel gives it up.
//  {"op":"apply"}
//     data 0: operations on files as in changes/operation.h, then kEnd. What is new is written
//     aside, under /tmp/.warren, and all that must hold is looked at; a failure up to there, a
//     stream without its last line too, leaves everything as it was. Then it is put in place,
//     cancelled or not. kClose {"applied":N,"left":N}: operations done, and folders that
//     were to be removed but not empty. An error names the path; kConflict: something is not
//     as an operation says it must be.
//  {"op":"connect","port":N}
//     A TCP connection to 127.0.0.1:N, or [::1]:N where nothing listens there, inside.
//     kNotice {"connected":true}; data 0 to the program and data 1 from it; kEnd on 0 shuts the
//     sending half down, kNotice {"end":true} says that the program has shut down its own. The stream
//     ends with both: kClose {"to_program":N,"from_program":N}, in bytes. Errors: kNotFound if nothing
//     listens, kTimeout if nobody accepts, kCancelled after a reset. What the program does not take
//     any more is dropped.
//  {"op":"info"}            kClose {"processes":N,"runner":"idle"|"busy"|"starting"|"none"}
//
// spool_after: when a stream of output exceeds so many bytes, all of it from the
// first byte on is also kept in a file inside the sandbox, which kClose names; not
// where it comes to more than kSpoolLimit, or the disk is full.
//
// kCancel on "python": interrupt (SIGINT), after a grace SIGKILL and a fresh runner.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

namespace warren::wire {

inline constexpr std::uint64_t kSpoolLimit = 256ULL * 1024 * 1024;
// Where spooled output lies inside the sandbox.
inline constexpr std::string_view kSpoolDirectory = "/tmp/.warren";
// How long an interrupted Python call, or a terminated command, has before SIGKILL.
inline constexpr std::chrono::milliseconds kKillGrace{2000};
// A kOpen, kNotice or kClose whose JSON exceeds one frame is continued: every frame
// but its last is of the type kMore (see frame.h), and all of it may be so long.
inline constexpr std::size_t kMaxMessage = 8UL * 1024 * 1024;

}  // namespace warren::wire
