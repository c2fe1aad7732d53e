# Templates: their definitions, and building their root file systems.
add_library(warren_templates STATIC apt_sources.cc build_phases.cc child_lines.cc root_builder.cc template_definition.cc
                                    templates.cc)
target_link_libraries(warren_templates PUBLIC warren_flags warren_base fmt::fmt)

warren_test(templates_test SOURCES build_phases_test.cc templates_test.cc LIBS warren_templates)
