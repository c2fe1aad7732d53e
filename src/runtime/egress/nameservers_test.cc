#include "runtime/egress/nameservers.h"

#include <gmock/gmock.h>

namespace warren::runtime {
namespace {

std::vector<std::string> texts(std::string_view file) {
  std::vector<std::string> found;
  for (const auto& address : nameservers_in(file)) found.push_back(address.text());
  return found;
}

TEST(Nameservers, AreThoseThatOthersReachToo) {
  using ::testing::ElementsAre;
  using ::testing::IsEmpty;
  EXPECT_THAT(texts("# nameserver 1.1.1.1\nsearch lan\nnameserver 192.168.1.1\n nameserver\t2001:db8::53 "
                    "\noptions edns0\n"
                    "nameserver 192.168.1.1"),
              ElementsAre("192.168.1.1", "2001:db8::53"));
  EXPECT_THAT(
      texts("nameserver 127.0.0.53\nnameserver ::1\nnameserver fe80::1%eth0\nnameserver\nnameserver x"),
      IsEmpty());
  EXPECT_THAT(texts(""), IsEmpty());
}

}  // namespace
}  // namespace warren::runtime
