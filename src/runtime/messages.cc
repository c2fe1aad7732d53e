#include "runtime/messages.h"

#include <fmt/format.h>

#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <initializer_list>
#include <optional>
#include <span>
#include <utility>

#include "base/ids.h"

namespace warren::runtime {
namespace {

namespace json = boost::json;

// Bounds of what a sandbox can be given. 0 would mean "no limit" to the kernel.
struct Bounds {
  std::uint64_t least;
  std::uint64_t most;
};
constexpr Bounds kMemory{16ULL << 20, 1ULL << 44};
constexpr Bounds kDisk{1ULL << 20, 1ULL << 50};
constexpr Bounds kPids{4, 1 << 20};
constexpr Bounds kCpuPercent{1, 100UL * 4096};
constexpr Bounds kOpenFiles{64, 1 << 20};
constexpr Bounds kBandwidth{0, 1ULL << 40};
constexpr Bounds kConnections{1, 65535};
constexpr Bounds kAccountMemory{0, 1ULL << 50};
constexpr Bounds kAnyNumber{0, ~0ULL};

constexpr std::size_t kLongestReason = 256;
constexpr std::size_t kLongestMessage = 4096;

std::string printable(std::string_view text, std::size_t limit) {
  std::string clean(text.substr(0, limit));
  for (char& c : clean)
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f) c = '?';
  return clean;
}

// Reads an object's members one by one and remembers the first that is wrong.
// Whoever has read all it knows calls finish(), which refuses any other.
class Reader {
 public:
  explicit Reader(const json::object& object) : object_(object) {}

  std::uint64_t number(std::string_view name, Bounds bounds) {
    const auto* value = member(name);
    if (!value) return 0;
    boost::system::error_code failure;
    const auto number = value->to_number<std::uint64_t>(failure);
    if (value->is_double() || failure || number < bounds.least || number > bounds.most)
      refuse(fmt::format("\"{}\" must be a whole number from {} to {}", name, bounds.least, bounds.most));
    return number;
  }

  std::string text(std::string_view name, std::size_t limit) {
    const auto* value = member(name);
    const auto* text = value ? value->if_string() : nullptr;
    if (value && (!text || text->size() > limit))
      refuse(fmt::format("\"{}\" must be a string of at most {} bytes", name, limit));
    return text && text->size() <= limit ? std::string(*text) : std::string();
  }

  bool flag(std::string_view name) {
    const auto* value = member(name);
    const auto* flag = value ? value->if_bool() : nullptr;
    if (value && !flag) refuse(fmt::format("\"{}\" must be true or false", name));
    return flag && *flag;
  }

  std::string sandbox_id(std::string_view name) {
    std::string id = text(name, kMaxPacket);
    if (!failure_ && !is_sandbox_id(id)) refuse(fmt::format("\"{}\" must be a sandbox id", name));
    return id;
  }

  std::string safe_name(std::string_view name) {
    std::string value = text(name, kMaxPacket);
    if (!failure_ && !is_safe_name(value)) refuse(fmt::format("\"{}\" must be a plain name", name));
    return value;
  }

  json::object object(std::string_view name) {
    const auto* value = member(name);
    if (value && !value->is_object()) refuse(fmt::format("\"{}\" must be an object", name));
    return value && value->is_object() ? value->get_object() : json::object();
  }

  json::array array(std::string_view name) {
    const auto* value = member(name);
    if (value && !value->is_array()) refuse(fmt::format("\"{}\" must be an array", name));
    return value && value->is_array() ? value->get_array() : json::array();
  }

  Result<void> finish() const {
    if (failure_) return fail(ErrorKind::kInvalid, *failure_);
    if (read_ != object_.size())
      return fail(ErrorKind::kInvalid, "the message has a member that nobody knows");
    return {};
  }

 private:
  const json::value* member(std::string_view name) {
    const auto* value = object_.if_contains(name);
    if (value)
      ++read_;
    else
      refuse(fmt::format("\"{}\" is missing", name));
    return value;
  }

  void refuse(std::string why) {
    if (!failure_) failure_ = std::move(why);
  }

