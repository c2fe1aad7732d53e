// What of the network a sandbox may reach, as clients say it and as they are told.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "api/arguments.h"
#include "runtime/egress/policy.h"
#include "runtime/egress/report.h"

namespace warren::api {

// The member "egress": true or "open", false or "none", a list of entries (policy.h), or an object
// {"mode":"open"|"none"|"list","allow":[…]}. Absent or wrong: nothing, and what is wrong is refused.
std::optional<runtime::EgressPolicy> read_egress(Arguments& arguments);

// "open", "none", or the list of its entries; the same as a piece of text.
boost::json::value egress_json(const runtime::EgressPolicy& policy);
std::string egress_told(const runtime::EgressPolicy& policy);

// A sentence for whoever asked for more than `given`, where the host offers no network for the
// reason `why`; else empty.
std::string egress_note(const std::optional<runtime::EgressPolicy>& asked,
                        const runtime::EgressPolicy& given, std::string_view why);

// {"egress":…,"refused":{REASON:N,…},"latest":[{"reason","why","address","protocol","port","times",
// "last_at"},…]}: why a download failed.
boost::json::object explanation_json(const runtime::EgressReport& report);
// The same as lines for people and models.
std::string explanation_told(const runtime::EgressReport& report);

}  // namespace warren::api
