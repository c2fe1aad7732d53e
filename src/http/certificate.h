// What a server that speaks TLS shows: its certificate, those that vouch for it, and the key.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"

namespace boost::asio::ssl {
class context;
}

namespace warren::http {

class Certificate {
 public:
  // Both as PEM; the chain begins with the server's own. kInvalid, naming the part that is wrong, if
  // one cannot be read, the key is not the certificate's, or the certificate is out of date.
  static Result<std::shared_ptr<const Certificate>> make(std::string_view chain, std::string_view key,
                                                         WallTime now);
  ~Certificate();
  Certificate(const Certificate&) = delete;
  Certificate& operator=(const Certificate&) = delete;

  // Whom it is for, and until when.
  const std::string& names() const { return names_; }
  WallTime expires_at() const { return expires_at_; }
  boost::asio::ssl::context& context() const { return *context_; }

 private:
  Certificate();

  std::unique_ptr<boost::asio::ssl::context> context_;
  std::string names_;
  WallTime expires_at_;
};

}  // namespace warren::http