  const json::object& object_;
  std::size_t read_ = 0;
  std::optional<std::string> failure_;
};

Result<json::object> parse_object(std::string_view packet) {
  if (packet.size() > kMaxPacket) return fail(ErrorKind::kTooLarge, "the message is too long");
  boost::system::error_code failure;
  constexpr std::size_t kDeepest = 8;
  json::parse_options options;
  options.max_depth = kDeepest;
  const auto value = json::parse(packet, failure, {}, options);
  if (failure || !value.is_object()) return fail(ErrorKind::kInvalid, "the message is no JSON object");
  return value.get_object();
}

json::object to_json(const Limits& limits) {
  return {{"memory_bytes", limits.memory_bytes},
          {"disk_bytes", limits.disk_bytes},
          {"pids", limits.pids},
          {"cpu_percent", limits.cpu_percent},
          {"open_files", limits.open_files},
          {"network_bytes_per_second", limits.network_bytes_per_second},
          {"connections", limits.connections}};
}

Result<Limits> limits_from(const json::object& object) {
  Reader reader(object);
  const Limits limits{
      .memory_bytes = reader.number("memory_bytes", kMemory),
      .disk_bytes = reader.number("disk_bytes", kDisk),
      .pids = static_cast<std::uint32_t>(reader.number("pids", kPids)),
      .cpu_percent = static_cast<std::uint32_t>(reader.number("cpu_percent", kCpuPercent)),
      .open_files = static_cast<std::uint32_t>(reader.number("open_files", kOpenFiles)),
      .network_bytes_per_second = reader.number("network_bytes_per_second", kBandwidth),
      .connections = static_cast<std::uint32_t>(reader.number("connections", kConnections)),
  };
  WARREN_TRY(reader.finish());
  return limits;
}

json::object to_json(const EgressPolicy& policy) {
  json::array allow;
  for (const auto& entry : policy.entries()) allow.emplace_back(entry);
  return {{"mode", name_of(policy.mode)}, {"allow", std::move(allow)}};
}

Result<EgressPolicy> policy_from(const json::object& object) {
  Reader reader(object);
  const auto mode = reader.text("mode", kLongestReason);
  const auto allow = reader.array("allow");
  WARREN_TRY(reader.finish());
  std::vector<std::string> entries;
  for (const auto& entry : allow) {
    if (!entry.is_string() || entry.get_string().size() > kLongestAllowed)
      return fail(ErrorKind::kInvalid, "what is allowed must be a short string");
    entries.emplace_back(entry.get_string());
  }
  if (mode == name_of(EgressMode::kList)) return EgressPolicy::list(entries);
  if (!entries.empty()) return fail(ErrorKind::kInvalid, "only a list allows something by name");
  if (mode == name_of(EgressMode::kNone)) return EgressPolicy::none();
  if (mode == name_of(EgressMode::kOpen)) return EgressPolicy::open();
  return fail(ErrorKind::kInvalid, "no such mode of egress");
}

json::object to_json(const EgressReport& report) {
  json::array refused;
  for (const auto count : report.refused) refused.emplace_back(count);
  json::array latest;
  for (const auto& one : report.latest)
    latest.push_back({{"reason", static_cast<unsigned>(one.reason)},
                      {"address", one.address.text()},
                      {"protocol", one.protocol},
                      {"port", one.port},
                      {"times", one.times},
                      {"last", static_cast<std::uint64_t>(one.last.time_since_epoch().count())}});
  return {{"policy", to_json(report.policy)}, {"refused", std::move(refused)}, {"latest", std::move(latest)}};
}

Result<EgressReport> report_from(const json::object& object) {
  Reader reader(object);
  auto policy = policy_from(reader.object("policy"));
  const auto refused = reader.array("refused");
  const auto latest = reader.array("latest");
  WARREN_TRY(reader.finish());
  if (!policy) return fail(std::move(policy.error()));
  EgressReport report{.policy = std::move(*policy), .refused = {}, .latest = {}};
  if (refused.size() != report.refused.size())
    return fail(ErrorKind::kInvalid, "too few counts, or too many");
  for (std::size_t reason = 0; reason < refused.size(); ++reason) {
    boost::system::error_code failure;
    report.refused[reason] = refused[reason].to_number<std::uint64_t>(failure);
    if (failure) return fail(ErrorKind::kInvalid, "a count must be a whole number");
  }
  for (const auto& value : latest) {
    if (!value.is_object()) return fail(ErrorKind::kInvalid, "a refusal must be an object");
    Reader one(value.get_object());
    const auto reason = one.number("reason", {0, kRefusalNames.size() - 1});
    const auto address = IpAddress::parse(one.text("address", kLongestReason));
    const auto protocol = one.number("protocol", {0, 255});
    const auto port = one.number("port", {0, 65535});
    const auto times = one.number("times", kAnyNumber);
    const auto last = one.number("last", {0, 1ULL << 53});
    WARREN_TRY(one.finish());
    if (!address) return fail(address.error());
    report.latest.push_back({.reason = static_cast<RefusalReason>(reason),
                             .address = *address,
                             .protocol = static_cast<std::uint8_t>(protocol),
                             .port = static_cast<std::uint16_t>(port),
                             .times = times,
                             .last = WallTime(Millis(last))});
  }
  return report;
}

Result<Call> create_from(Reader& reader) {
  CreateCall call;
  call.spec.id = reader.sandbox_id("id");
  call.spec.account = reader.safe_name("account");
  call.spec.template_name = reader.safe_name("template");
  call.spec.account_memory_bytes = reader.number("account_memory_bytes", kAccountMemory);
  const auto limits = limits_from(reader.object("limits"));
  auto egress = policy_from(reader.object("egress"));
  WARREN_TRY(reader.finish());
  if (!limits) return fail(limits.error());
  if (!egress) return fail(std::move(egress.error()));
  call.spec.egress = std::move(*egress);
  call.spec.limits = *limits;
  return call;
}

Result<Call> fork_from(Reader& reader) {
  ForkCall call;
  call.parent = reader.sandbox_id("parent");
  SandboxSpec spec;
  spec.account = reader.safe_name("account");
  spec.account_memory_bytes = reader.number("account_memory_bytes", kAccountMemory);
  const auto limits = limits_from(reader.object("limits"));
  const auto ids = reader.array("children");
  WARREN_TRY(reader.finish());
  if (!limits) return fail(limits.error());
  spec.limits = *limits;
  if (ids.empty() || ids.size() > kMostChildren)
    return fail(ErrorKind::kInvalid, "too many children, or none");
  for (const auto& id : ids) {
    if (!id.is_string() || !is_sandbox_id(id.get_string()))
      return fail(ErrorKind::kInvalid, "not a sandbox id");
    spec.id = id.get_string();
    call.children.push_back(spec);
  }
  return call;
}

Result<Call> replace_from(Reader& reader) {
  ReplaceCall call{.id = reader.sandbox_id("id"), .winner = reader.sandbox_id("winner")};
  WARREN_TRY(reader.finish());
  return call;
}

Result<Call> compare_from(Reader& reader) {
  CompareCall call;
  call.spec.id = reader.sandbox_id("id");
  call.spec.other = reader.sandbox_id("other");
  const auto paths = reader.array("paths");
  if (reader.flag("text")) call.spec.text = changes::WithText::kYes;
  WARREN_TRY(reader.finish());
  std::size_t bytes = 0;
  for (const auto& path : paths) {
    if (!path.is_string() || !path.get_string().starts_with('/'))
      return fail(ErrorKind::kInvalid, "a path must be absolute");
    call.spec.paths.emplace_back(path.get_string());
    bytes += call.spec.paths.back().size();
  }
  if (paths.empty() || paths.size() > kMostPaths || bytes > kMostPathBytes)
    return fail(ErrorKind::kInvalid, "too many paths, or none");
  return call;
}

constexpr std::array<std::pair<std::string_view, changes::OnConflict>, 3> kOnConflict{
    {{"fail", changes::OnConflict::kFail},
     {"ours", changes::OnConflict::kOurs},
     {"theirs", changes::OnConflict::kTheirs}}};

Result<Call> plan_merge_from(Reader& reader) {
  PlanMergeCall call;
  call.spec.id = reader.sandbox_id("id");
  call.spec.winner = reader.sandbox_id("winner");
  const auto named = reader.text("on_conflict", kLongestReason);
  WARREN_TRY(reader.finish());
  for (const auto& [name, value] : kOnConflict) {
    if (name != named) continue;
    call.spec.on_conflict = value;
    return call;
  }
  return fail(ErrorKind::kInvalid, "no such way with conflicts");
}

Result<Call> set_egress_from(Reader& reader) {
  SetEgressCall call;
  call.id = reader.sandbox_id("id");
  auto policy = policy_from(reader.object("egress"));
  WARREN_TRY(reader.finish());
  if (!policy) return fail(std::move(policy.error()));
  call.policy = std::move(*policy);
  return call;
}

template <typename IdCall>
Result<Call> call_with_id(Reader& reader) {
  IdCall call{.id = reader.sandbox_id("id")};
  WARREN_TRY(reader.finish());
  return call;
}

std::optional<ErrorKind> kind_named(std::string_view name) {
  for (int kind = 0; kind <= static_cast<int>(ErrorKind::kInternal); ++kind)
    if (name_of(static_cast<ErrorKind>(kind)) == name) return static_cast<ErrorKind>(kind);
  return std::nullopt;
}

json::object stock_json(const StockCounts& counts) {
  return {{"ready", counts.ready},   {"wanted", counts.wanted}, {"hits", counts.hits},
          {"misses", counts.misses}, {"shells", counts.shells}, {"wanted_shells", counts.wanted_shells}};
}

StockCounts stock_counts(Reader& reader) {
  return {.ready = reader.number("ready", kAnyNumber),
          .wanted = reader.number("wanted", kAnyNumber),
          .hits = reader.number("hits", kAnyNumber),
          .misses = reader.number("misses", kAnyNumber),
          .shells = reader.number("shells", kAnyNumber),
          .wanted_shells = reader.number("wanted_shells", kAnyNumber)};
}

Result<StockInfo> stock_from(const json::object& object) {
  Reader reader(object);
  StockInfo info{.all = stock_counts(reader), .by_template = {}};
  const auto templates = reader.array("templates");
  WARREN_TRY(reader.finish());
  for (const auto& value : templates) {
    if (!value.is_object()) return fail(ErrorKind::kInvalid, "a template's stock must be an object");
    Reader one(value.get_object());
    auto name = one.text("name", kMaxPacket);
    info.by_template[std::move(name)] = stock_counts(one);
    WARREN_TRY(one.finish());
  }
  return info;
}

json::object to_json(const Answer& answer) {
  if (const auto* usage = std::get_if<Usage>(&answer))
    return {{"usage",
             {{"memory_bytes", usage->memory_bytes},
              {"disk_bytes", usage->disk_bytes},
              {"cpu_usec", usage->cpu_usec},
              {"pids", usage->pids},
              {"oom_kills", usage->oom_kills}}}};
  if (const auto* report = std::get_if<EgressReport>(&answer)) return {{"egress", to_json(*report)}};
  if (const auto* stock = std::get_if<StockInfo>(&answer)) {
    json::array templates;
    for (const auto& [name, counts] : stock->by_template) {
      json::object one = stock_json(counts);
      one["name"] = name;
      templates.push_back(std::move(one));
    }
    json::object all = stock_json(stock->all);
    all["templates"] = std::move(templates);
    return {{"stock", std::move(all)}};
  }
  if (const auto* templates = std::get_if<std::vector<TemplateInfo>>(&answer)) {
    json::array list;
    for (const auto& one : *templates)
      list.push_back({{"name", one.name},
                      {"description", one.description},
                      {"digest", one.digest},
                      {"built", one.built}});
    return {{"templates", std::move(list)}};
  }
  return {};
}

Result<Usage> usage_from(const json::object& object) {
  Reader reader(object);
  constexpr Bounds kSmall{0, ~0U};
  const Usage usage{.memory_bytes = reader.number("memory_bytes", kAnyNumber),
                    .disk_bytes = reader.number("disk_bytes", kAnyNumber),
                    .cpu_usec = reader.number("cpu_usec", kAnyNumber),
                    .pids = static_cast<std::uint32_t>(reader.number("pids", kSmall)),
                    .oom_kills = reader.number("oom_kills", kAnyNumber)};
  WARREN_TRY(reader.finish());
  return usage;
}

Result<std::vector<TemplateInfo>> templates_from(const json::array& array) {
  std::vector<TemplateInfo> list;
  for (const auto& value : array) {
    if (!value.is_object()) return fail(ErrorKind::kInvalid, "a template must be an object");
    Reader reader(value.get_object());
    list.push_back({.name = reader.text("name", kMaxPacket),
                    .description = reader.text("description", kMaxPacket),
                    .digest = reader.text("digest", kMaxPacket),
                    .built = reader.flag("built")});
    WARREN_TRY(reader.finish());
  }
  return list;
}

Result<Answer> answer_from(const json::object& object) {
  if (object.empty()) return Answer{};
  Reader reader(object);
  if (object.contains("usage")) {
    auto usage = usage_from(reader.object("usage"));
    WARREN_TRY(reader.finish());
    if (!usage) return fail(usage.error());
    return *usage;
  }
  if (object.contains("egress")) {
    auto report = report_from(reader.object("egress"));
    WARREN_TRY(reader.finish());
    if (!report) return fail(std::move(report.error()));
    return std::move(*report);
  }
  if (object.contains("stock")) {
    const auto stock = stock_from(reader.object("stock"));
    WARREN_TRY(reader.finish());
    if (!stock) return fail(stock.error());
    return *stock;
  }
  auto list = templates_from(reader.array("templates"));
  WARREN_TRY(reader.finish());
  if (!list) return fail(list.error());
  return std::move(*list);
}

Result<FromRuntime> error_reply_from(std::uint64_t number, const json::object& object) {
  Reader reader(object);
  const auto kind = kind_named(reader.text("kind", kLongestReason));
  auto message = reader.text("message", kLongestMessage);
  WARREN_TRY(reader.finish());
  if (!kind) return fail(ErrorKind::kInvalid, "the error is of no known kind");
  return Reply{.number = number, .outcome = fail(*kind, std::move(message))};
}

Result<FromRuntime> known_from(const json::array& array) {
  Known known;
  if (array.size() > kIdsPerPacket) return fail(ErrorKind::kInvalid, "too many ids");
  for (const auto& value : array) {
    if (!value.is_string() || !is_sandbox_id(value.get_string()))
      return fail(ErrorKind::kInvalid, "not a sandbox id");
    known.ids.emplace_back(value.get_string());
  }
  return known;
}

struct RequestEncoder {
  std::uint64_t number;

