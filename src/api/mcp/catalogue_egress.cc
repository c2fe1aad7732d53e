// set_egress and explain, as the catalogue has them, and what both faces' clients say of egress.
#include <boost/json/array.hpp>

#include "api/mcp/catalogue_entries.h"

namespace warren::api::mcp {

namespace json = boost::json;

json::object egress_argument(std::string_view description) {
  json::object egress;
  egress["description"] = description;
  json::object word = typed("string", "");
  word["enum"] = json::array{"open", "none"};
  egress["anyOf"] = json::array{json::object{{"type", "boolean"}}, std::move(word),
                                json::object{{"type", "array"}, {"items", json::object{{"type", "string"}}}},
                                json::object{{"type", "object"}}};
  return egress;
}

json::object egress_answer() {
  json::object egress;
  egress["description"] = "What of the network the sandbox reaches: open, none, or a list of what it may.";
  egress["anyOf"] = json::array{json::object{{"type", "string"}},
                                json::object{{"type", "array"}, {"items", json::object{{"type", "string"}}}}};
  return egress;
}

json::object set_egress_tool() {
  return tool(
      "set_egress", "Change what a sandbox may reach",
      "Change what of the network a sandbox may reach while it runs; connections that this does not allow "
      "end. Use \"none\" before you run code that nobody has reviewed on data that must not leave.",
      object_schema({{"sandbox_id", sandbox_id()},
                     {"egress", egress_argument("\"none\" or false: nothing. \"open\" or true: the internet, but "
                                                "never private addresses or the host. A list: addresses and "
                                                "ranges, like 203.0.113.0/24 or 203.0.113.7:443.")}},
                    {"sandbox_id", "egress"}, Strict::kYes),
      object_schema({{"sandbox_id", typed("string", "")}, {"egress", egress_answer()}},
                    {"sandbox_id", "egress"}, Strict::kNo),
      {.read_only = false, .destructive = true, .idempotent = true});
}

json::object explain_tool() {
  json::object entry = object_schema({{"reason", typed("string", "")},
                                      {"why", typed("string", "")},
                                      {"address", typed("string", "")},
                                      {"protocol", typed("string", "")},
                                      {"port", typed("integer", "")},
                                      {"times", typed("integer", "")},
                                      {"last_at", typed("string", "RFC 3339")}},
                                     {"reason", "address"}, Strict::kNo);
  return tool("explain", "Explain what was refused",
              "Say what a sandbox may reach of the network and what it was refused lately, with the reason. Call "
              "it when a download or a connection in the sandbox fails.",
              object_schema({{"sandbox_id", sandbox_id()}}, {"sandbox_id"}, Strict::kYes),
              object_schema({{"sandbox_id", typed("string", "")},
                             {"egress", egress_answer()},
                             {"refused", typed("object", "Packets, by reason.")},
                             {"latest", list_of(std::move(entry), "The latest first.")}},
                            {"egress", "refused", "latest"}, Strict::kNo),
              {.read_only = true, .destructive = false, .idempotent = true});
}

}  // namespace warren::api::mcp
