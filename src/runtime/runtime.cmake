# What the server needs to talk to the runtime.
add_library(warren_runtime_client STATIC client.cc messages.cc packet_socket.cc)
target_link_libraries(warren_runtime_client PUBLIC warren_linux warren_base Boost::json)

# The runtime process.
add_library(warren_runtime STATIC doctor.cc server.cc session.cc)
target_link_libraries(warren_runtime PUBLIC warren_namespace_driver warren_runtime_client)

warren_test(runtime_messages_test SOURCES messages_test.cc LIBS warren_runtime_client)
warren_test(doctor_test SOURCES doctor_test.cc LIBS warren_runtime)
warren_test(runtime_test SOURCES runtime_test.cc LIBS warren_runtime warren_namespace_testing)
