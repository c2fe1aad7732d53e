#include "api/mcp/catalogue_entries.h"

#include <boost/json/array.hpp>
#include <utility>

namespace warren::api::mcp {

namespace json = boost::json;

json::object typed(std::string_view type, std::string_view description) {
  json::object schema;
  schema["type"] = type;
  if (!description.empty()) schema["description"] = description;
  return schema;
}

json::object integer(std::string_view description, long min, long max) {
  json::object schema = typed("integer", description);
  schema["minimum"] = min;
  schema["maximum"] = max;
  return schema;
}

json::object list_of(json::object items, std::string_view description) {
  json::object schema = typed("array", description);
  schema["items"] = std::move(items);
  return schema;
}

json::object object_schema(std::vector<Property> properties, std::initializer_list<std::string_view> required,
                           Strict strict) {
  json::object fields;
  for (Property& property : properties) fields[property.name] = std::move(property.schema);
  json::object schema;
  schema["type"] = "object";
  schema["properties"] = std::move(fields);
  if (required.size() > 0) {
    json::array names;
    for (const std::string_view name : required) names.push_back(json::string(name));
    schema["required"] = std::move(names);
  }
  if (strict == Strict::kYes) schema["additionalProperties"] = false;
  return schema;
}

json::object tool(std::string_view name, std::string_view title, std::string_view description,
                  json::object input, json::object output, Hints hints) {
  json::object annotations;
  annotations["title"] = title;
  annotations["readOnlyHint"] = hints.read_only;
  annotations["destructiveHint"] = hints.destructive;
  annotations["idempotentHint"] = hints.idempotent;
  annotations["openWorldHint"] = false;
  json::object tool;
  tool["name"] = name;
  tool["title"] = title;
  tool["description"] = description;
  tool["inputSchema"] = std::move(input);
  tool["outputSchema"] = std::move(output);
  tool["annotations"] = std::move(annotations);
  return tool;
}

json::object one_of(std::string_view description, std::initializer_list<std::string_view> choices) {
  json::object schema = typed("string", description);
  json::array& names = schema["enum"].emplace_array();
  for (const std::string_view choice : choices) names.push_back(json::string(choice));
  return schema;
}

json::object sandbox_id() { return typed("string", "The sandbox, as create_sandbox returned it (sbx_...)."); }

}  // namespace warren::api::mcp
