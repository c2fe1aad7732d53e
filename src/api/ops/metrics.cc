#include "api/ops/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <chrono>
#include <map>
#include <utility>
#include <vector>

namespace warren::api::ops {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::map<std::string, std::string>;

// In seconds. Operations should take milliseconds, calls take what their code takes.
const prometheus::Histogram::BucketBoundaries kOperationSeconds{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                                                0.25,  0.5,    1,     2.5,  5,     10,   30};
const prometheus::Histogram::BucketBoundaries kCallSeconds{
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800};

double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

std::string_view face_of(const http::Request& request) {
  const std::string_view path = request.path;
  const auto is_in = [path](std::string_view root) {
    return path.starts_with(root) && (path.size() == root.size() || path[root.size()] == '/');
  };
  // A port's host has paths of its own.
  if (request.route == "port" || is_in("/p")) return "ports";
  if (is_in("/mcp")) return "mcp";
  return is_in("/v1") ? "podflare" : "ops";
}

// A family of what is counted elsewhere.
class Told {
 public:
  Told(std::string name, std::string help, MetricType type) {
    family_.name = std::move(name);
    family_.help = std::move(help);
    family_.type = type;
  }

  void add(const Labels& labels, std::uint64_t value) {
    ClientMetric& metric = family_.metric.emplace_back();
    for (const auto& [name, text] : labels) metric.label.push_back({name, text});
    if (family_.type == MetricType::Counter)
      metric.counter.value = static_cast<double>(value);
    else
      metric.gauge.value = static_cast<double>(value);
  }

  MetricFamily family() && { return std::move(family_); }

 private:
  MetricFamily family_;
};

std::vector<MetricFamily> families_of(const service::Census& census) {
  Told sandboxes("warren_sandboxes", "Sandboxes there are.", MetricType::Gauge);
  for (const auto& [kind, count] : census.sandboxes)
    sandboxes.add({{"isolation", kind.isolation}, {"state", kind.state}}, count);
  Told ended("warren_sandboxes_ended_total", "Sandboxes that ended without being destroyed by their owner.",
             MetricType::Counter);
  for (const auto& [why, count] : census.ended) ended.add({{"reason", why}}, count);
  Told ready("warren_stock_ready", "Sandboxes that are ready for the next creates.", MetricType::Gauge);
  Told wanted("warren_stock_wanted", "Sandboxes that should be ready.", MetricType::Gauge);
  Told hits("warren_stock_hits_total", "Creates that found a sandbox ready.", MetricType::Counter);
  Told misses("warren_stock_misses_total", "Creates that found none ready.", MetricType::Counter);
  for (const auto& [name, counts] : census.stock.by_template) {
    const Labels labels{{"template", name}};
    ready.add(labels, counts.ready);
    wanted.add(labels, counts.wanted);
    hits.add(labels, counts.hits);
    misses.add(labels, counts.misses);
  }
  Told runtime("warren_runtime_up", "Whether the runtime answers.", MetricType::Gauge);
  runtime.add({}, census.runtime_is_there ? 1 : 0);
  Told restarts("warren_runtime_restarts_total", "Times that the runtime came back.", MetricType::Counter);
  restarts.add({}, census.runtime_restarts);
  std::vector<MetricFamily> families;
  for (Told* told : {&sandboxes, &ended, &ready, &wanted, &hits, &misses, &runtime, &restarts})
    families.push_back(std::move(*told).family());
  std::erase_if(families, [](const MetricFamily& family) { return family.metric.empty(); });
  return families;
}

}  // namespace

struct Metrics::Families {
  prometheus::Registry registry;
  prometheus::Family<prometheus::Counter>& operations =
      prometheus::BuildCounter()
          .Name("warren_operations_total")
          .Help("Creates, forks, merges and destroys, by how they ended.")
          .Register(registry);
  prometheus::Family<prometheus::Histogram>& operation_seconds =
      prometheus::BuildHistogram()
          .Name("warren_operation_duration_seconds")
          .Help("How long those took that succeeded.")
          .Register(registry);
  prometheus::Family<prometheus::Counter>& calls = prometheus::BuildCounter()
                                                       .Name("warren_calls_total")
                                                       .Help("Calls in sandboxes, by how they ended.")
                                                       .Register(registry);
  prometheus::Family<prometheus::Histogram>& call_seconds =
      prometheus::BuildHistogram()
          .Name("warren_call_duration_seconds")
          .Help("How long calls took, waiting for their turn included.")
          .Register(registry);
  prometheus::Family<prometheus::Counter>& requests = prometheus::BuildCounter()
                                                          .Name("warren_http_requests_total")
                                                          .Help("HTTP requests that were answered.")
                                                          .Register(registry);
  prometheus::Family<prometheus::Gauge>& connections = prometheus::BuildGauge()
                                                           .Name("warren_http_connections")
                                                           .Help("Connections of clients there are.")
                                                           .Register(registry);
};

Metrics::Metrics() : families_(std::make_unique<Families>()) {
  // From the start, so that what has not happened yet is 0 and not absent.
  for (const char* operation : {"create", "fork", "merge", "destroy"}) {
    families_->operations.Add({{"operation", operation}, {"outcome", "ok"}});
    families_->operation_seconds.Add({{"operation", operation}}, kOperationSeconds);
  }
  for (const char* kind : {"python", "bash"}) {
    families_->calls.Add({{"kind", kind}, {"outcome", "ok"}});
    families_->call_seconds.Add({{"kind", kind}}, kCallSeconds);
  }
  connections(0);
}

Metrics::~Metrics() = default;

void Metrics::operation(std::string_view operation, std::string_view outcome, Clock::duration took) {
  const std::string name(operation);
  families_->operations.Add({{"operation", name}, {"outcome", std::string(outcome)}}).Increment();
  if (outcome == "ok")
    families_->operation_seconds.Add({{"operation", name}}, kOperationSeconds).Observe(seconds(took));
}

void Metrics::call(std::string_view kind, std::string_view outcome, Clock::duration took) {
  const std::string name(kind);
  families_->calls.Add({{"kind", name}, {"outcome", std::string(outcome)}}).Increment();
  families_->call_seconds.Add({{"kind", name}}, kCallSeconds).Observe(seconds(took));
}

void Metrics::answered(const http::Request& request, int status) {
  const std::string status_class = std::to_string(status / 100) + "xx";
  families_->requests.Add({{"face", std::string(face_of(request))}, {"status", status_class}})
      .Increment();
}

void Metrics::connections(std::size_t now) { families_->connections.Add({}).Set(static_cast<double>(now)); }

std::string Metrics::text(const service::Census& census) const {
  auto families = families_->registry.Collect();
  auto told = families_of(census);
  families.insert(families.end(), std::make_move_iterator(told.begin()), std::make_move_iterator(told.end()));
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace warren::api::ops
