// nftables (nft(8)): rules as text, loaded once through libnftables; elements of its sets
// and maps as bytes, in batches of our own, since reading text and looking at what is
// there costs a millisecond each time and grows with it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/ip_address.h"
#include "base/result.h"
#include "linux/netlink_socket.h"

namespace warren::linux_ {

// Carries out what `nft -f` would, all or nothing, in the network namespace of this thread.
// Never with anything that a client or a sandbox said.
Result<void> run_nftables(const std::string& commands);

// What `nft COMMAND` prints: "list chains".
Result<std::string> list_nftables(const std::string& command);

// A set's key or a map's value as the kernel compares it: its parts one after the other,
// each filled up to four bytes.
class SetBytes {
 public:
  SetBytes& device(std::string_view name);  // 16 bytes
  SetBytes& mark(std::uint32_t mark);
  // The same where the set has intervals: nft then has it compared in network order.
  SetBytes& ordered_mark(std::uint32_t mark);
  SetBytes& address(const IpAddress& address);
  SetBytes& protocol(std::uint8_t protocol);
  SetBytes& port(std::uint16_t port);
  SetBytes& zone(std::uint16_t zone);  // of two bytes, the only part

  std::span<const std::uint8_t> bytes() const { return bytes_; }

 private:
  void put(std::span<const std::uint8_t> part);
  std::vector<std::uint8_t> bytes_;
};

// Changes to the sets of one table of the family inet, all or nothing.
class ElementBatch {
 public:
  explicit ElementBatch(std::string table);

  // One that is there already stays as it is.
  void add(std::string_view set, const SetBytes& key);
  // It goes by itself after `life`.
  void add_for(std::string_view set, const SetBytes& key, Millis life);
  // All keys from the one to the other, in every part of them.
  void add_interval(std::string_view set, const SetBytes& first, const SetBytes& last);
  void add_value(std::string_view map, const SetBytes& key, const SetBytes& value);
  // The map's value is: goto `chain`.
  void add_goto(std::string_view map, const SetBytes& key, std::string_view chain);
  // With packets and bytes counted from 0.
  void add_counter(std::string_view set, const SetBytes& key);
  // kNotFound, and nothing at all is done, if it is not there.
  void remove(std::string_view set, const SetBytes& key);
  void remove_interval(std::string_view set, const SetBytes& first, const SetBytes& last);

  bool is_empty() const { return messages_.size() <= 1; }
  Result<void> commit(NetlinkSocket& netfilter, std::string_view what);

 private:
  struct Element;
  void put(std::uint16_t type, std::string_view set, const Element& element);

  std::string table_;
  std::vector<NetlinkMessage> messages_;
};

struct PacketCount {
  std::uint64_t packets = 0;
  std::uint64_t bytes = 0;
};

// What the counter of an element has come to; nothing if there is no such element.
Result<std::optional<PacketCount>> read_counter(NetlinkSocket& netfilter, const std::string& table,
                                                std::string_view set, const SetBytes& key);

// So many elements a set has, counted one by one.
Result<std::size_t> count_elements(NetlinkSocket& netfilter, const std::string& table, std::string_view set);

}  // namespace warren::linux_
