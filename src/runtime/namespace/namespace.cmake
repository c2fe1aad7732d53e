# The namespace driver.
add_library(
  warren_namespace_driver STATIC
  namespace/agent_image.cc
  namespace/inside.cc
  namespace/namespace_driver.cc
  namespace/overlay_probe.cc
  namespace/pool.cc
  namespace/root.cc
  namespace/slots.cc
  namespace/upper.cc)
target_link_libraries(warren_namespace_driver PUBLIC warren_linux warren_base)

# Executed by descriptor in roots without libraries of ours, so static and bare of sanitizers.
add_executable(stub_agent namespace/testing/stub_agent.cc)
target_compile_options(stub_agent PRIVATE -Wall -Wextra -Wpedantic -Werror)
target_link_options(stub_agent PRIVATE -static)

warren_test(
  namespace_driver_test
  SOURCES
  namespace/namespace_driver_test.cc
  namespace/testing/fixture.cc
  LIBS
  warren_namespace_driver)
target_compile_definitions(namespace_driver_test PRIVATE WARREN_STUB_AGENT="$<TARGET_FILE:stub_agent>")
add_dependencies(namespace_driver_test stub_agent)