  json::object with(std::string_view op) const { return {{"n", number}, {"op", op}}; }
  json::object with(std::string_view op, const std::string& id) const {
    return {{"n", number}, {"op", op}, {"id", id}};
  }

  json::object operator()(const CreateCall& call) const {
    auto object = with("create", call.spec.id);
    object["account"] = call.spec.account;
    object["template"] = call.spec.template_name;
    object["limits"] = to_json(call.spec.limits);
    object["account_memory_bytes"] = call.spec.account_memory_bytes;
    object["egress"] = to_json(call.spec.egress);
    return object;
  }
  json::object operator()(const ForkCall& call) const {
    auto object = with("fork");
    object["parent"] = call.parent;
    json::array ids;
    for (const auto& child : call.children) ids.emplace_back(child.id);
    object["children"] = std::move(ids);
    const SandboxSpec spec = call.children.empty() ? SandboxSpec() : call.children.front();
    object["account"] = spec.account;
    object["limits"] = to_json(spec.limits);
    object["account_memory_bytes"] = spec.account_memory_bytes;
    return object;
  }
  json::object operator()(const ReplaceCall& call) const {
    auto object = with("replace", call.id);
    object["winner"] = call.winner;
    return object;
  }
  json::object operator()(const CompareCall& call) const {
    auto object = with("compare", call.spec.id);
    object["other"] = call.spec.other;
    json::array paths;
    for (const auto& path : call.spec.paths) paths.emplace_back(path);
    object["paths"] = std::move(paths);
    object["text"] = call.spec.text == changes::WithText::kYes;
    return object;
  }
  json::object operator()(const PlanMergeCall& call) const {
    auto object = with("plan_merge", call.spec.id);
    object["winner"] = call.spec.winner;
    for (const auto& [name, value] : kOnConflict)
      if (value == call.spec.on_conflict) object["on_conflict"] = name;
    return object;
  }
  json::object operator()(const ConnectCall& call) const { return with("connect", call.id); }
  json::object operator()(const DestroyCall& call) const { return with("destroy", call.id); }
  json::object operator()(const SetEgressCall& call) const {
    auto object = with("set_egress", call.id);
    object["egress"] = to_json(call.policy);
    return object;
  }
  json::object operator()(const EgressCall& call) const { return with("egress", call.id); }
  json::object operator()(const UsageCall& call) const { return with("usage", call.id); }
  json::object operator()(const TemplatesCall&) const { return with("templates"); }
  json::object operator()(const StockCall&) const { return with("stock"); }
  json::object operator()(const DropStockCall& call) const {
    auto object = with("drop_stock");
    object["account"] = call.account;
    return object;
  }
};

struct RuntimeEncoder {
  json::object operator()(const Reply& reply) const {
    if (reply.outcome) return {{"n", reply.number}, {"ok", to_json(*reply.outcome)}};
    const auto& error = reply.outcome.error();
    return {{"n", reply.number},
            {"error",
             {{"kind", name_of(error.kind())}, {"message", printable(error.message(), kLongestMessage)}}}};
  }
  json::object operator()(const Known& known) const {
    json::array ids;
    for (const auto& id : known.ids) ids.emplace_back(id);
    return {{"known", std::move(ids)}};
  }
  json::object operator()(const Ready& ready) const {
    return {{"ready",
             {{"isolation", ready.capabilities.isolation},
              {"fork_copies", ready.capabilities.fork_copies},
              {"no_network", printable(ready.capabilities.no_network, kLongestMessage)}}}};
  }
  json::object operator()(const Exit& exit) const {
    return {{"exit", {{"id", exit.id}, {"reason", printable(exit.reason, kLongestReason)}}}};
  }
};

}  // namespace

