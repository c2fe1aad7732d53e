// What the catalogue's entries are made of: JSON Schema, and the entries that do not
// stand in catalogue.cc.
#pragma once

#include <boost/json/object.hpp>
#include <initializer_list>
#include <string_view>
#include <vector>

namespace warren::api::mcp {

struct Property {
  std::string_view name;
  boost::json::object schema;
};

boost::json::object typed(std::string_view type, std::string_view description);
boost::json::object integer(std::string_view description, long min, long max);
boost::json::object list_of(boost::json::object items, std::string_view description);
boost::json::object one_of(std::string_view description, std::initializer_list<std::string_view> choices);

// Output schemas stay open, so that a field more breaks no client that has read
// an older list.
enum class Strict { kYes, kNo };
boost::json::object object_schema(std::vector<Property> properties,
                                  std::initializer_list<std::string_view> required, Strict strict);

struct Hints {
  bool read_only = false;
  bool destructive = false;
  bool idempotent = false;
};

boost::json::object tool(std::string_view name, std::string_view title, std::string_view description,
                         boost::json::object input, boost::json::object output, Hints hints);

// The argument that most tools have.
boost::json::object sandbox_id();

// catalogue_fork.cc
boost::json::object fork_tool();
boost::json::object merge_into_tool();
boost::json::object diff_tool();

// catalogue_egress.cc
boost::json::object egress_argument(std::string_view description);
boost::json::object egress_answer();
boost::json::object set_egress_tool();
boost::json::object explain_tool();

// catalogue_ports.cc
boost::json::object expose_port_tool();

}  // namespace warren::api::mcp
