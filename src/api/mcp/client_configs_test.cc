#include "api/mcp/client_configs.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>

namespace warren::api::mcp {
namespace {

namespace json = boost::json;

const ConfigTarget kTarget{"http://127.0.0.1:7070", "wrn_k\"'_x"};

TEST(ClientConfigs, EachIsTheJsonThatItsClientReads) {
  const json::value claude = json::parse(claude_code_json(kTarget)).at("mcpServers").at("warren");
  EXPECT_EQ(claude.at("type"), json::value("http"));
  EXPECT_EQ(claude.at("url"), json::value("http://127.0.0.1:7070/mcp"));
  EXPECT_EQ(claude.at("headers").at("Authorization"), json::value("Bearer wrn_k\"'_x"));
  const json::value openclaw = json::parse(openclaw_json(kTarget)).at("mcp").at("servers").at("warren");
  EXPECT_EQ(openclaw.at("transport"), json::value("streamable-http"));
  EXPECT_EQ(json::parse(cursor_json(kTarget)).at("mcpServers").at("warren").at("url"), claude.at("url"));
  const json::value stdio = json::parse(stdio_json(kTarget, "/usr/bin/warren")).at("mcpServers").at("warren");
  EXPECT_EQ(stdio.at("args"), json::value(json::array{"mcp"}));
  EXPECT_EQ(stdio.at("env").at("WARREN_KEY"), json::value(kTarget.key));
}

TEST(ClientConfigs, TheCommandsSurviveAShell) {
  EXPECT_EQ(
      claude_code_command(kTarget),
      "claude mcp add --transport http warren http://127.0.0.1:7070/mcp --header 'Authorization: Bearer "
      "wrn_k\"'\\''_x'\n");
  EXPECT_NE(all_client_configs(kTarget, "warren").find(openclaw_command(kTarget)), std::string::npos);
}

}  // namespace
}  // namespace warren::api::mcp
