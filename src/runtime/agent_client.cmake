# The host's end of the wire to an agent, a library of its own: the server links it too, and
# needs nothing else of the runtime.
add_library(warren_agent_client STATIC agent_apply.cc agent_client.cc agent_session.cc)
target_link_libraries(warren_agent_client PUBLIC warren_wire warren_base Boost::json)

# A real agent as a child process, for tests of whatever speaks to one.
add_library(warren_agent_under_test STATIC EXCLUDE_FROM_ALL agent_under_test.cc)
target_link_libraries(warren_agent_under_test PUBLIC warren_agent_client GTest::gtest)
target_compile_definitions(warren_agent_under_test PRIVATE WARREN_AGENT="$<TARGET_FILE:warren-agent>")
add_dependencies(warren_agent_under_test warren-agent)

warren_test(agent_session_test SOURCES agent_session_test.cc LIBS warren_agent_client)
warren_test(agent_client_test SOURCES agent_client_test.cc LIBS warren_agent_under_test)
warren_test(agent_apply_test SOURCES agent_apply_test.cc LIBS warren_agent_under_test)
warren_test(agent_connect_test SOURCES agent_connect_test.cc LIBS warren_agent_under_test)
warren_test(agent_files_test SOURCES agent_files_test.cc LIBS warren_agent_under_test)
warren_test(agent_python_test SOURCES agent_python_test.cc LIBS warren_agent_under_test)
target_compile_definitions(agent_python_test PRIVATE
  WARREN_FAKE_RUNNER="${CMAKE_CURRENT_SOURCE_DIR}/testdata/fake_runner.py")
# GCC 12 warns of its own std::string (PR 105651).
target_compile_options(agent_apply_test PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
target_compile_options(agent_files_test PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
target_compile_options(agent_connect_test PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
