# What a policy is, for everybody who has to do with one.
add_library(warren_egress_policy STATIC egress/policy.cc)
target_link_libraries(warren_egress_policy PUBLIC warren_base)

# The router of all sandboxes, in the runtime.
add_library(warren_egress STATIC egress/addresses.cc egress/forwarding.cc egress/nameservers.cc egress/refusals.cc egress/resolver_host.cc egress/router.cc egress/router_policy.cc
                                 egress/rules.cc egress/uplink.cc)
target_link_libraries(warren_egress PUBLIC warren_egress_policy warren_network warren_runtime_waiting)

# A little internet for tests of whatever speaks to one.
add_library(warren_internet_under_test STATIC EXCLUDE_FROM_ALL egress/internet_under_test.cc)
target_link_libraries(warren_internet_under_test PUBLIC warren_network GTest::gtest)

warren_test(egress_policy_test SOURCES egress/policy_test.cc LIBS warren_egress_policy)
warren_test(nameservers_test SOURCES egress/nameservers_test.cc LIBS warren_egress)
warren_test(forwarding_test SOURCES egress/forwarding_test.cc LIBS warren_egress warren_internet_under_test)
warren_test(router_test SOURCES egress/router_test.cc LIBS warren_egress warren_internet_under_test)
warren_test(router_attack_test SOURCES egress/router_attack_test.cc LIBS warren_egress warren_internet_under_test)
