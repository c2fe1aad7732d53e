// Counts what is under way, of each client and of all together, so that none takes all there is.
#pragma once

#include <cstddef>
#include <map>
#include <memory>

#include "base/ip_address.h"

namespace warren::gateway {

class Shares : public std::enable_shared_from_this<Shares> {
 public:
  Shares(std::size_t most_of_one, std::size_t most) : most_of_one_(most_of_one), most_(most) {}

  // To be held for as long as it is under way. Null: too much is already.
  std::shared_ptr<void> take(const IpAddress& client);

 private:
  std::size_t most_of_one_;
  std::size_t most_;
  std::size_t all_ = 0;
  std::map<IpAddress, std::size_t> of_;
};

}  // namespace warren::gateway
