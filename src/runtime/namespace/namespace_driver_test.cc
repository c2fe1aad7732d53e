// The namespace driver with real sandboxes. Needs root; fails without.
#include "runtime/namespace/namespace_driver.h"

#include <gmock/gmock.h>

#include "base/ids.h"
#include "runtime/namespace/testing/fixture.h"

namespace warren::runtime {
namespace {

using ::testing::HasSubstr;

class NamespaceDriverTest : public testing::NamespaceFixture {};

TEST_F(NamespaceDriverTest, ACommandRunsInANewSandbox) {
  const auto id = make();
  const auto said = run(id, "id -u; pwd; hostname");
  EXPECT_EQ(said.exit_code, 0);
  EXPECT_THAT(said.output, HasSubstr("0\n/\nsbx-"));
}

}  // namespace
}  // namespace warren::runtime
