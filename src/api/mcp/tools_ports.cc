// expose_port.
#include <fmt/format.h>

#include <utility>

#include "api/mcp/tools.h"

namespace warren::api::mcp {

namespace json = boost::json;

namespace {

constexpr IntegerRange kPort{.min = 1, .max = 65'535};

}  // namespace

ToolResult Tools::expose_port(const CallContext& context, const json::object& object) {
  Arguments arguments(object);
  const std::string id = arguments.require_string("sandbox_id", {"id"});
  const std::int64_t port = arguments.integer("port", kPort).value_or(0);
  const auto visibility = arguments.choice("visibility", {"public", "private", "closed"});
  if (!object.contains("port")) arguments.refuse("port is missing: a number from 1 to 65535");
  if (const auto read = arguments.finish(); !read) return failed(read.error());
  if (auto why = missing(context, id)) return std::move(*why);

  json::object structured;
  structured["port"] = port;
  structured["visibility"] = visibility.value_or("public");
  if (visibility == "closed") {
    if (const auto closed = sandboxes_->ports().close(context.caller, id, port); !closed)
      return failed(closed.error());
    return done(fmt::format("port {} has no URL any more\n", port), std::move(structured));
  }
  const auto wanted = visibility == "private" ? service::Visibility::kPrivate : service::Visibility::kPublic;
  const auto exposed = sandboxes_->ports().expose(context.caller, id, port, wanted);
  if (!exposed) return failed(exposed.error());
  const std::string url = port_url(port_urls_, context.base_url, *exposed);
  structured["url"] = url;
  std::string text = fmt::format("url: {}\n", url);
  if (!exposed->access_token.empty()) {
    structured["token"] = exposed->access_token;
    text += fmt::format("token: {}\nSend the token in the header {}; in a browser, open {}?{}={} once.\n",
                        exposed->access_token, kPortTokenHeader, url, kPortTokenName, exposed->access_token);
  }
  text +=
      fmt::format("It leads to whatever listens on port {} in the sandbox, and is told only now.\n", port);
  return done(std::move(text), std::move(structured));
}

}  // namespace warren::api::mcp
