#include "gateway/shares.h"

namespace warren::gateway {

std::shared_ptr<void> Shares::take(const IpAddress& client) {
  if (all_ >= most_) return nullptr;
  auto& own = of_[client];
  if (own >= most_of_one_) return nullptr;
  ++own;
  ++all_;
  return {static_cast<void*>(this), [self = shared_from_this(), client](void*) {
            --self->all_;
            if (--self->of_[client] == 0) self->of_.erase(client);
          }};
}

}  // namespace warren::gateway
