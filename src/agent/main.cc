// warren-agent: process 1 of every sandbox, which it helps to make (birth/birth.h). Descriptor 3 is the
// control socket (see agent/agent.h), 4 the count of kills for want of memory (agent/oom.h) if there is one.
// `--warm` starts the Python session with the first connection; `--runner PROGRAM ARGUMENT…`, the last
// option, says what it is started by. It also works as an ordinary process, which then becomes its orphans'
// reaper.
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/agent.h"
#include "agent/oom.h"
#include "agent/pipes.h"
#include "base/unique_fd.h"
#include "birth/birth.h"

namespace {

constexpr int kControl = 3;
constexpr int kOomKills = 4;

// The lowest score that may be set: memory is wanted back from anyone but the agent.
void lower_oom_score() {
  for (const std::string_view score : {"-1000", "-900", "-500", "0"}) {
    const warren::UniqueFd file(::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
    if (file && ::write(file.get(), score.data(), score.size()) > 0) return;
  }
}

bool parse(std::vector<std::string> arguments, warren::agent::Options& options) {
  for (auto argument = arguments.begin(); argument != arguments.end(); ++argument) {
    if (*argument == "--warm") {
      options.warm = true;
    } else if (*argument == "--runner" && argument + 1 != arguments.end()) {
      options.runner.assign(argument + 1, arguments.end());
      return true;
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  warren::birth::be_born();
  ::prctl(PR_SET_DUMPABLE, 0);
  ::signal(SIGPIPE, SIG_IGN);
  ::umask(022);
  struct stat status {};
  if (::fstat(kControl, &status) != 0 || !S_ISSOCK(status.st_mode)) return 2;
  for (int fd = 0; fd < kControl; ++fd)
    if (::fcntl(fd, F_GETFD) < 0) ::open("/dev/null", O_RDWR);
  // The numbers below 5 belong to what programs are given (agent/spawn.h).
  if (::fcntl(kOomKills, F_GETFD) < 0) ::dup2(0, kOomKills);
  // Nothing of the agent's is for what it starts.
  ::close_range(kControl, ~0U, CLOSE_RANGE_CLOEXEC);
  if (::getpid() != 1) ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  warren::agent::OomWatch::use(kOomKills);
  warren::agent::keep_null_device();
  lower_oom_score();
  // Buffers of a quarter of a megabyte come and go all the time: without this each
  // would be mapped and faulted in anew.
  ::mallopt(M_MMAP_THRESHOLD, 8 * 1024 * 1024);
  ::mallopt(M_TRIM_THRESHOLD, 2 * 1024 * 1024);

  warren::agent::Options options;
  if (!parse({argv + 1, argv + argc}, options)) return 2;
  boost::asio::io_context context(1);
  warren::agent::Agent agent(context, warren::UniqueFd(kControl), std::move(options));
  agent.run();
  // The kernel, or whoever started this, ends the rest; destructors would only wait.
  ::_exit(0);
}
