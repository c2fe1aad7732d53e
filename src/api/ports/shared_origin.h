// What makes it safe that the pages of many sandboxes, and Warren itself, are served by one origin:
// each page is put into an origin of its own (CSP's sandbox), keeps its cookies to its own path, and
// says nothing that would hold for the whole origin. docs/security.md says why each of these.
#pragma once

#include <string>
#include <string_view>

#include "http/message.h"

namespace warren::api::ports {

// Where a port is, on the shared origin.
struct Place {
  std::string prefix;          // "/p/TOKEN"
  std::string cookie_mark;     // begins the names of its cookies
  bool opaque_origin = false;  // the request comes from a page in an origin of its own
};

Place make_place(const http::Request& request, std::string_view url_token);

// Changes an answer's fields.
void fit_answer(http::Headers& headers, const Place& place);

// The Cookie field for the program: its own cookies under their own names; empty if there are none.
std::string own_cookies(std::string_view cookies, const Place& place);

// The answer to a CORS preflight by a page in an origin of its own.
http::Response preflight_answer(const http::Request& request);
bool is_preflight(const http::Request& request);

}  // namespace warren::api::ports
