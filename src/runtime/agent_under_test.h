// For tests: a real agent as an ordinary child process, and a client connected to it.
#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/json/object.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "runtime/agent_client.h"

namespace warren::runtime {

// How a call went, all of it.
struct AgentAnswer {
  std::string output;
  std::string error_output;
  std::vector<boost::json::object> notices;
  boost::json::object close;
  std::optional<Error> failure;

  std::int64_t number(std::string_view name) const;
  bool flag(std::string_view name) const;
  std::string text(std::string_view name) const;
};

class AgentUnderTest {
 public:
  // `arguments` for warren-agent beside its name; `oom_kills` becomes its descriptor 4.
  explicit AgentUnderTest(std::vector<std::string> arguments = {}, int oom_kills = -1);
  ~AgentUnderTest();
  AgentUnderTest(const AgentUnderTest&) = delete;
  AgentUnderTest& operator=(const AgentUnderTest&) = delete;

  boost::asio::io_context& context() { return context_; }
  AgentClient& client() { return *client_; }
  pid_t pid() const { return pid_; }

  // Replaces the connection, as the runtime's Driver::connect does.
  void reconnect();
  UniqueFd connect();

  // Runs `task` to its end; fails the test after a minute.
  void run(Task<void> task);
  // One call from its request to its end.
  AgentAnswer call(boost::json::object request);
  // The same with `input` as its input.
  AgentAnswer call(boost::json::object request, std::string input);
  // `bash -c script`.
  AgentAnswer shell(const std::string& script, boost::json::object more = {});

 private:
  boost::asio::io_context context_;
  UniqueFd control_;
  pid_t pid_ = -1;
  std::shared_ptr<AgentClient> client_;
};

// Reads a stream to its end.
Task<AgentAnswer> read_all(std::shared_ptr<AgentStream> stream);

}  // namespace warren::runtime
