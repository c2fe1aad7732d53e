#include "runtime/agent_client.h"

#include <gtest/gtest.h>

#include "runtime/agent_under_test.h"

namespace warren::runtime {
namespace {

TEST(AgentClientTest, ACommandsOutputAndExitCodeComeBack) {
  AgentUnderTest agent;
  const Answer answer = agent.shell("echo out; echo err >&2; exit 7");
  EXPECT_FALSE(answer.failure) << answer.failure->message();
  EXPECT_EQ(answer.output, "out\n");
  EXPECT_EQ(answer.error_output, "err\n");
  EXPECT_EQ(answer.number("exit_code"), 7);
}

}  // namespace
}  // namespace warren::runtime
