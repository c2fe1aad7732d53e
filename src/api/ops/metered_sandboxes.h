// The service as it is, with every operation and call counted and timed.
#pragma once

#include <memory>

#include "api/ops/metrics.h"
#include "service/sandboxes.h"

namespace warren::api::ops {

std::shared_ptr<service::Sandboxes> metered(std::shared_ptr<service::Sandboxes> sandboxes,
                                            std::shared_ptr<Metrics> metrics);

}  // namespace warren::api::ops
