#include "linux/nftables.h"

#include <arpa/inet.h>
#include <endian.h>
#include <fmt/format.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <net/if.h>
#include <nftables/libnftables.h>

#include <array>
#include <cstring>
#include <memory>

namespace warren::linux_ {
namespace {

constexpr std::uint16_t type_of(int message) {
  return static_cast<std::uint16_t>((NFNL_SUBSYS_NFTABLES << 8) | message);
}

NetlinkMessage batch_edge(std::uint16_t type) {
  NetlinkMessage message(type, NLM_F_REQUEST);
  auto& header = message.header<nfgenmsg>();
  header.nfgen_family = AF_UNSPEC;
  header.version = NFNETLINK_V0;
  header.res_id = htons(NFNL_SUBSYS_NFTABLES);
  return message;
}

NetlinkMessage about_elements(int type, std::uint16_t flags, const std::string& table, std::string_view set) {
  NetlinkMessage message(type_of(type), static_cast<std::uint16_t>(NLM_F_REQUEST | flags));
  auto& header = message.header<nfgenmsg>();
  header.nfgen_family = NFPROTO_INET;
  header.version = NFNETLINK_V0;
  message.put_text(NFTA_SET_ELEM_LIST_TABLE, table);
  message.put_text(NFTA_SET_ELEM_LIST_SET, set);
  return message;
}

void put_data(NetlinkMessage& message, std::uint16_t type, const SetBytes& data) {
  message.nest(type, [&] { message.put(NFTA_DATA_VALUE, data.bytes()); });
}

std::span<const std::uint8_t> attributes_of(const nlmsghdr& message) {
  const auto* begin = static_cast<const std::uint8_t*>(mnl_nlmsg_get_payload(&message));
  const std::size_t length = mnl_nlmsg_get_payload_len(&message);
  return length < sizeof(nfgenmsg) ? std::span<const std::uint8_t>()
                                   : std::span(begin, length).subspan(sizeof(nfgenmsg));
}

void for_each_element(const nlmsghdr& message,
                      const std::function<void(std::span<const std::uint8_t> element)>& told) {
  for_each_attribute(attributes_of(message), [&](std::uint16_t type, std::span<const std::uint8_t> list) {
    if (type != NFTA_SET_ELEM_LIST_ELEMENTS) return;
    for_each_attribute(list, [&](std::uint16_t, std::span<const std::uint8_t> element) { told(element); });
  });
}

std::uint64_t be64_in(std::span<const std::uint8_t> bytes) {
  std::uint64_t number = 0;
  if (bytes.size() >= sizeof number) std::memcpy(&number, bytes.data(), sizeof number);
  return be64toh(number);
}

std::optional<PacketCount> count_in(std::span<const std::uint8_t> element) {
  std::optional<PacketCount> count;
  const auto from_expression = [&](std::uint16_t type, std::span<const std::uint8_t> value) {
    if (type != NFTA_EXPR_DATA) return;
    count.emplace();
    for_each_attribute(value, [&](std::uint16_t which, std::span<const std::uint8_t> number) {
      if (which == NFTA_COUNTER_PACKETS) count->packets = be64_in(number);
      if (which == NFTA_COUNTER_BYTES) count->bytes = be64_in(number);
    });
  };
  for_each_attribute(element, [&](std::uint16_t type, std::span<const std::uint8_t> value) {
    if (type == NFTA_SET_ELEM_EXPR) for_each_attribute(value, from_expression);
  });
  return count;
}

}  // namespace

Result<std::string> list_nftables(const std::string& command) {
  const std::unique_ptr<nft_ctx, decltype(&nft_ctx_free)> context(nft_ctx_new(NFT_CTX_DEFAULT),
                                                                  &nft_ctx_free);
  if (!context) return fail(ErrorKind::kInternal, "libnftables does not start");
  nft_ctx_buffer_output(context.get());
  nft_ctx_buffer_error(context.get());
  if (nft_run_cmd_from_buffer(context.get(), command.c_str()) == 0)
    return std::string(nft_ctx_get_output_buffer(context.get()));
  const std::string said = nft_ctx_get_error_buffer(context.get());
  return fail(ErrorKind::kInternal, "nftables: " + said.substr(0, said.find('\n')));
}

Result<void> run_nftables(const std::string& commands) {
  if (auto done = list_nftables(commands); !done) return fail(std::move(done.error()));
  return {};
}

void SetBytes::put(std::span<const std::uint8_t> part) {
  bytes_.insert(bytes_.end(), part.begin(), part.end());
  while (bytes_.size() % 4 != 0) bytes_.push_back(0);
}

SetBytes& SetBytes::device(std::string_view name) {
  std::array<std::uint8_t, IFNAMSIZ> padded{};
  std::memcpy(padded.data(), name.data(), std::min(name.size(), padded.size() - 1));
  put(padded);
  return *this;
}

SetBytes& SetBytes::mark(std::uint32_t mark) {
  std::array<std::uint8_t, sizeof mark> bytes{};
  std::memcpy(bytes.data(), &mark, sizeof mark);
  put(bytes);
  return *this;
}

SetBytes& SetBytes::ordered_mark(std::uint32_t mark) { return this->mark(htonl(mark)); }

SetBytes& SetBytes::address(const IpAddress& address) {
  put(address.bytes());
  return *this;
}

SetBytes& SetBytes::protocol(std::uint8_t protocol) {
  put(std::array{protocol});
  return *this;
}

SetBytes& SetBytes::port(std::uint16_t port) {
  put(std::array{static_cast<std::uint8_t>(port >> 8), static_cast<std::uint8_t>(port)});
  return *this;
}

SetBytes& SetBytes::zone(std::uint16_t zone) {
  std::array<std::uint8_t, sizeof zone> bytes{};
  std::memcpy(bytes.data(), &zone, sizeof zone);
  // Only a map's value, which is not filled up.
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  return *this;
}

struct ElementBatch::Element {
  const SetBytes& key;
  const SetBytes* last = nullptr;
  const SetBytes* value = nullptr;
  std::string_view chain;
  std::optional<Millis> life;
  bool is_counted = false;
};

ElementBatch::ElementBatch(std::string table) : table_(std::move(table)) {
  messages_.push_back(batch_edge(NFNL_MSG_BATCH_BEGIN));
}

void ElementBatch::put(std::uint16_t type, std::string_view set, const Element& element) {
  const bool adds = type == NFT_MSG_NEWSETELEM;
  auto message = about_elements(type, adds ? NLM_F_CREATE : 0, table_, set);
  message.nest(NFTA_SET_ELEM_LIST_ELEMENTS, [&] {
    message.nest(NFTA_LIST_ELEM, [&] {
      put_data(message, NFTA_SET_ELEM_KEY, element.key);
      if (element.last != nullptr) put_data(message, NFTA_SET_ELEM_KEY_END, *element.last);
      if (element.value != nullptr) put_data(message, NFTA_SET_ELEM_DATA, *element.value);
      if (!element.chain.empty())
        message.nest(NFTA_SET_ELEM_DATA, [&] {
          message.nest(NFTA_DATA_VERDICT, [&] {
            message.put_be32(NFTA_VERDICT_CODE, static_cast<std::uint32_t>(NFT_GOTO));
            message.put_text(NFTA_VERDICT_CHAIN, element.chain);
          });
        });
      if (element.life)
        message.put_be64(NFTA_SET_ELEM_TIMEOUT, static_cast<std::uint64_t>(element.life->count()));
      if (element.is_counted)
        message.nest(NFTA_SET_ELEM_EXPR, [&] {
          message.put_text(NFTA_EXPR_NAME, "counter");
          message.nest(NFTA_EXPR_DATA, [] {});
        });
    });
  });
  messages_.push_back(std::move(message));
}

void ElementBatch::add(std::string_view set, const SetBytes& key) {
  put(NFT_MSG_NEWSETELEM, set, {.key = key, .chain = {}, .life = {}});
}
void ElementBatch::add_for(std::string_view set, const SetBytes& key, Millis life) {
  put(NFT_MSG_NEWSETELEM, set, {.key = key, .chain = {}, .life = life});
}
void ElementBatch::add_interval(std::string_view set, const SetBytes& first, const SetBytes& last) {
  put(NFT_MSG_NEWSETELEM, set, {.key = first, .last = &last, .chain = {}, .life = {}});
}
void ElementBatch::add_value(std::string_view map, const SetBytes& key, const SetBytes& value) {
  put(NFT_MSG_NEWSETELEM, map, {.key = key, .value = &value, .chain = {}, .life = {}});
}
void ElementBatch::add_goto(std::string_view map, const SetBytes& key, std::string_view chain) {
  put(NFT_MSG_NEWSETELEM, map, {.key = key, .chain = chain, .life = {}});
}
void ElementBatch::add_counter(std::string_view set, const SetBytes& key) {
  put(NFT_MSG_NEWSETELEM, set, {.key = key, .chain = {}, .life = {}, .is_counted = true});
}
void ElementBatch::remove(std::string_view set, const SetBytes& key) {
  put(NFT_MSG_DELSETELEM, set, {.key = key, .chain = {}, .life = {}});
}
void ElementBatch::remove_interval(std::string_view set, const SetBytes& first, const SetBytes& last) {
  put(NFT_MSG_DELSETELEM, set, {.key = first, .last = &last, .chain = {}, .life = {}});
}

Result<void> ElementBatch::commit(NetlinkSocket& netfilter, std::string_view what) {
  messages_.push_back(batch_edge(NFNL_MSG_BATCH_END));
  return netfilter.send(messages_, what);
}

Result<std::optional<PacketCount>> read_counter(NetlinkSocket& netfilter, const std::string& table,
                                                std::string_view set, const SetBytes& key) {
  auto request = about_elements(NFT_MSG_GETSETELEM, NLM_F_ACK, table, set);
  request.nest(NFTA_SET_ELEM_LIST_ELEMENTS,
               [&] { request.nest(NFTA_LIST_ELEM, [&] { put_data(request, NFTA_SET_ELEM_KEY, key); }); });
  std::optional<PacketCount> count;
  auto asked = netfilter.ask(request, "read a counter", [&](const nlmsghdr& message) {
    for_each_element(message, [&](std::span<const std::uint8_t> element) { count = count_in(element); });
  });
  if (!asked && asked.error().kind() != ErrorKind::kNotFound) return fail(std::move(asked.error()));
  return count;
}

Result<std::size_t> count_elements(NetlinkSocket& netfilter, const std::string& table, std::string_view set) {
  std::size_t count = 0;
  WARREN_TRY(netfilter.ask(about_elements(NFT_MSG_GETSETELEM, NLM_F_DUMP, table, set), "list a set",
                           [&](const nlmsghdr& message) {
                             for_each_element(message, [&](std::span<const std::uint8_t>) { ++count; });
                           }));
  return count;
}

}  // namespace warren::linux_
