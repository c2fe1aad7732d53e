// expose_port, as the catalogue has it.
#include "api/mcp/catalogue_entries.h"

namespace warren::api::mcp {

namespace json = boost::json;

json::object expose_port_tool() {
  return tool(
      "expose_port", "Give a port a URL",
      "Make a server in the sandbox reachable by a URL with an unguessable token: HTTP, server-sent events, "
      "WebSocket. It may listen on 127.0.0.1; start it in the background first. Exposing a port again gives "
      "a "
      "new URL and ends the old one; visibility closed ends it without a new one. Forks have no URLs until "
      "asked for.",
      object_schema(
          {{"sandbox_id", sandbox_id()},
           {"port", integer("What the server listens on.", 1, 65535)},
           {"visibility", one_of("public (the default): whoever has the URL. private: a token is needed too. "
                                 "closed: nobody any more.",
                                 {"public", "private", "closed"})}},
          {"sandbox_id", "port"}, Strict::kYes),
      object_schema({{"url", typed("string", "Ends with a slash. Told only now.")},
                     {"token", typed("string", "Of a private one, for the header X-Warren-Port-Token.")},
                     {"port", typed("integer", "")},
                     {"visibility", typed("string", "")}},
                    {"port", "visibility"}, Strict::kNo),
      {});
}

}  // namespace warren::api::mcp
