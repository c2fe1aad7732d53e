# The host's end of the wire to an agent, a library of its own: the server links it too, and
# needs nothing else of the runtime.
add_library(warren_agent_client STATIC agent_client.cc agent_session.cc)
target_link_libraries(warren_agent_client PUBLIC warren_wire warren_base Boost::json)

warren_test(agent_client_test SOURCES agent_client_test.cc agent_under_test.cc LIBS warren_agent_client)
target_compile_definitions(agent_client_test PRIVATE WARREN_AGENT="$<TARGET_FILE:warren-agent>")
add_dependencies(agent_client_test warren-agent)
