// Create, destroy, lifetimes, restarts: what clients are promised about sandboxes.
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/detached.hpp>

#include "base/ids.h"
#include "service/fake_runtime.h"
#include "store/sandbox_repository.h"

namespace warren::service {
namespace {

using LifecycleTest = ServiceTest;

CreateSpec with_ttl(std::int64_t seconds) {
  CreateSpec spec;
  spec.ttl_seconds = seconds;
  return spec;
}

TEST_F(LifecycleTest, ACreatedSandboxIsReadyAndRemembered) {
  CreateSpec spec;
  spec.name = "mine \xf0\x9f\x90\x87";
  const SandboxInfo info = create(spec);
  EXPECT_TRUE(is_sandbox_id(info.id));
  EXPECT_EQ(info.template_name, "default");
  EXPECT_EQ(info.isolation, "namespace");
  EXPECT_EQ(info.fork_copies, "runner");
  EXPECT_EQ(info.egress, runtime::EgressPolicy::open());
  EXPECT_EQ(info.state, SandboxState::kReady);
  EXPECT_EQ(info.expires_at - info.created_at, options_.tier.default_ttl);
  EXPECT_EQ(machine(info).spec.account, alice_.account_id);
  EXPECT_EQ(machine(info).connections.size(), 1U);
  auto rows = store::SandboxRepository(*database_).all();
  ASSERT_EQ(rows->size(), 1U);
  EXPECT_EQ(rows->front().id, info.id);
  EXPECT_EQ(sandboxes_->get(alice_, info.id)->name, spec.name);
  EXPECT_EQ(sandboxes_->list(alice_).size(), 1U);
}

TEST_F(LifecycleTest, WhatACreateMayNotSayIsNamed) {
  const auto refused = [&](CreateSpec spec, const std::string& word) {
    auto made = run(sandboxes_->create(alice_, std::move(spec)));
    ASSERT_FALSE(made) << word;
    EXPECT_EQ(made.error().kind(), ErrorKind::kInvalid);
    EXPECT_NE(made.error().message().find(word), std::string::npos) << made.error().message();
  };
  CreateSpec spec;
  spec.template_name = "no-such";
  refused(spec, "default, python-datasci");
  spec.template_name = "unbuilt";
  refused(spec, "not built");
  spec.template_name = std::string("\n\xff");
  refused(spec, "expected one of");
  refused(with_ttl(59), "60 to 86400");
  refused(with_ttl(86401), "60 to 86400");
  refused(with_ttl(-1), "60 to 86400");
  spec = {};
  spec.isolation = "microvm";
  refused(spec, "not available yet");
  spec.isolation = "docker";
  refused(spec, "auto, namespace or microvm");
  spec = {};
  spec.name = std::string(129, 'x');
  refused(spec, "name");
  spec.name = "a\nb";
  refused(spec, "name");
  spec.name = "\xc0\x80";
  refused(spec, "name");
  EXPECT_TRUE(runtime_->machines.empty());
  EXPECT_TRUE(store::SandboxRepository(*database_).all()->empty());
  create(with_ttl(60));
  create(with_ttl(86400));
}

TEST_F(LifecycleTest, ATemplateBuiltLaterIsFound) {
  CreateSpec spec;
  spec.template_name = "fresh";
  EXPECT_FALSE(run(sandboxes_->create(alice_, spec)));
  runtime::TemplateInfo info;
  info.name = "fresh";
  info.built = true;
  runtime_->template_list.push_back(info);
  EXPECT_EQ(create(spec).template_name, "fresh");
  const auto questions = runtime_->template_questions;
  create(spec);
  EXPECT_EQ(runtime_->template_questions, questions);
}

TEST_F(LifecycleTest, AnotherAccountsSandboxIsNotThere) {
  const SandboxInfo info = create();
  EXPECT_EQ(sandboxes_->get(mallory_, info.id).error().kind(), ErrorKind::kNotFound);
  EXPECT_TRUE(sandboxes_->list(mallory_).empty());
  EXPECT_EQ(run(sandboxes_->destroy(mallory_, info.id)).error().kind(), ErrorKind::kNotFound);
  EXPECT_EQ(run(sandboxes_->run_python(mallory_, info.id, {})).error().kind(), ErrorKind::kNotFound);
  EXPECT_EQ(run(sandboxes_->run_bash(mallory_, info.id, {})).error().kind(), ErrorKind::kNotFound);
  EXPECT_EQ(run(sandboxes_->open_terminal(mallory_, info.id, {})).error().kind(), ErrorKind::kNotFound);
  EXPECT_EQ(run(sandboxes_->read_file(mallory_, info.id, "/x")).error().kind(), ErrorKind::kNotFound);
  EXPECT_EQ(run(sandboxes_->write_file(mallory_, info.id, "/x", {})).error().kind(), ErrorKind::kNotFound);
  EXPECT_EQ(run(sandboxes_->list_files(mallory_, info.id, "/")).error().kind(), ErrorKind::kNotFound);
  EXPECT_EQ(run(sandboxes_->remove_file(mallory_, info.id, "/x")).error().kind(), ErrorKind::kNotFound);
  // The same words as for one that never was.
  EXPECT_EQ(sandboxes_->get(mallory_, info.id).error().message(),
            sandboxes_->get(mallory_, new_sandbox_id()).error().message());
  EXPECT_TRUE(sandboxes_->get(alice_, info.id));
}

TEST_F(LifecycleTest, AKeyWithoutTheScopeGetsNothing) {
  const SandboxInfo info = create();
  Caller weak = alice_;
  weak.scopes = {"pods:read"};
  EXPECT_EQ(run(sandboxes_->create(weak, {})).error().kind(), ErrorKind::kForbidden);
  EXPECT_EQ(sandboxes_->get(weak, info.id).error().kind(), ErrorKind::kForbidden);
  EXPECT_EQ(run(sandboxes_->destroy(weak, info.id)).error().kind(), ErrorKind::kForbidden);
  EXPECT_EQ(run(sandboxes_->run_bash(weak, info.id, {})).error().kind(), ErrorKind::kForbidden);
  EXPECT_TRUE(sandboxes_->list(weak).empty());
}

TEST_F(LifecycleTest, DestroyingEndsTheMachineAndForgetsTheRow) {
  const SandboxInfo info = create();
  ASSERT_TRUE(run(sandboxes_->destroy(alice_, info.id)));
  EXPECT_TRUE(runtime_->machines.empty());
  EXPECT_TRUE(store::SandboxRepository(*database_).all()->empty());
  EXPECT_EQ(run(sandboxes_->destroy(alice_, info.id)).error().kind(), ErrorKind::kNotFound);
  EXPECT_EQ(sandboxes_->get(alice_, info.id).error().kind(), ErrorKind::kNotFound);
}

TEST_F(LifecycleTest, AMachineThatDoesNotEndIsTriedAgain) {
  const SandboxInfo info = create();
  runtime_->destroy_error = Error(ErrorKind::kInternal, "stuck");
  auto destroyed = run(sandboxes_->destroy(alice_, info.id));
  ASSERT_FALSE(destroyed);
  EXPECT_EQ(destroyed.error().kind(), ErrorKind::kInternal);
  EXPECT_EQ(sandboxes_->get(alice_, info.id).error().kind(), ErrorKind::kNotFound);
  settle();
  EXPECT_EQ(runtime_->machines.size(), 1U);
  runtime_->destroy_error.reset();
  settle();
  EXPECT_TRUE(runtime_->machines.empty());
}

TEST_F(LifecycleTest, LimitsOfTheAccountAndOfTheServerHold) {
  options_.tier.max_sandboxes = 2;
  options_.max_sandboxes = 3;
  start();
  const SandboxInfo first = create();
  create();
  auto third = run(sandboxes_->create(alice_, {}));
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().kind(), ErrorKind::kLimited);
  EXPECT_NE(third.error().message().find("destroy one"), std::string::npos);
  ASSERT_TRUE(run(sandboxes_->create(mallory_, {})));
  auto fourth = run(sandboxes_->create(mallory_, {}));
  ASSERT_FALSE(fourth);
  EXPECT_EQ(fourth.error().kind(), ErrorKind::kLimited);
  EXPECT_EQ(run(sandboxes_->capacity(alice_))->sandboxes, 2U);
  EXPECT_EQ(run(sandboxes_->capacity(alice_))->max_sandboxes, 2U);
  ASSERT_TRUE(run(sandboxes_->destroy(alice_, first.id)));
  create();
}

TEST_F(LifecycleTest, CreatesUnderWayCountAgainstTheLimit) {
  options_.tier.max_sandboxes = 3;
  start();
  int made = 0;
  int limited = 0;
  for (int i = 0; i < 10; ++i)
    boost::asio::co_spawn(context_, sandboxes_->create(alice_, {}),
                          [&](const std::exception_ptr&, Result<SandboxInfo> info) {
                            ++(info ? made : limited);
                            if (!info) {
                              EXPECT_EQ(info.error().kind(), ErrorKind::kLimited);
                            }
                          });
  settle();
  settle();
  EXPECT_EQ(made, 3);
  EXPECT_EQ(limited, 7);
  EXPECT_EQ(runtime_->machines.size(), 3U);
}

TEST_F(LifecycleTest, ACreateThatFailsLeavesNothing) {
  runtime_->create_error = Error(ErrorKind::kNoSpace, "the pool is full");
  auto made = run(sandboxes_->create(alice_, {}));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().kind(), ErrorKind::kNoSpace);
  runtime_->create_error.reset();

