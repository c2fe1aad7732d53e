// Forks and merges: all or nothing, whoever goes away meanwhile.
#include <fmt/format.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/json/serialize.hpp>
#include <optional>

#include "service/fake_runtime.h"
#include "store/sandbox_repository.h"

namespace warren::service {
namespace {

class ForkingTest : public ServiceTest {
 protected:
  // A fork that is under way.
  struct Pending {
    std::optional<Result<Forked>> answer;
    boost::asio::cancellation_signal client;
    void client_goes_away() { client.emit(boost::asio::cancellation_type::terminal); }
  };

  std::shared_ptr<Pending> begin(const SandboxInfo& parent, ForkSpec spec = {}) {
    auto pending = std::make_shared<Pending>();
    boost::asio::co_spawn(
        context_, sandboxes_->fork(alice_, parent.id, spec),
        boost::asio::bind_cancellation_slot(
            pending->client.slot(), [pending](const std::exception_ptr& thrown, Result<Forked> forked) {
              EXPECT_FALSE(thrown);
              pending->answer = std::move(forked);
            }));
    settle();
    return pending;
  }
  // A whole fork: the agent holds the session, and says what was not copied.
  std::vector<SandboxInfo> fork(const SandboxInfo& parent, std::int64_t children) {
    const auto pending = begin(parent, {.children = children});
    machine(parent).stream()->notice(R"({"holding":true})");
    settle();
    machine(parent).stream()->close(R"({"not_copied":{}})");
    settle();
    EXPECT_TRUE(pending->answer && *pending->answer);
    return pending->answer && *pending->answer ? (*pending->answer)->children : std::vector<SandboxInfo>{};
  }
  void expect_nothing_but(std::size_t sandboxes) {
    settle();
    settle();
    EXPECT_EQ(runtime_->machines.size(), sandboxes);
    EXPECT_EQ(sandboxes_->list(alice_).size(), sandboxes);
    EXPECT_EQ(store::SandboxRepository(*database_).all()->size(), sandboxes);
    EXPECT_EQ(run(sandboxes_->capacity(alice_))->sandboxes, sandboxes);
  }
  ErrorKind merge_error(const std::string& parent, MergeSpec spec, const std::string& word = "") {
    auto merged = run(sandboxes_->merge(alice_, parent, std::move(spec)));
    EXPECT_FALSE(merged);
    if (merged) return ErrorKind::kInternal;
    EXPECT_NE(merged.error().message().find(word), std::string::npos) << merged.error().message();
    return merged.error().kind();
  }
};

TEST_F(ForkingTest, ChildrenHaveTheParentsLimitsAndLifetimeButNotItsName) {
  CreateSpec spec;
  spec.name = "mine";
  spec.ttl_seconds = 600;
  spec.persistent = true;
  spec.template_name = "python-datasci";
  const SandboxInfo parent = create(spec);
  time_->advance(Seconds(100));
  const auto pending = begin(parent, {.children = 3, .keep_random = true});
  const auto stream = machine(parent).stream();
  EXPECT_EQ(stream->request.at("op"), "fork");
  EXPECT_EQ(stream->request.at("keep_random"), boost::json::value(true));
  EXPECT_FALSE(pending->answer);
  EXPECT_EQ(sandboxes_->list(alice_).size(), 1U);
  stream->notice(R"({"holding":true})");
  settle();
  EXPECT_FALSE(pending->answer);
  stream->close(R"({"not_copied":{"threads":2,"processes":["sleep 900"],"descriptors":["5: socket"]}})");
  settle();
  ASSERT_TRUE(pending->answer && *pending->answer);
  const Forked& forked = **pending->answer;
  ASSERT_EQ(forked.children.size(), 3U);
  EXPECT_EQ(forked.not_copied.at("threads"), boost::json::value(2));
  EXPECT_EQ(forked.not_copied.at("processes").at(0), "sleep 900");
  for (const SandboxInfo& child : forked.children) {
    EXPECT_EQ(child.template_name, parent.template_name);
    EXPECT_EQ(child.account_id, parent.account_id);
    EXPECT_EQ(child.name, "");
    EXPECT_TRUE(child.persistent);
    EXPECT_EQ(child.expires_at - child.created_at, Seconds(600));
    EXPECT_EQ(child.created_at, parent.created_at + Seconds(100));
    EXPECT_EQ(machine(child).spec.limits.memory_bytes, machine(parent).spec.limits.memory_bytes);
    EXPECT_EQ(sandboxes_->get(alice_, child.id)->state, SandboxState::kReady);
    EXPECT_EQ(sandboxes_->get(mallory_, child.id).error().kind(), ErrorKind::kNotFound);
  }
  expect_nothing_but(4);
  time_->advance(Seconds(500));
  settle();
  EXPECT_FALSE(sandboxes_->get(alice_, parent.id));
  expect_nothing_but(3);
}

TEST_F(ForkingTest, WhatAnAgentSaysWasNotCopiedIsBounded) {
  const SandboxInfo parent = create();
  const auto pending = begin(parent);
  machine(parent).stream()->notice(R"({"holding":true})");
  settle();
  std::string many;
  for (int i = 0; i < 1000; ++i) many += fmt::format(R"("{}",)", std::string(5000, 'x'));
  machine(parent).stream()->close(
      R"({"not_copied":{"threads":"many","descriptors":7,"else":[1],"processes":[)" + many + R"(3]}})");
  settle();
  ASSERT_TRUE(pending->answer && *pending->answer);
  const auto& left = (*pending->answer)->not_copied;
  EXPECT_EQ(left.size(), 1U);
  EXPECT_LT(boost::json::serialize(left).size(), 64U * 1024);
}

TEST_F(ForkingTest, MoreThanThereIsRoomForIsRefused) {
  options_.tier.max_sandboxes = 4;
  start();
  const SandboxInfo parent = create();
  const auto refused = run(sandboxes_->fork(alice_, parent.id, {.children = 4}));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind(), ErrorKind::kLimited);
  EXPECT_TRUE(machine(parent).connections.back()->streams.empty());
  EXPECT_EQ(fork(parent, 3).size(), 3U);
  EXPECT_EQ(run(sandboxes_->fork(alice_, parent.id, {})).error().kind(), ErrorKind::kLimited);
  for (const std::int64_t n : {-1, 0, 33})
    EXPECT_EQ(run(sandboxes_->fork(alice_, parent.id, {.children = n})).error().kind(), ErrorKind::kInvalid);
}

TEST_F(ForkingTest, ForksUnderWayCountAgainstTheLimit) {
  options_.tier.max_sandboxes = 4;
  start();
  const SandboxInfo parent = create();
  const auto first = begin(parent, {.children = 2});
  const auto second = begin(parent, {.children = 2});
  EXPECT_FALSE(first->answer);
  ASSERT_TRUE(second->answer && !*second->answer);
  EXPECT_EQ(second->answer->error().kind(), ErrorKind::kLimited);
}

TEST_F(ForkingTest, OneForkAtATime) {
  const SandboxInfo parent = create();
  const auto first = begin(parent);
  const auto second = begin(parent);
  const auto third = begin(parent);
  EXPECT_EQ(machine(parent).connections.back()->streams.size(), 1U);
  second->client_goes_away();
  settle();
  ASSERT_TRUE(second->answer && !*second->answer);
  runtime_->shut_gate();
  machine(parent).stream()->notice(R"({"holding":true})");
  machine(parent).stream()->close(R"({"not_copied":{}})");
  settle();
  EXPECT_EQ(machine(parent).connections.back()->streams.size(), 1U);
  runtime_->open_gate();
  settle();
  ASSERT_TRUE(first->answer && *first->answer);
  EXPECT_FALSE(third->answer);
  ASSERT_EQ(machine(parent).connections.back()->streams.size(), 2U);
  machine(parent).stream()->notice(R"({"holding":true})");
  machine(parent).stream()->close(R"({"not_copied":{}})");
  settle();
  ASSERT_TRUE(third->answer && *third->answer);
  expect_nothing_but(3);
}

TEST_F(ForkingTest, AForkThatFailsLeavesNoChild) {
  const SandboxInfo parent = create();
  runtime_->fork_error = Error(ErrorKind::kNoSpace, "the pool is full");
  auto pending = begin(parent, {.children = 5});
  auto stream = machine(parent).stream();
  stream->notice(R"({"holding":true})");
  settle();
  ASSERT_TRUE(pending->answer && !*pending->answer);
  EXPECT_EQ(pending->answer->error().kind(), ErrorKind::kNoSpace);
  // Which tells the agent to let the session go on.
  EXPECT_TRUE(stream->dropped);
  expect_nothing_but(1);
  runtime_->fork_error.reset();

  // One of them does not start.
  pending = begin(parent, {.children = 5});
  runtime_->next_machine.breaks_off = true;
  stream = machine(parent).stream();
  stream->notice(R"({"holding":true})");
  stream->close(R"({"not_copied":{}})");
  settle();
  ASSERT_TRUE(pending->answer && !*pending->answer);
  EXPECT_EQ(pending->answer->error().kind(), ErrorKind::kUnavailable);
  expect_nothing_but(1);
  runtime_->next_machine = {};

  // They cannot be remembered.
  ASSERT_TRUE(
      database_->run("CREATE TRIGGER t BEFORE INSERT ON sandboxes BEGIN SELECT RAISE(ABORT, 'no'); END"));
  pending = begin(parent, {.children = 5});
  stream = machine(parent).stream();
  stream->notice(R"({"holding":true})");
  stream->close(R"({"not_copied":{}})");
  settle();
  ASSERT_TRUE(pending->answer && !*pending->answer);
  expect_nothing_but(1);
  EXPECT_TRUE(sandboxes_->get(alice_, parent.id));
}

TEST_F(ForkingTest, AnAgentThatRefusesIsHeard) {
  const SandboxInfo parent = create();
  const auto pending = begin(parent, {.children = 2});
  machine(parent).stream()->push(fail(ErrorKind::kConflict, "the Python session cannot be forked"));
  settle();
  ASSERT_TRUE(pending->answer && !*pending->answer);
  EXPECT_EQ(pending->answer->error().kind(), ErrorKind::kConflict);
  expect_nothing_but(1);
}

TEST_F(ForkingTest, AClientThatGoesAwayWhileItWaitsForItsTurnWithdrawsTheFork) {
  const SandboxInfo parent = create();
  const auto pending = begin(parent, {.children = 3});
  const auto stream = machine(parent).stream();
  EXPECT_FALSE(stream->cancelled);
  pending->client_goes_away();
  settle();
  ASSERT_TRUE(pending->answer && !*pending->answer);
  EXPECT_TRUE(stream->cancelled);
  stream->push(fail(ErrorKind::kCancelled, "cancelled"));
  expect_nothing_but(1);
}

TEST_F(ForkingTest, AClientThatGoesAwayWhileItIsForkedLeavesNoChild) {
  const SandboxInfo parent = create();
  const auto pending = begin(parent, {.children = 3});
  runtime_->shut_gate();
  const auto stream = machine(parent).stream();
  stream->notice(R"({"holding":true})");
  settle();
  pending->client_goes_away();
  settle();
  ASSERT_TRUE(pending->answer && !*pending->answer);
  runtime_->open_gate();
  settle();
  stream->close(R"({"not_copied":{}})");
  expect_nothing_but(1);
  EXPECT_TRUE(sandboxes_->get(alice_, parent.id));
}

TEST_F(ForkingTest, AnAgentThatDoesNotLetGoOfAWithdrawnForkLosesItsConnection) {
  parts_.hang_grace = Millis(5);
  start();
  const SandboxInfo parent = create();
  const auto pending = begin(parent);
  const auto connection = machine(parent).connections.back();
  pending->client_goes_away();
  settle();
  settle();
  EXPECT_TRUE(connection->closed);
  expect_nothing_but(1);
}

TEST_F(ForkingTest, ASessionThatDoesNotGoOnAfterItsForkIsGivenUp) {
  const SandboxInfo parent = create();
  const auto pending = begin(parent, {.children = 2});
  const auto stream = machine(parent).stream();
  stream->notice(R"({"holding":true})");
  while (!::testing::Test::HasFailure() && !stream->cancelled) settle();
  stream->push(fail(ErrorKind::kConflict, "the Python session ended while it was forked"));
  settle();
  ASSERT_TRUE(pending->answer && !*pending->answer);
  EXPECT_EQ(pending->answer->error().kind(), ErrorKind::kTimeout);
  expect_nothing_but(1);
}

TEST_F(ForkingTest, AParentThatDiesMeanwhileIsTold) {
  parts_.reason_limit = Seconds(60);
  start();
  const SandboxInfo parent = create();
  const auto pending = begin(parent, {.children = 2});
  runtime_->machine_ends(parent.id, "killed by SIGKILL");
  settle();
  ASSERT_TRUE(pending->answer && !*pending->answer);
  EXPECT_EQ(pending->answer->error().kind(), ErrorKind::kUnavailable);
  EXPECT_NE(pending->answer->error().message().find("SIGKILL"), std::string::npos);
  settle();
  EXPECT_EQ(sandboxes_->list(alice_).size(), 1U);
  EXPECT_TRUE(runtime_->machines.empty());
}

TEST_F(ForkingTest, AParentThatIsDestroyedMeanwhileLeavesNoChild) {
  const SandboxInfo parent = create();
  const auto pending = begin(parent, {.children = 2});
  ASSERT_TRUE(run(sandboxes_->destroy(alice_, parent.id)));
  settle();
  ASSERT_TRUE(pending->answer && !*pending->answer);
  EXPECT_EQ(pending->answer->error().kind(), ErrorKind::kUnavailable);
  expect_nothing_but(0);
}

TEST_F(ForkingTest, AnotherAccountsSandboxIsNotThere) {
  const SandboxInfo parent = create();
  const SandboxInfo own = *run(sandboxes_->create(mallory_, {}));
  EXPECT_EQ(run(sandboxes_->fork(mallory_, parent.id, {})).error().kind(), ErrorKind::kNotFound);
  EXPECT_EQ(run(sandboxes_->merge(mallory_, parent.id, {.winner = own.id})).error().kind(),
            ErrorKind::kNotFound);
  EXPECT_EQ(run(sandboxes_->merge(mallory_, own.id, {.winner = parent.id})).error().kind(),
            ErrorKind::kNotFound);
  Caller weak = alice_;
  weak.scopes = {"pods:read"};
  EXPECT_EQ(run(sandboxes_->fork(weak, parent.id, {})).error().kind(), ErrorKind::kForbidden);
  EXPECT_EQ(run(sandboxes_->merge(weak, parent.id, {.winner = own.id})).error().kind(),
            ErrorKind::kForbidden);
}

TEST_F(ForkingTest, AMergePutsTheWinnersMachineInThePlaceOfTheParents) {
  CreateSpec spec;
  spec.name = "mine";
  const SandboxInfo parent = create(spec);
  const auto children = fork(parent, 3);
  ASSERT_EQ(children.size(), 3U);
  const std::string winner = children[1].id;
  const auto winners_machine = machine(children[1]).spec.id;
  const auto merged = run(sandboxes_->merge(alice_, parent.id, {.winner = winner}));
  ASSERT_TRUE(merged) << merged.error().message();
  EXPECT_EQ(merged->sandbox.id, parent.id);
  EXPECT_EQ(merged->sandbox.name, "mine");
  EXPECT_FALSE(merged->report);
  EXPECT_EQ(machine(parent).spec.id, winners_machine);
  EXPECT_EQ(sandboxes_->get(alice_, winner).error().kind(), ErrorKind::kNotFound);
  EXPECT_TRUE(sandboxes_->get(alice_, children[0].id));
  expect_nothing_but(3);
  EXPECT_EQ(merge_error(parent.id, {.winner = winner}, "the winner"), ErrorKind::kNotFound);
  // What the parent is asked now, the winner's machine is asked.
  ASSERT_TRUE(run(sandboxes_->remove_file(alice_, parent.id, "/x")));
  EXPECT_EQ(machine(parent).calls.size(), 1U);
  EXPECT_EQ(fork(parent, 1).size(), 1U);
  // And it outlives a restart of the server.
  start();
  expect_nothing_but(4);
  EXPECT_EQ(sandboxes_->get(alice_, parent.id)->state, SandboxState::kReady);
}

TEST_F(ForkingTest, WhatAMergeMayNotSayIsNamed) {
  const SandboxInfo parent = create();
  const SandboxInfo other = create();
  EXPECT_EQ(merge_error(parent.id, {.winner = parent.id}, "itself"), ErrorKind::kInvalid);
  EXPECT_EQ(merge_error(parent.id, {.winner = other.id, .mode = "half"}, "replace"), ErrorKind::kInvalid);
  EXPECT_EQ(merge_error(parent.id, {.winner = other.id, .mode = "files", .on_conflict = "both"}, "ours"),
            ErrorKind::kInvalid);
  EXPECT_EQ(merge_error(parent.id, {.winner = other.id, .on_conflict = "ours"}, "files"),
            ErrorKind::kInvalid);
  CreateSpec spec;
  spec.template_name = "python-datasci";
  const SandboxInfo science = create(spec);
  EXPECT_EQ(merge_error(parent.id, {.winner = science.id}, "template"), ErrorKind::kConflict);
  runtime_->machine_ends(other.id, "killed by SIGKILL");
  settle();
  EXPECT_EQ(merge_error(parent.id, {.winner = other.id}, "the winner"), ErrorKind::kConflict);
  EXPECT_EQ(sandboxes_->list(alice_).size(), 3U);
}

TEST_F(ForkingTest, AMergeThatFailsLeavesBothAsTheyWere) {
  const SandboxInfo parent = create();
  const SandboxInfo winner = create();
  auto call = run(sandboxes_->run_bash(alice_, parent.id, {.command = "sleep 100"}));
  ASSERT_TRUE(call);
  runtime_->replace_error = Error(ErrorKind::kInternal, "stuck");
  EXPECT_EQ(merge_error(parent.id, {.winner = winner.id}), ErrorKind::kInternal);
  machine(parent).stream()->close(R"({"exit_code":0})");
  EXPECT_TRUE(run((*call)->next()));
  expect_nothing_but(2);
  runtime_->replace_error.reset();
  EXPECT_TRUE(run(sandboxes_->merge(alice_, parent.id, {.winner = winner.id})));
}

TEST_F(ForkingTest, CallsThatRunOnEitherAreToldOfTheMerge) {
  const SandboxInfo parent = create();
  const SandboxInfo winner = create();
  auto on_parent = run(sandboxes_->run_bash(alice_, parent.id, {.command = "sleep 100"}));
  auto on_winner = run(sandboxes_->run_python(alice_, winner.id, {.code = "while True: pass"}));
  ASSERT_TRUE(on_parent && on_winner);
  // The old machine's connections break before the merge is done, and nobody takes that
  // for the parent's death.
  runtime_->shut_gate();
  std::optional<Result<Merged>> merged;
  boost::asio::co_spawn(
      context_, sandboxes_->merge(alice_, parent.id, {.winner = winner.id}),
      [&](const std::exception_ptr&, Result<Merged> answer) { merged = std::move(answer); });
  settle();
  EXPECT_FALSE(merged);
  EXPECT_EQ(merge_error(parent.id, {.winner = winner.id}, "already"), ErrorKind::kConflict);
  std::optional<Result<ExecEvent>> told;
  boost::asio::co_spawn(context_, (*on_parent)->next(),
                        [&](const std::exception_ptr&, Result<ExecEvent> event) { told = std::move(event); });
  settle();
  EXPECT_FALSE(told);
  runtime_->open_gate();
  while (!::testing::Test::HasFailure() && (!told || !merged)) settle();
  ASSERT_TRUE(*merged);
  ASSERT_FALSE(*told);
  EXPECT_EQ(told->error().kind(), ErrorKind::kUnavailable);
  EXPECT_NE(told->error().message().find("merged into this one"), std::string::npos)
      << told->error().message();
  const auto other = run((*on_winner)->next());
  ASSERT_FALSE(other);
  EXPECT_NE(other.error().message().find("merged into " + parent.id), std::string::npos)
      << other.error().message();
  EXPECT_TRUE(run(sandboxes_->run_bash(alice_, parent.id, {.command = "true"})));
  expect_nothing_but(1);
}

TEST_F(ForkingTest, AMergeIsDoneEvenIfItsClientGoesAway) {
  const SandboxInfo parent = create();
  const SandboxInfo winner = create();
  runtime_->shut_gate();
  boost::asio::cancellation_signal client;
  boost::asio::co_spawn(context_, sandboxes_->merge(alice_, parent.id, {.winner = winner.id}),
                        boost::asio::bind_cancellation_slot(
                            client.slot(), [](const std::exception_ptr&, const Result<Merged>&) {}));
  settle();
  client.emit(boost::asio::cancellation_type::terminal);
  settle();
  runtime_->open_gate();
  expect_nothing_but(1);
  EXPECT_TRUE(sandboxes_->get(alice_, parent.id));
}

}  // namespace
}  // namespace warren::service
