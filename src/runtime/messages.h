// What server and runtime say to one another: one JSON object a packet, checked
// strictly by whoever receives it. The runtime takes the server for hostile: an
// unknown operation or member, a wrong type, a number out of bounds or a name that
// could be a path is refused, never guessed at.
//
//   server:  {"n":N,"op":"create","id":S,"account":S,"template":S,"limits":{…},"account_memory_bytes":N,
//             "egress":{"mode":"none"|"open"|"list","allow":[S…]}}
//            {"n":N,"op":"fork","parent":S,"children":[S…],"account":S,"limits":{…},"account_memory_bytes":N}
//            {"n":N,"op":"replace","id":S,"winner":S}
//            {"n":N,"op":"compare","id":S,"other":S,"paths":[S…],"text":B}
//            {"n":N,"op":"plan_merge","id":S,"winner":S,"on_conflict":"fail"|"ours"|"theirs"}
//            {"n":N,"op":"set_egress","id":S,"egress":{…}}
//            {"n":N,"op":"connect"|"destroy"|"usage"|"egress","id":S}   {"n":N,"op":"templates"|"stock"}
//            {"n":N,"op":"drop_stock","account":S}
//   Answers to connect, compare and plan_merge bring a descriptor.
//   runtime: {"n":N,"ok":{…}}  {"n":N,"error":{"kind":S,"message":S}}
//            {"known":[S…]}          in pieces, when the connection begins
//            {"ready":{"isolation":S,"fork_copies":S,"no_network":S}}   after the last piece
//            {"exit":{"id":S,"reason":S}}
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "runtime/client.h"
#include "runtime/driver.h"

namespace warren::runtime {

inline constexpr std::size_t kMaxPacket = 64UL * 1024;
// So many ids fit into a packet with room to spare.
inline constexpr std::size_t kIdsPerPacket = 1024;
// Of a comparison, and bytes of them together.
inline constexpr std::size_t kMostPaths = 64;
inline constexpr std::size_t kMostPathBytes = 16UL * 1024;

struct CreateCall {
  SandboxSpec spec;
};
// The children are on the parent's template, and alike but for their ids.
struct ForkCall {
  std::string parent;
  std::vector<SandboxSpec> children;  // 1 to kMostChildren
};
struct ReplaceCall {
  std::string id;
  std::string winner;
};
struct CompareCall {
  CompareSpec spec;
};
struct PlanMergeCall {
  MergeSpec spec;
};
struct ConnectCall {
  std::string id;
};
struct DestroyCall {
  std::string id;
};
struct SetEgressCall {
  std::string id;
  EgressPolicy policy;
};
struct EgressCall {
  std::string id;
};
struct UsageCall {
  std::string id;
};
struct TemplatesCall {};
struct StockCall {};
struct DropStockCall {
  std::string account;
};
using Call =
    std::variant<CreateCall, ForkCall, ReplaceCall, CompareCall, PlanMergeCall, ConnectCall, DestroyCall,
                 SetEgressCall, EgressCall, UsageCall, TemplatesCall, StockCall, DropStockCall>;

struct Request {
  std::uint64_t number = 0;  // chosen by the server, repeated in the reply
  Call call;
};

std::string encode(const Request& request);
// kInvalid says what is wrong.
Result<Request> parse_request(std::string_view packet);

// monostate: done, and there is nothing more to say.
using Answer = std::variant<std::monostate, Usage, std::vector<TemplateInfo>, StockInfo, EgressReport>;
struct Reply {
  std::uint64_t number = 0;
  Result<Answer> outcome;
};
struct Known {
  std::vector<std::string> ids;  // at most kIdsPerPacket
};
struct Ready {
  Capabilities capabilities;
};
using FromRuntime = std::variant<Reply, Known, Ready, Exit>;

std::string encode(const FromRuntime& message);
Result<FromRuntime> parse_from_runtime(std::string_view packet);

}  // namespace warren::runtime
