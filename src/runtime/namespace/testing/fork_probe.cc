// Stands in for the Python runner in the tests of twin forks: answers lines that come on descriptor
// 250 on 251. Linked statically, so that it runs in any root.
//
//   who          "PID UID HOSTNAME VALUE GROWN", GROWN being the MiB of heap it has checked
//   set WORD     VALUE becomes WORD
//   grow N       writes to N MiB of memory
//   share WORD   puts WORD into a shared mapping; `shared` reads it
//   fork         fork(2): "child" and "parent" are said by who they are
//   out WORD     writes WORD to descriptor 1
//   fds          its descriptors
//   exit N
#include <dirent.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr int kControl = 250;
constexpr int kAnswers = 251;

void say(const std::string& text) {
  const std::string line = text + "\n";
  if (::write(kAnswers, line.data(), line.size()) < 0) std::exit(1);
}

std::string descriptors() {
  std::string found;
  DIR* folder = ::opendir("/proc/self/fd");
  if (folder == nullptr) return "none";
  while (const dirent* entry = ::readdir(folder))
    if (entry->d_name[0] != '.' && std::atoi(entry->d_name) != ::dirfd(folder)) found += std::string(" ") + entry->d_name;
  ::closedir(folder);
  return found;
}

}  // namespace

int main() {
  std::string value = "none";
  std::vector<std::string> heap;
  char* shared = nullptr;
  say("ready");
  std::string pending;
  std::array<char, 4096> piece;
  while (true) {
    const auto end = pending.find('\n');
    if (end == std::string::npos) {
      const ssize_t got = ::read(kControl, piece.data(), piece.size());
      if (got <= 0) return 0;
      pending.append(piece.data(), static_cast<std::size_t>(got));
      continue;
    }
    const std::string line = pending.substr(0, end);
    pending.erase(0, end + 1);
    const std::string command = line.substr(0, line.find(' '));
    const std::string rest = command.size() < line.size() ? line.substr(command.size() + 1) : "";
    if (command == "who") {
      std::array<char, 64> name{};
      ::gethostname(name.data(), name.size());
      std::size_t grown = 0;
      for (const auto& part : heap) grown += part.find_first_not_of('x') == std::string::npos ? 1 : 0;
      say(std::to_string(::getpid()) + " " + std::to_string(::getuid()) + " " + name.data() + " " + value + " " +
          std::to_string(grown));
    } else if (command == "set") {
      value = rest;
      say("ok");
    } else if (command == "grow") {
      for (int i = 0; i < std::atoi(rest.c_str()); ++i) heap.emplace_back(1 << 20, 'x');
      say("ok");
    } else if (command == "share") {
      if (shared == nullptr)
        shared = static_cast<char*>(
            ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
      std::strncpy(shared, rest.c_str(), 100);
      say("ok");
    } else if (command == "shared") {
      say(shared);
    } else if (command == "fork") {
      say(::fork() == 0 ? "child" : "parent");
    } else if (command == "out") {
      say(::write(1, rest.data(), rest.size()) > 0 ? "ok" : "failed");
    } else if (command == "fds") {
      say(descriptors());
    } else if (command == "exit") {
      return std::atoi(rest.c_str());
    } else {
      say("unknown");
    }
  }
}