std::string encode(const Request& request) {
  return json::serialize(std::visit(RequestEncoder{request.number}, request.call));
}

Result<Request> parse_request(std::string_view packet) {
  const auto object = parse_object(packet);
  if (!object) return fail(object.error());
  Reader reader(*object);
  const auto number = reader.number("n", kAnyNumber);
  const auto op = reader.text("op", kLongestReason);
  auto call = [&]() -> Result<Call> {
    if (op == "create") return create_from(reader);
    if (op == "fork") return fork_from(reader);
    if (op == "replace") return replace_from(reader);
    if (op == "compare") return compare_from(reader);
    if (op == "plan_merge") return plan_merge_from(reader);
    if (op == "connect") return call_with_id<ConnectCall>(reader);
    if (op == "destroy") return call_with_id<DestroyCall>(reader);
    if (op == "set_egress") return set_egress_from(reader);
    if (op == "egress") return call_with_id<EgressCall>(reader);
    if (op == "usage") return call_with_id<UsageCall>(reader);
    if (op == "stock") {
      WARREN_TRY(reader.finish());
      return StockCall{};
    }
    if (op == "drop_stock") {
      DropStockCall drop{.account = reader.safe_name("account")};
      WARREN_TRY(reader.finish());
      return drop;
    }
    if (op == "templates") {
      WARREN_TRY(reader.finish());
      return TemplatesCall{};
    }
    WARREN_TRY(reader.finish());
    return fail(ErrorKind::kInvalid, "no such operation");
  }();
  if (!call) return fail(std::move(call.error()));
  return Request{.number = number, .call = std::move(*call)};
}

