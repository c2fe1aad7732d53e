// For tests that make real sandboxes: a home of its own, a driver with the stub
// agent, and a line to the stub. Needs root, and fails without.
#pragma once

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "runtime/namespace/namespace_driver.h"

namespace warren::runtime::testing {

// What a command inside wrote, and its exit code.
struct Said {
  std::string output;
  int exit_code = -1;
};

class NamespaceFixture : public ::testing::Test {
 protected:
  // One pool for all of a suite's tests, since making one takes a while.
  static void SetUpTestSuite();
  static void TearDownTestSuite();

  // The two steps of SetUpTestSuite(), for suites whose driver is made in another way: a suite
  // has one driver, whose tasks end with the event loop.
  static void prepare();
  static void open_driver(NamespaceOptions options);

  void SetUp() override;
  void TearDown() override;

  static NamespaceOptions options();
  static SandboxSpec spec();

  // A new sandbox's id; the test fails if it cannot be made.
  std::string make(const SandboxSpec& wanted = spec());

  // What the driver's tasks come to, with the event loop running meanwhile.
  static Result<void> create(const SandboxSpec& wanted);
  static Result<void> destroy(const std::string& id);

  // Runs the event loop until `done`, for a minute at most; false: it is not.
  static bool run_until(const std::function<bool()>& done);
  // Until nothing is left of any sandbox but those that are there.
  static void settle();

  // Runs `command` with /bin/sh inside, over a fresh connection. An exit code of -1:
  // the stub did not answer in half a minute, or has ended.
  Said run(const std::string& id, const std::string& command);

  // Outlives the driver, whose tasks run on it.
  static std::unique_ptr<boost::asio::io_context> context_;
  static std::filesystem::path home_;
  static std::unique_ptr<NamespaceDriver> driver_;
};

}  // namespace warren::runtime::testing
