# What the server needs to talk to the runtime.
add_library(warren_runtime_client STATIC client.cc messages.cc packet_socket.cc)
target_link_libraries(warren_runtime_client PUBLIC warren_changes_answer warren_egress_policy warren_linux warren_base Boost::json)

# A connection to the server, over any driver.
add_library(warren_runtime_session STATIC session.cc)
target_link_libraries(warren_runtime_session PUBLIC warren_runtime_client)

# The runtime process.
add_library(warren_runtime STATIC doctor.cc network_doctor.cc server.cc)
target_link_libraries(warren_runtime PUBLIC warren_egress warren_namespace_driver warren_runtime_session)

warren_test(runtime_messages_test SOURCES messages_test.cc LIBS warren_runtime_client)
warren_test(runtime_session_test SOURCES session_test.cc LIBS warren_runtime_session warren_runtime_waiting)
warren_test(doctor_test SOURCES doctor_test.cc LIBS warren_runtime)
warren_test(network_doctor_test SOURCES network_doctor_test.cc LIBS warren_runtime)
warren_test(runtime_test SOURCES runtime_test.cc LIBS warren_runtime warren_namespace_testing)
