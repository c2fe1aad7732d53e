add_library(warren_runtime_waiting STATIC waiting.cc)
target_link_libraries(warren_runtime_waiting PUBLIC warren_base)

# The namespace driver.
add_library(
  warren_namespace_driver STATIC
  namespace/agent_image.cc
  namespace/copier.cc
  namespace/disk_space.cc
  namespace/helper_process.cc
  namespace/inside.cc
  namespace/namespace_driver.cc
  namespace/namespace_driver_changes.cc
  namespace/namespace_driver_fork.cc
  namespace/namespace_driver_network.cc
  namespace/namespace_driver_stock.cc
  namespace/overlay_probe.cc
  namespace/pool.cc
  namespace/pool_btrfs.cc
  namespace/pool_plain.cc
  namespace/runners.cc
  namespace/slots.cc
  namespace/start.cc
  namespace/stock.cc
  namespace/sweeper.cc
  namespace/tear_down.cc
  namespace/twin/inspection.cc
  namespace/twin/keeper.cc
  namespace/twin/memory_map.cc
  namespace/twin/settle.cc
  namespace/twin/twin_fork.cc
  namespace/upper.cc)
target_link_libraries(warren_namespace_driver PUBLIC warren_egress warren_runtime_waiting warren_birth warren_changes warren_linux warren_base)

# Executed by descriptor in roots without libraries of ours, so static and bare of sanitizers.
add_executable(stub_agent namespace/testing/stub_agent.cc ${WARREN_BIRTH_SOURCES} ${CMAKE_SOURCE_DIR}/src/base/result.cc
                          ${CMAKE_SOURCE_DIR}/src/base/unique_fd.cc)
target_compile_options(stub_agent PRIVATE -Wall -Wextra -Wpedantic -Werror)
target_compile_definitions(stub_agent PRIVATE FMT_HEADER_ONLY)
target_include_directories(stub_agent PRIVATE ${CMAKE_SOURCE_DIR}/src)
target_link_libraries(stub_agent PRIVATE ${WARREN_STATIC_CAP})
target_link_options(stub_agent PRIVATE -static)

add_library(
  warren_namespace_testing STATIC
  namespace/testing/fixture.cc
  namespace/testing/tiny_root.cc
  namespace/testing/undying.cc)
target_link_libraries(warren_namespace_testing PUBLIC warren_namespace_driver GTest::gtest)
target_compile_definitions(warren_namespace_testing PUBLIC WARREN_STUB_AGENT="$<TARGET_FILE:stub_agent>")
add_dependencies(warren_namespace_testing stub_agent)

warren_test(
  namespace_driver_test
  SOURCES
  namespace/confinement_test.cc
  namespace/disk_space_test.cc
  namespace/namespace_driver_test.cc
  namespace/pool_test.cc
  namespace/slots_test.cc
  LIBS
  warren_namespace_testing)

# The same sandboxes in a pool without btrfs, and so without disk limits.
add_test(NAME namespace_driver_test_plain_pool
  COMMAND namespace_driver_test "--gtest_filter=Confinement.*:NamespaceDriverTest.*-*TheDiskHasAnEnd:*SmallFilesFill*")
set_tests_properties(namespace_driver_test_plain_pool PROPERTIES ENVIRONMENT WARREN_TEST_PLAIN_POOL=1 TIMEOUT 120)

add_executable(fork_probe namespace/testing/fork_probe.cc)
target_compile_options(fork_probe PRIVATE -Wall -Wextra -Wpedantic -Werror)
target_link_options(fork_probe PRIVATE -static)

warren_test(sandbox_network_test SOURCES namespace/sandbox_network_test.cc LIBS warren_namespace_testing
                                                                            warren_internet_under_test)

warren_test(twin_fork_test SOURCES namespace/twin/twin_fork_test.cc LIBS warren_namespace_testing)
target_compile_definitions(twin_fork_test PRIVATE WARREN_FORK_PROBE="$<TARGET_FILE:fork_probe>")
add_dependencies(twin_fork_test fork_probe)

# Prints what each step of create and destroy costs; not a test.
add_executable(namespace_steps namespace/testing/namespace_steps.cc)
target_link_libraries(namespace_steps PRIVATE warren_namespace_testing)
