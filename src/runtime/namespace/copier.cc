#include "runtime/namespace/copier.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "base/log.h"
#include "linux/packets.h"
#include "runtime/namespace/helper_process.h"

namespace warren::runtime {
namespace {

namespace asio = boost::asio;

// Far above what an order or an answer takes.
constexpr std::size_t kLongest = 16UL << 10;

// Fields of a packet, each on its line: names have no line ends.
class Fields {
 public:
  explicit Fields(std::string_view text) : rest_(text) {}
  std::string_view next() {
    const auto end = std::min(rest_.find('\n'), rest_.size());
    const auto field = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    return field;
  }
  std::uint64_t number() {
    const auto text = next();
    std::uint64_t number = 0;
    std::from_chars(text.data(), text.data() + text.size(), number);
    return number;
  }
  std::string_view rest() const { return rest_; }
  bool empty() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

struct Order {
  std::string from;
  std::size_t direct = 1;
  std::vector<std::pair<std::uint64_t, NewUpper>> copies;
};

std::string written(const Order& order) {
  std::string text = fmt::format("{}\n{}\n", order.from, order.direct);
  for (const auto& [number, copy] : order.copies)
    text += fmt::format("{}\n{}\n{}\n{}\n", number, copy.name, copy.limit_bytes, copy.hostname);
  return text;
}

Order read_order(std::string_view text) {
  Fields fields(text);
  Order order{.from = std::string(fields.next()), .direct = fields.number(), .copies = {}};
  while (!fields.empty()) {
    const std::uint64_t number = fields.number();
    NewUpper copy;
    copy.name = fields.next();
    copy.limit_bytes = fields.number();
    copy.hostname = fields.next();
    order.copies.emplace_back(number, std::move(copy));
  }
  return order;
}

void settle(const std::shared_ptr<UpperCopy>& copy, Result<void> outcome) {
  copy->outcome = std::move(outcome);
  copy->done.set();
}

}  // namespace

struct Copier::Child {
  HelperProcess process;
  std::shared_ptr<asio::posix::stream_descriptor> socket;
  // What has been ordered of it and not answered yet, by number.
  std::map<std::uint64_t, std::shared_ptr<UpperCopy>> open;

  void fail_all(const Error& error) {
    for (const auto& [number, copy] : std::exchange(open, {})) settle(copy, fail(error));
  }
};

Copier::Copier(Executor executor, Make make, Millis patience)
    : executor_(std::move(executor)), make_(std::move(make)), patience_(patience) {}

Result<std::unique_ptr<Copier>> Copier::start(const Executor& executor, Make make, Millis patience) {
  std::unique_ptr<Copier> copier(new Copier(executor, std::move(make), patience));
  if (auto spawned = copier->spawn(); !spawned) return fail(std::move(spawned.error()));
  return copier;
}

Copier::~Copier() {
  if (!child_) return;
  boost::system::error_code ignored;
  child_->socket->close(ignored);
  child_->process.end(patience_);
}

Result<void> Copier::spawn() {
  auto process =
      HelperProcess::start("warren-copier", linux_::SocketKind::kPacket, [this](int orders) { run(orders); });
  if (!process) return fail(std::move(process.error()));
  child_ = std::make_shared<Child>();
  child_->process = std::move(*process);
  child_->socket =
      std::make_shared<asio::posix::stream_descriptor>(executor_, child_->process.socket().release());
  asio::co_spawn(executor_, hear(child_), asio::detached);
  return {};
}

void Copier::run(int orders) const {
  std::atomic<std::size_t> under_way = 0;
  while (const auto packet = linux_::wait_for_packet(orders, kLongest)) {
    // Orders are independent of each other: one may take seconds.
    ++under_way;
    std::thread([this, orders, &under_way, order = read_order(packet->bytes)] {
      std::string from = order.from;
      Result<void> source;  // whether it is there
      for (std::size_t i = 0; i < order.copies.size(); ++i) {
        const auto& [number, copy] = order.copies[i];
        const auto made = source ? make_(from, copy) : source;
        if (i + 1 == order.direct) {
          from = copy.name;
          source = made;
        }
        const std::string answer =
            made ? fmt::format("{}\n", number)
                 : fmt::format("{}\n{}\n{}", number, static_cast<int>(made.error().kind()),
                               made.error().message());
        (void)linux_::send_packet(orders, answer.substr(0, kLongest));
      }
      --under_way;
      under_way.notify_one();
    }).detach();
  }
  for (std::size_t left = under_way; left > 0; left = under_way) under_way.wait(left);
}

Task<void> Copier::hear(std::shared_ptr<Child> child) {
  const auto answers = child->socket;
  while (true) {
    const bool ready = co_await wait_readable(answers, Clock::time_point::max());
    if (!ready) break;
    const auto packet = linux_::receive_packet(answers->native_handle(), kLongest);
    if (!packet) break;
    const std::optional<linux_::Packet>& arrived = *packet;
    if (!arrived) continue;
    Fields fields(arrived->bytes);
    const auto found = child->open.find(fields.number());
    if (found == child->open.end()) continue;
    const auto copy = found->second;
    child->open.erase(found);
    if (fields.empty()) {
      settle(copy, {});
    } else {
      const auto kind = static_cast<ErrorKind>(fields.number());
      settle(copy, fail(kind, std::string(fields.rest())));
    }
  }
  child->fail_all({ErrorKind::kUnavailable, "the process that copies files has ended; try again"});
}

Task<void> Copier::mind(std::shared_ptr<Child> child, std::vector<std::shared_ptr<UpperCopy>> order,
                        Millis patience) {
  for (const auto& copy : order) {
    const bool done = co_await copy->done.wait(Clock::now() + patience);
    if (done) continue;
    log::warn("a copy of a sandbox's files takes longer than {} s: it is given up",
              std::chrono::duration_cast<Seconds>(patience).count());
    child->process.kill();
    // Its end may take longer still, where a disk does not answer.
    child->fail_all({ErrorKind::kTimeout, "copying the sandbox's files took too long"});
    co_return;
  }
}

std::vector<std::shared_ptr<UpperCopy>> Copier::copy(const std::string& from, std::vector<NewUpper> copies,
                                                     std::size_t direct) {
  Result<void> sent;
  if (child_->process.has_ended()) sent = spawn();
  std::vector<std::shared_ptr<UpperCopy>> tickets;
  Order order{.from = from, .direct = direct, .copies = {}};
  for (auto& copy : copies) {
    tickets.push_back(std::make_shared<UpperCopy>());
    child_->open.emplace(++last_, tickets.back());
    order.copies.emplace_back(last_, std::move(copy));
  }
  if (sent) sent = linux_::send_packet(child_->socket->native_handle(), written(order));
  if (sent) {
    asio::co_spawn(executor_, mind(child_, tickets, patience_), asio::detached);
    return tickets;
  }
  for (const auto& [number, copy] : order.copies) {
    settle(child_->open.at(number), fail(sent.error()));
    child_->open.erase(number);
  }
  return tickets;
}

}  // namespace warren::runtime