  runtime_->next_machine.silent = true;
  made = run(sandboxes_->create(alice_, {}));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().kind(), ErrorKind::kUnavailable);

  runtime_->next_machine.breaks_off = true;
  made = run(sandboxes_->create(alice_, {}));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().kind(), ErrorKind::kUnavailable);
  settle();
  EXPECT_TRUE(runtime_->machines.empty());
  EXPECT_TRUE(sandboxes_->list(alice_).empty());
  EXPECT_TRUE(store::SandboxRepository(*database_).all()->empty());
  EXPECT_EQ(run(sandboxes_->capacity(alice_))->sandboxes, 0U);
}

TEST_F(LifecycleTest, ASandboxThatCannotBeRememberedIsNotMade) {
  ASSERT_TRUE(
      database_->run("CREATE TRIGGER t BEFORE INSERT ON sandboxes BEGIN SELECT RAISE(ABORT, 'no'); END"));
  EXPECT_FALSE(run(sandboxes_->create(alice_, {})));
  settle();
  EXPECT_TRUE(runtime_->machines.empty());
  EXPECT_TRUE(sandboxes_->list(alice_).empty());
}

TEST_F(LifecycleTest, ACreateWhoseClientGoesAwayLeavesNothing) {
  runtime_->shut_gate();
  boost::asio::cancellation_signal gone;
  bool told = false;
  boost::asio::co_spawn(context_, sandboxes_->create(alice_, {}),
                        boost::asio::bind_cancellation_slot(
                            gone.slot(), [&](const std::exception_ptr&, const Result<SandboxInfo>& info) {
                              told = true;
                              EXPECT_FALSE(info);
                            }));
  settle();
  EXPECT_FALSE(told);
  gone.emit(boost::asio::cancellation_type::terminal);
  settle();
  EXPECT_TRUE(told);
  EXPECT_TRUE(sandboxes_->list(alice_).empty());
  runtime_->open_gate();
  settle();
  settle();
  EXPECT_EQ(runtime_->destroyed.size(), 1U);
  EXPECT_TRUE(runtime_->machines.empty());
  EXPECT_TRUE(sandboxes_->list(alice_).empty());
  EXPECT_TRUE(store::SandboxRepository(*database_).all()->empty());
  EXPECT_EQ(run(sandboxes_->capacity(alice_))->sandboxes, 0U);
}

