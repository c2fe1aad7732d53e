// The command line's way to the server: its REST face, with the key from $WARREN_KEY
// or HOME/admin.key, at $WARREN_URL or the address that `warren serve` uses.
#pragma once

#include <boost/json/object.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/task.h"
#include "http/client.h"
#include "warren/config.h"

namespace warren::cli {

// Where the server is and who asks.
struct Access {
  std::string url;
  std::string key;
  // The home that told the address; empty where the environment did.
  std::string home;
};

// Where there is no key that this user can read: kNotFound without a home, else kUnauthorized,
// saying what to set.
Result<Access> find_access(const Config& config);

// Where the server of this home serves: what the running one wrote into HOME/run/address,
// or the configured address.
std::string local_url(const Config& config);

class ApiClient {
 public:
  static Result<std::shared_ptr<ApiClient>> make(Executor executor, const Access& access);
  ApiClient(std::shared_ptr<http::Client> http, const Access& access)
      : http_(std::move(http)), key_(access.key), home_(access.home) {}

  // Sends the request with the key. An answer of 400 or more is an Error with the
  // server's own sentence.
  Task<Result<std::shared_ptr<http::ClientResponse>>> send(http::ClientRequest request);

  // The same, and the JSON object that comes back; an empty one for 204.
  Task<Result<boost::json::object>> call(std::string method, std::string target, boost::json::object body);
  Task<Result<boost::json::object>> call(std::string method, std::string target);

  // The ids of this account's sandboxes with that name.
  Task<Result<std::vector<std::string>>> named(std::string name);

  // The id of the sandbox that a person means by `name`: an id, or a sandbox's name
  // if exactly one has it.
  Task<Result<std::string>> resolve(std::string name);

 private:
  std::shared_ptr<http::Client> http_;
  std::string key_;
  std::string home_;
};

// Cuts an answer into lines.
class LineReader {
 public:
  explicit LineReader(std::shared_ptr<http::ClientResponse> response) : response_(std::move(response)) {}
  // The next line without its end; nothing at the end of the answer. kUnavailable if it broke off.
  Task<Result<std::optional<std::string>>> next();

 private:
  std::shared_ptr<http::ClientResponse> response_;
  std::string buffer_;
  std::size_t searched_ = 0;
};

// The string that a member of an answer is; empty where it is none.
std::string text_at(const boost::json::object& object, std::string_view name);

// `bytes` as they may stand in a URL's query.
std::string percent_encoded(std::string_view bytes);

}  // namespace warren::cli
