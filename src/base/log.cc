#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>

#include <memory>
#include <string>

namespace warren {

void start_log(std::string_view part, std::string_view level) {
  auto logger = std::make_shared<spdlog::logger>(std::string(part),
                                                 std::make_shared<spdlog::sinks::stderr_sink_st>());
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %l %n: %v", spdlog::pattern_time_type::utc);
  logger->set_level(spdlog::level::from_str(std::string(level)));
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace warren
