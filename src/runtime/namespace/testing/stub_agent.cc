// Stands in for the agent in the driver's tests: takes connections over descriptor
// 3 as the agent does, and answers each line of a connection by executing it as a
// tiny command of its own. Linked statically, since it is executed by descriptor.
//
//   sh COMMAND   runs /bin/sh -c COMMAND and sends back all of its output, then a
//                NUL and a line "exit N"
//   exit N       process 1 ends with status N
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "birth/birth.h"

namespace {

constexpr int kControl = 3;

int receive_connection() {
  char byte = 0;
  iovec data{.iov_base = &byte, .iov_len = 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  if (::recvmsg(kControl, &message, MSG_CMSG_CLOEXEC) <= 0) std::exit(0);
  const cmsghdr* part = CMSG_FIRSTHDR(&message);
  if (part == nullptr) return -1;
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(part), sizeof fd);
  return fd;
}

void say(int connection, const std::string& text) {
  if (::send(connection, text.data(), text.size(), MSG_NOSIGNAL) < 0) return;
}

void run(int connection, const std::string& command) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(connection, 1);
    ::dup2(connection, 2);
    ::setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
    ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    ::_exit(127);
  }
  int status = 0;
  while (::waitpid(-1, &status, 0) != child) continue;
  say(connection, std::string(1, '\0') + "exit " +
                      std::to_string(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status)) +
                      "\n");
}

void serve(int connection) {
  std::string line;
  std::array<char, 4096> piece;
  while (true) {
    std::array<pollfd, 2> ready{pollfd{.fd = connection, .events = POLLIN, .revents = 0},
                                pollfd{.fd = kControl, .events = POLLIN, .revents = 0}};
    if (::poll(ready.data(), ready.size(), -1) < 0) continue;
    // A new connection takes the old one's place.
    if (ready[1].revents) return;
    const ssize_t got = ::recv(connection, piece.data(), piece.size(), 0);
    if (got <= 0) return;
    line.append(piece.data(), static_cast<std::size_t>(got));
    for (auto end = line.find('\n'); end != std::string::npos; end = line.find('\n')) {
      const std::string command = line.substr(0, end);
      line.erase(0, end + 1);
      if (command.starts_with("sh ")) run(connection, command.substr(3));
      if (command.starts_with("exit ")) std::exit(std::atoi(command.c_str() + 5));
    }
  }
}

}  // namespace

int main() {
  warren::birth::be_born();
  ::prctl(PR_SET_NAME, "warren-agent");
  while (true) {
    const int connection = receive_connection();
    if (connection < 0) continue;
    serve(connection);
    ::close(connection);
  }
}
