// What comparing and merging come to, as the faces answer it. Paths are bytes: one that is not
// UTF-8 goes as "path_base64" in place of "path".
#pragma once

#include <boost/json/object.hpp>
#include <string>

#include "changes/answer.h"
#include "changes/report.h"

namespace warren::api {

// {"added":[…],"removed":[…],"modified":[…],"truncated":B}. An entry: "path", "type", "size" and
// "mode" (of what is there now, or was), "target" of a symbolic link; of a modified one
// "before" with the same as it was, and "text" or "no_text" where text was asked for.
boost::json::object diff_json(const changes::Diff& diff);

// {"applied":B,"counts":{…},"added":[…],"modified":[…],"deleted":[…],"merged":[…],"renamed":[…],
// "conflicts":[…],"skipped":[…],"truncated":B}.
boost::json::object report_json(const changes::MergeReport& report);

// One sentence on why a report says that nothing was changed, with the first conflicts.
std::string conflicts_told(const changes::MergeReport& report);

}  // namespace warren::api