std::string encode(const FromRuntime& message) {
  return json::serialize(std::visit(RuntimeEncoder{}, message));
}

Result<FromRuntime> parse_from_runtime(std::string_view packet) {
  const auto object = parse_object(packet);
  if (!object) return fail(object.error());
  Reader reader(*object);
  if (object->contains("known")) {
    auto known = known_from(reader.array("known"));
    WARREN_TRY(reader.finish());
    return known;
  }
  if (object->contains("ready") || object->contains("exit")) {
    const std::string_view what = object->contains("ready") ? "ready" : "exit";
    const auto inner = reader.object(what);
    WARREN_TRY(reader.finish());
    Reader members(inner);
    FromRuntime message;
    if (what == "ready")
      message = Ready{{.isolation = members.text("isolation", kLongestReason),
                       .fork_copies = members.text("fork_copies", kLongestReason),
                       .no_network = members.text("no_network", kLongestMessage)}};
    else
      message = Exit{.id = members.sandbox_id("id"), .reason = members.text("reason", kLongestReason)};
    WARREN_TRY(members.finish());
    return message;
  }
  const auto number = reader.number("n", kAnyNumber);
  if (object->contains("error")) {
    const auto inner = reader.object("error");
    WARREN_TRY(reader.finish());
    return error_reply_from(number, inner);
  }
  const auto inner = reader.object("ok");
  WARREN_TRY(reader.finish());
  auto answer = answer_from(inner);
  if (!answer) return fail(answer.error());
  return Reply{.number = number, .outcome = std::move(*answer)};
}

}  // namespace warren::runtime