TEST_F(LifecycleTest, TwentyCreatedAtOnceLiveTheirTimeAndThenEnd) {
  std::vector<SandboxInfo> all;
  constexpr int kSandboxes = 20;
  all.reserve(kSandboxes);
  for (int i = 0; i < kSandboxes; ++i) all.push_back(create(with_ttl(300)));
  time_->advance(Millis(299'999));
  settle();
  EXPECT_EQ(sandboxes_->list(alice_).size(), 20U);
  EXPECT_EQ(runtime_->machines.size(), 20U);
  time_->advance(Millis(1));
  settle();
  EXPECT_TRUE(sandboxes_->list(alice_).empty());
  settle();
  EXPECT_TRUE(runtime_->machines.empty());
  EXPECT_TRUE(store::SandboxRepository(*database_).all()->empty());
  for (const SandboxInfo& info : all)
    EXPECT_EQ(sandboxes_->get(alice_, info.id).error().kind(), ErrorKind::kNotFound);
}

TEST_F(LifecycleTest, AnIdleSandboxEndsAndAUsedOneDoesNot) {
  options_.tier.idle_timeout = Seconds(600);
  start();
  const SandboxInfo idle = create();
  const SandboxInfo used = create();
  CreateSpec spec;
  spec.persistent = true;
  const SandboxInfo persistent = create(spec);
  for (int minute = 0; minute < 12; ++minute) {
    time_->advance(Millis(60'000));
    settle();
    ASSERT_TRUE(run(sandboxes_->remove_file(alice_, used.id, "/x")));
  }
  EXPECT_FALSE(sandboxes_->get(alice_, idle.id));
  EXPECT_TRUE(sandboxes_->get(alice_, used.id));
  EXPECT_TRUE(sandboxes_->get(alice_, persistent.id));
  time_->advance(Millis(600'000));
  settle();
  EXPECT_FALSE(sandboxes_->get(alice_, used.id));
  EXPECT_TRUE(sandboxes_->get(alice_, persistent.id));
  time_->advance(Seconds(3600));
  settle();
  EXPECT_FALSE(sandboxes_->get(alice_, persistent.id));
}

TEST_F(LifecycleTest, ARunningCallKeepsItsSandboxButNotPastItsMaximum) {
  options_.tier.idle_timeout = Seconds(100);
  start();
  const SandboxInfo info = create(with_ttl(1000));
  auto call = run(sandboxes_->run_bash(alice_, info.id, {.command = "sleep 900"}));
  ASSERT_TRUE(call);
  for (int i = 0; i < 9; ++i) {
    time_->advance(Seconds(100));
    settle();
    ASSERT_TRUE(sandboxes_->get(alice_, info.id)) << i;
  }
  machine(info).stream()->close(R"({"exit_code":0})");
  ASSERT_TRUE(run((*call)->next()));
  time_->advance(Seconds(99));
  settle();
  ASSERT_TRUE(sandboxes_->get(alice_, info.id));
  time_->advance(Seconds(1));
  settle();
  EXPECT_FALSE(sandboxes_->get(alice_, info.id));
}

TEST_F(LifecycleTest, AClockThatIsSetDoesNotEndSandboxes) {
  const SandboxInfo info = create(with_ttl(300));
  time_->step_wall(std::chrono::hours(24 * 365));
  time_->advance(Seconds(200));
  settle();
  EXPECT_TRUE(sandboxes_->get(alice_, info.id));
}

TEST_F(LifecycleTest, ARestartOfTheServerLosesNoSandbox) {
  const SandboxInfo info = create(with_ttl(300));
  time_->advance(Seconds(100));
  start();
  auto found = sandboxes_->get(alice_, info.id);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->state, SandboxState::kReady);
  EXPECT_EQ(found->expires_at, info.expires_at);
  ASSERT_TRUE(run(sandboxes_->remove_file(alice_, info.id, "/x")));
  EXPECT_EQ(machine(info).connections.size(), 2U);
  time_->advance(Millis(199'999));
  settle();
  EXPECT_TRUE(sandboxes_->get(alice_, info.id));
  time_->advance(Millis(1));
  settle();
  EXPECT_FALSE(sandboxes_->get(alice_, info.id));
  EXPECT_TRUE(runtime_->machines.empty());
}

TEST_F(LifecycleTest, WhatExpiredWhileTheServerWasAwayIsEnded) {
  create(with_ttl(300));
  sandboxes_.reset();
  time_->advance(Seconds(400));
  start();
  EXPECT_TRUE(sandboxes_->list(alice_).empty());
  EXPECT_TRUE(runtime_->machines.empty());
  EXPECT_TRUE(store::SandboxRepository(*database_).all()->empty());
}

TEST_F(LifecycleTest, AMachineThatNobodyWasPromisedIsEnded) {
  const SandboxInfo info = create();
  runtime_->machines[new_sandbox_id()];
  start();
  EXPECT_EQ(runtime_->machines.size(), 1U);
  EXPECT_TRUE(runtime_->machines.contains(info.id));
}

TEST_F(LifecycleTest, WithTheRuntimeItsSandboxesDieAndSaySo) {
  const SandboxInfo info = create(with_ttl(300));
  runtime_->go_away();
  settle();
  EXPECT_FALSE(sandboxes_->healthy());
  EXPECT_EQ(run(sandboxes_->create(alice_, {})).error().kind(), ErrorKind::kUnavailable);
  machine(info).connections.back()->lose();
  settle();
  EXPECT_EQ(run(sandboxes_->run_bash(alice_, info.id, {.command = "true"})).error().kind(),
            ErrorKind::kUnavailable);
  EXPECT_EQ(sandboxes_->get(alice_, info.id)->state, SandboxState::kReady);

  runtime_->machines.clear();
  runtime_->come_back();
  settle();
  EXPECT_TRUE(sandboxes_->healthy());
  auto found = sandboxes_->get(alice_, info.id);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->state, SandboxState::kDead);
  EXPECT_EQ(found->state_reason, "the runtime restarted");
  auto call = run(sandboxes_->run_bash(alice_, info.id, {.command = "true"}));
  ASSERT_FALSE(call);
  EXPECT_EQ(call.error().kind(), ErrorKind::kConflict);
  EXPECT_NE(call.error().message().find("the runtime restarted"), std::string::npos);

  // Its owner may look at it until its time is up, across a restart of the server.
  start();
  EXPECT_EQ(sandboxes_->get(alice_, info.id)->state_reason, "the runtime restarted");
  time_->advance(Seconds(300));
  settle();
  EXPECT_EQ(sandboxes_->get(alice_, info.id).error().kind(), ErrorKind::kNotFound);
  EXPECT_TRUE(store::SandboxRepository(*database_).all()->empty());
}

TEST_F(LifecycleTest, AConnectionToTheRuntimeThatComesBackLosesNothing) {
  const SandboxInfo info = create();
  runtime_->go_away();
  settle();
  runtime_->come_back();
  settle();
  EXPECT_EQ(sandboxes_->get(alice_, info.id)->state, SandboxState::kReady);
  EXPECT_TRUE(run(sandboxes_->remove_file(alice_, info.id, "/x")));
}

TEST_F(LifecycleTest, ADestroyWhileTheRuntimeIsAwayIsMadeUpFor) {
  const SandboxInfo info = create();
  runtime_->go_away();
  settle();
  EXPECT_TRUE(run(sandboxes_->destroy(alice_, info.id)));
  EXPECT_EQ(runtime_->machines.size(), 1U);
  runtime_->come_back();
  settle();
  EXPECT_TRUE(runtime_->machines.empty());
}

TEST_F(LifecycleTest, AMachineThatEndsOnItsOwnIsDeadWithItsReason) {
  const SandboxInfo info = create();
  runtime_->machine_ends(info.id, "out of memory");
  settle();
  auto found = sandboxes_->get(alice_, info.id);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->state, SandboxState::kDead);
  EXPECT_EQ(found->state_reason, "its process 1 ended: out of memory");
  EXPECT_TRUE(runtime_->machines.empty());
  auto call = run(sandboxes_->read_file(alice_, info.id, "/x"));
  ASSERT_FALSE(call);
  EXPECT_EQ(call.error().kind(), ErrorKind::kConflict);
  EXPECT_NE(call.error().message().find("out of memory; destroy it and create a new one"), std::string::npos);
  EXPECT_EQ(run(sandboxes_->capacity(alice_))->sandboxes, 0U);
  EXPECT_TRUE(run(sandboxes_->destroy(alice_, info.id)));
  EXPECT_FALSE(sandboxes_->get(alice_, info.id));
}

TEST_F(LifecycleTest, ALostConnectionIsMadeAnewOnce) {
  const SandboxInfo info = create();
  machine(info).connections.back()->lose();
  settle();
  EXPECT_TRUE(run(sandboxes_->remove_file(alice_, info.id, "/x")));
  EXPECT_EQ(machine(info).connections.size(), 2U);

  machine(info).breaks_off = true;
  machine(info).connections.back()->lose();
  settle();
  EXPECT_FALSE(run(sandboxes_->remove_file(alice_, info.id, "/x")));
  EXPECT_EQ(sandboxes_->get(alice_, info.id)->state, SandboxState::kDead);
  EXPECT_TRUE(runtime_->machines.empty());
}

TEST_F(LifecycleTest, ASilentAgentIsNoDeath) {
  const SandboxInfo info = create();
  machine(info).connections.back()->lose();
  machine(info).silent = true;
  settle();
  EXPECT_EQ(run(sandboxes_->run_bash(alice_, info.id, {.command = "true"})).error().kind(),
            ErrorKind::kUnavailable);
  EXPECT_EQ(sandboxes_->get(alice_, info.id)->state, SandboxState::kReady);
  machine(info).silent = false;
  EXPECT_TRUE(run(sandboxes_->run_bash(alice_, info.id, {.command = "true"})));
}

TEST_F(LifecycleTest, TheDeadThatAnAccountKeepsAreBounded) {
  for (int i = 0; i < 260; ++i) {
    const SandboxInfo info = create();
    time_->advance(Millis(1));
    runtime_->machine_ends(info.id, "killed");
    context_.restart();
    context_.poll();
  }
  settle();
  EXPECT_EQ(sandboxes_->list(alice_).size(), 256U);
  settle();
  EXPECT_EQ(store::SandboxRepository(*database_).all()->size(), 256U);
}

TEST_F(LifecycleTest, WhatASandboxMayReachIsRememberedAsItWasLastChanged) {
  const auto range = *runtime::EgressPolicy::list({"203.0.113.0/24"});
  CreateSpec spec;
  spec.egress = range;
  const SandboxInfo info = create(spec);
  EXPECT_EQ(info.egress, range);
  EXPECT_EQ(machine(info).spec.egress, range);
  const auto changed = run(sandboxes_->set_egress(alice_, info.id, runtime::EgressPolicy::none()));
  ASSERT_TRUE(changed);
  EXPECT_EQ(changed->egress, runtime::EgressPolicy::none());
  EXPECT_EQ(machine(info).spec.egress, runtime::EgressPolicy::none());
  EXPECT_EQ(run(sandboxes_->set_egress(mallory_, info.id, range)).error().kind(), ErrorKind::kNotFound);
  EXPECT_EQ(run(sandboxes_->explain(mallory_, info.id)).error().kind(), ErrorKind::kNotFound);
  start();
  settle();
  EXPECT_EQ(sandboxes_->get(alice_, info.id)->egress, runtime::EgressPolicy::none());
}

TEST_F(LifecycleTest, APolicyThatCannotBeSetChangesNothing) {
  const SandboxInfo info = create();
  runtime_->egress_error = Error(ErrorKind::kUnavailable, "not now");
  EXPECT_EQ(run(sandboxes_->set_egress(alice_, info.id, runtime::EgressPolicy::none())).error().kind(),
            ErrorKind::kUnavailable);
  EXPECT_EQ(sandboxes_->get(alice_, info.id)->egress, runtime::EgressPolicy::open());
  const auto names = *runtime::EgressPolicy::list({"api.example.com"});
  runtime_->egress_error.reset();
  const auto refused = run(sandboxes_->set_egress(alice_, info.id, names));
  EXPECT_EQ(refused.error().kind(), ErrorKind::kInvalid);
  EXPECT_NE(refused.error().message().find("api.example.com"), std::string::npos);
}

TEST_F(LifecycleTest, WhereOpenIsWithheldListsSayWhere) {
  options_.open_egress = OpenEgress::kWithheld;
  options_.default_egress = runtime::EgressPolicy::none();
  start();
  settle();
  CreateSpec spec;
  const SandboxInfo info = create(spec);
  EXPECT_EQ(info.egress, runtime::EgressPolicy::none());
  const auto change = [&](const runtime::EgressPolicy& policy) {
    return run(sandboxes_->set_egress(alice_, info.id, policy));
  };
  EXPECT_EQ(change(runtime::EgressPolicy::open()).error().kind(), ErrorKind::kForbidden);
  for (const auto* wide : {"0.0.0.0/0", "203.0.0.0/15", "2000::/31"}) {
    const auto refused = change(*runtime::EgressPolicy::list({"203.0.113.7", wide}));
    EXPECT_EQ(refused.error().kind(), ErrorKind::kForbidden) << wide;
    EXPECT_NE(refused.error().message().find(wide), std::string::npos);
  }
  EXPECT_TRUE(change(*runtime::EgressPolicy::list({"203.0.0.0/16", "2001:db8::/32"})));
  spec.egress = runtime::EgressPolicy::open();
  EXPECT_EQ(run(sandboxes_->create(alice_, spec)).error().kind(), ErrorKind::kForbidden);
}

TEST_F(LifecycleTest, WhereThereIsNoNetworkEverythingReachesNothing) {
  runtime_->no_network() = "the host has none";
  CreateSpec spec;
  spec.egress = runtime::EgressPolicy::open();
  const SandboxInfo info = create(spec);
  EXPECT_EQ(info.egress, runtime::EgressPolicy::none());
  const auto changed = run(sandboxes_->set_egress(alice_, info.id, runtime::EgressPolicy::open()));
  EXPECT_EQ(changed.error().kind(), ErrorKind::kUnavailable);
  EXPECT_NE(changed.error().message().find("the host has none"), std::string::npos);
  EXPECT_TRUE(run(sandboxes_->set_egress(alice_, info.id, runtime::EgressPolicy::none())));
}

TEST_F(LifecycleTest, AThousandCreatedAndDestroyedLeaveNothing) {
  for (int i = 0; i < 1000; ++i) {
    const SandboxInfo info = create();
    ASSERT_TRUE(run(sandboxes_->destroy(alice_, info.id)));
  }
  EXPECT_TRUE(runtime_->machines.empty());
  EXPECT_TRUE(store::SandboxRepository(*database_).all()->empty());
  EXPECT_EQ(run(sandboxes_->capacity(alice_))->sandboxes, 0U);
}

}  // namespace
}  // namespace warren::service
