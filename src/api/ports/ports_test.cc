// What passes between a client and a program, without either of them.
#include <gtest/gtest.h>

#include <initializer_list>
#include <utility>

#include "api/port_urls.h"
#include "api/ports/cookies.h"
#include "api/ports/redirects.h"
#include "api/ports/secrets.h"
#include "api/ports/shared_origin.h"
#include "base/base64.h"

namespace warren::api::ports {
namespace {

Place place() {
  Place place;
  place.prefix = "/p/abc";
  place.cookie_mark = "wp-1-";
  return place;
}

std::string fitted(const std::string& name, std::string value) {
  http::Headers headers;
  headers.add(name, std::move(value));
  fit_answer(headers, place());
  return std::string(headers.get(name).value_or("(gone)"));
}

TEST(SharedOrigin, PutsEachPageIntoAnOriginOfItsOwn) {
  http::Headers headers;
  headers.add("Content-Security-Policy", "sandbox allow-same-origin allow-scripts");
  fit_answer(headers, place());
  const auto policies = headers.all("content-security-policy");
  ASSERT_EQ(policies.size(), 2U);
  EXPECT_EQ(policies[1].find("allow-same-origin"), std::string_view::npos);
  EXPECT_TRUE(policies[1].starts_with("sandbox allow-scripts"));
}

TEST(SharedOrigin, LetsNoProgramSpeakForAllThatIsServedThere) {
  for (const char* name : {"Clear-Site-Data", "strict-transport-security", "ALT-SVC", "NEL", "Report-To",
                           "Service-Worker-Allowed", "WWW-Authenticate", "Reporting-Endpoints"})
    EXPECT_EQ(fitted(name, "x"), "(gone)") << name;
  EXPECT_EQ(fitted("Content-Type", "text/html"), "text/html");
}

TEST(Redirects, StayWhereTheyBelong) {
  const Site shared{.host = "warren.test:7070", .prefix = "/p/abc", .port = 8080};
  for (const auto& [said, told] : std::initializer_list<std::pair<const char*, const char*>>{
           {"/login?next=/", "/p/abc/login?next=/"},
           {"http://warren.test:7070/login", "/p/abc/login"},
           {"http://WARREN.test:7070", "/p/abc/"},
           {"http://localhost:8080/x", "/p/abc/x"},
           {"http://127.0.0.1:8080?x", "/p/abc/?x"},
           {"http://warren.test:8080/x", "/p/abc/x"},
           {"https://elsewhere.test/login", "https://elsewhere.test/login"},
           {"http://warren.test:9090/x", "http://warren.test:9090/x"},
           {"//elsewhere.test/login", "//elsewhere.test/login"},
           {"next", "next"},
           {"/p/abc/there", "/p/abc/there"},
           {"/v1/sandboxes", "/p/abc/v1/sandboxes"}})
    EXPECT_EQ(redirected(said, shared), told);
  const Site own{.host = "8080-1.sandboxes.test", .prefix = {}, .port = 8080};
  EXPECT_EQ(redirected("http://8080-1.sandboxes.test:8080/x", own), "/x");
  EXPECT_EQ(redirected("http://localhost:8080//elsewhere.test", own), "/.//elsewhere.test");
  EXPECT_EQ(redirected("/x", own), "/x");
}

TEST(SharedOrigin, KeepsCookiesToTheirPath) {
  EXPECT_EQ(fitted("Set-Cookie", "a=b; Path=/; HttpOnly; Domain=warren.test"),
            "wp-1-a=b; HttpOnly; Path=/p/abc/");
  EXPECT_EQ(fitted("Set-Cookie", "a=b; path=/x; PATH=/y"), "wp-1-a=b; Path=/p/abc/y");
  EXPECT_EQ(fitted("Set-Cookie", "a=b"), "wp-1-a=b; Path=/p/abc/");
  EXPECT_EQ(fitted("Set-Cookie", "__Host-a=b; Secure; Path=/"), "wp-1-__Host-a=b; Secure; Path=/p/abc/");
  EXPECT_EQ(own_cookies("session=of-the-host; wp-1-a=b; wp-2-a=other; wp-1-c=d=e", place()), "a=b; c=d=e");
  EXPECT_EQ(own_cookies("session=of-the-host", place()), "");
}

TEST(SharedOrigin, TellsABrowserThatAPageMayReadItsOwnFiles) {
  Place opaque = place();
  opaque.opaque_origin = true;
  http::Headers headers;
  fit_answer(headers, opaque);
  EXPECT_EQ(headers.get("Access-Control-Allow-Origin"), "null");
  EXPECT_FALSE(headers.get("Access-Control-Allow-Credentials"));
  EXPECT_EQ(fitted("Access-Control-Allow-Origin", "*"), "*");
}

TEST(Cookies, OfAHostHaveNoDomain) {
  EXPECT_EQ(cookie_of_host("a=b; Domain=.sandboxes.test; Secure"), "a=b; Secure");
  EXPECT_EQ(cookies_without("a=1; warren_port_token=x; b=2", "warren_port_token"), "a=1; b=2");
  EXPECT_EQ(cookies_without("warren_port_token=x", "warren_port_token"), "");
}

TEST(Secrets, AKeyIsFoundWhereverItStands) {
  const std::string key = "wrn_abcd1234_abcdefghijklmnopqrstuvwxyz012345";
  EXPECT_TRUE(has_warren_key("Bearer " + key));
  EXPECT_TRUE(has_warren_key("key=" + key + "; x"));
  EXPECT_TRUE(has_warren_key("Basic " + encode_base64("user:" + key)));
  EXPECT_TRUE(has_warren_key("bASIC " + encode_base64(key + ":")));
  EXPECT_FALSE(has_warren_key("Bearer sk-other"));
  EXPECT_FALSE(has_warren_key("Basic " + encode_base64("user:password")));
  EXPECT_FALSE(has_warren_key("wrn_ab"));
}

http::Request request_from(std::string peer, std::string host) {
  http::Request request;
  request.peer = std::move(peer);
  request.headers.add("Host", std::move(host));
  return request;
}

service::ExposedPort exposed() {
  service::ExposedPort port;
  port.info.port = 8080;
  port.url_token = "0123456789abcdef0123456789abcdef";
  return port;
}

TEST(PortUrls, AreBelowTheServersOwnHostOrOnesOfTheirOwn) {
  const PortUrls plain;
  EXPECT_EQ(port_url(plain, "http://127.0.0.1:7070", exposed()),
            "http://127.0.0.1:7070/p/0123456789abcdef0123456789abcdef/");
  const PortUrls domain{.domain = "sandboxes.test", .public_url = {}};
  EXPECT_EQ(port_url(domain, "https://warren.test:8443", exposed()),
            "https://8080-0123456789abcdef0123456789abcdef.sandboxes.test:8443/");
  EXPECT_EQ(port_url(domain, "https://[::1]:8443", exposed()),
            "https://8080-0123456789abcdef0123456789abcdef.sandboxes.test:8443/");
  EXPECT_EQ(token_of_host(domain, "8080-0123.Sandboxes.TEST.:8443"), "0123");
  EXPECT_EQ(token_of_host(domain, "anything.sandboxes.test"), "");
  EXPECT_EQ(token_of_host(domain, "sandboxes.test"), std::nullopt);
  EXPECT_EQ(token_of_host(domain, "8080-0123.evilsandboxes.test"), std::nullopt);
  EXPECT_EQ(token_of_host(plain, "8080-0123.sandboxes.test"), std::nullopt);
}

TEST(PortUrls, BeginAsTheClientReachesTheServer) {
  EXPECT_EQ(base_url({}, request_from("10.0.0.1", "warren.test:7070")), "http://warren.test:7070");
  EXPECT_EQ(base_url({.domain = {}, .public_url = "https://w.test"}, request_from("10.0.0.1", "x")),
            "https://w.test");
  auto proxied = request_from("127.0.0.1", "127.0.0.1:7070");
  proxied.headers.add("X-Forwarded-Proto", "https");
  proxied.headers.add("X-Forwarded-Host", "warren.test");
  EXPECT_EQ(base_url({}, proxied), "https://warren.test");
  proxied.peer = "10.0.0.1";
  EXPECT_EQ(base_url({}, proxied), "http://127.0.0.1:7070");
  EXPECT_EQ(base_url({}, request_from("10.0.0.1", "evil\" onload=")), "http://localhost");
}

}  // namespace
}  // namespace warren::api::ports
