// The face as clients meet it: over a real connection, with a service that is only
// pretended.
#include "api/podflare/face.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <string>

#include "api/mcp/fake_sandboxes.h"
#include "http/test_peer.h"

namespace warren::api::podflare {
namespace {

namespace json = boost::json;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr std::string_view kUnknown = "sbx_00000000000000000000000000000000";

// The fake, with what this face's tests need beyond it.
class Service : public mcp::FakeSandboxes {
 public:
  using FakeSandboxes::FakeSandboxes;
  std::optional<Error> run_error;
  bool well = true;

  Task<Result<std::shared_ptr<service::Execution>>> run_bash(service::Caller caller, std::string id,
                                                             service::BashCall call) override {
    if (run_error) co_return fail(*run_error);
    co_return co_await FakeSandboxes::run_bash(std::move(caller), std::move(id), std::move(call));
  }
  Task<Result<void>> destroy(service::Caller caller, std::string id) override {
    auto known = get(caller, id);
    if (!known) co_return fail(std::move(known).error());
    co_return co_await FakeSandboxes::destroy(std::move(caller), std::move(id));
  }
  bool healthy() const override { return well; }
};

struct Answer {
  int status = 0;
  std::string head;
  std::string body;
};

class FaceTest : public testing::Test {
 protected:
  FaceTest()
      : router_(std::make_shared<http::Router>()),
        server_(router_),
        service_(std::make_shared<Service>(server_.context().get_executor())) {
    const auto authenticate = [](std::string_view key) -> Result<service::Caller> {
      if (key != "good" && key != "other") return fail(ErrorKind::kUnauthorized, "the key is not known");
      return service::Caller{"account-" + std::string(key), "key-" + std::string(key), {}};
    };
    add_routes(*router_, authenticate, *service_, {});
  }

  static std::string text(std::string_view line, std::string_view body, std::string_view key = "good") {
    return std::string(line) + " HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nAuthorization: Bearer " +
           std::string(key) + "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
           std::string(body);
  }
  Answer ask(std::string_view line, std::string_view body = "", std::string_view key = "good") {
    return send(text(line, body, key));
  }
  Answer send(std::string_view request) {
    http::Peer peer(server_.port());
    peer.say(request);
    const auto all = peer.hear_all();
    const auto end = all.find("\r\n\r\n");
    Answer answer;
    answer.head = all.substr(0, end);
    answer.body = end == std::string::npos ? "" : all.substr(end + 4);
    answer.status = answer.head.size() > 12 ? std::stoi(answer.head.substr(9, 3)) : 0;
    return answer;
  }
  std::string make() { return std::string(json::parse(ask("POST /v1/sandboxes").body).at("id").as_string()); }
  static std::string error_of(const Answer& answer) {
    return std::string(json::parse(answer.body).at("error").as_string());
  }

  std::shared_ptr<http::Router> router_;
  http::TestServer server_;
  std::shared_ptr<Service> service_;
};

TEST_F(FaceTest, WantsAKeyButForItsHealth) {
  EXPECT_EQ(ask("GET /v1/healthz", "", "wrong").body, "ok");
  const auto wrong = ask("GET /v1/sandboxes", "", "wrong");
  EXPECT_EQ(wrong.status, 401);
  EXPECT_THAT(wrong.head, HasSubstr("WWW-Authenticate: Bearer"));
  EXPECT_EQ(error_of(wrong), "the key is not known");
  const auto none = send("GET /v1/sandboxes HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(none.status, 401);
  EXPECT_THAT(error_of(none), HasSubstr("Authorization: Bearer KEY"));
  service_->well = false;
  EXPECT_EQ(ask("GET /v1/healthz").status, 503);
}

TEST_F(FaceTest, MakesListsShowsAndDestroysASandbox) {
  const auto made = ask("POST /v1/sandboxes", R"({"name":"n","egress":true})");
  ASSERT_EQ(made.status, 201) << made.body;
  const auto object = json::parse(made.body).as_object();
  const std::string id(object.at("id").as_string());
  EXPECT_EQ(object.at("state"), "ready");
  EXPECT_EQ(object.at("egress"), "none");
  EXPECT_EQ(object.at("notes").as_array().size(), 1U);
  EXPECT_THAT(made.head, HasSubstr("Location: /v1/sandboxes/" + id));
  EXPECT_THAT(ask("GET /v1/sandboxes").body, HasSubstr(id));
  EXPECT_EQ(ask("GET /v1/sandboxes/" + id).status, 200);
  EXPECT_EQ(ask("GET /v1/sandboxes/" + id, "", "other").status, 404);
  EXPECT_THAT(ask("GET /v1/sandboxes", "", "other").body, Not(HasSubstr(id)));
  EXPECT_EQ(ask("DELETE /v1/sandboxes/" + id).status, 204);
  EXPECT_EQ(ask("DELETE /v1/sandboxes/" + id).status, 404);
}

TEST_F(FaceTest, RefusesABodyThatIsTooLargeBeforeItHasCome) {
  const auto answer = send(
      "POST /v1/sandboxes HTTP/1.1\r\nHost: h\r\nConnection: close\r\nAuthorization: Bearer good\r\n"
      "Content-Length: 99999999999\r\n\r\n{");
  EXPECT_EQ(answer.status, 413);
  EXPECT_FALSE(error_of(answer).empty());
}

TEST_F(FaceTest, StreamsWhatACommandDoes) {
  service_->events = {service::Output{service::OutputStream::kStdout, "hello\n"}};
  service_->exit_code = 7;
  const auto answer = ask("POST /v1/sandboxes/" + std::string(kUnknown) + "/exec",
                          R"({"code":"x","language":"bash","timeout_seconds":9})");
  EXPECT_EQ(answer.status, 200);
  EXPECT_THAT(answer.head, HasSubstr("application/x-ndjson"));
  EXPECT_THAT(answer.body, HasSubstr(R"("type":"stdout","data":"hello\n","seq":0)"));
  EXPECT_THAT(answer.body, HasSubstr(R"("type":"exit","data":7)"));
  EXPECT_THAT(answer.body, HasSubstr("\r\n0\r\n\r\n"));
  EXPECT_EQ(service_->bash.command, "x");
  EXPECT_EQ(service_->bash.timeout_seconds, 9);
}

TEST_F(FaceTest, AnswersARefusedCallWithItsStatus) {
  const std::vector<std::pair<ErrorKind, int>> statuses{
      {ErrorKind::kInvalid, 400},  {ErrorKind::kForbidden, 403},   {ErrorKind::kNotFound, 404},
      {ErrorKind::kConflict, 409}, {ErrorKind::kNoSpace, 409},     {ErrorKind::kTooLarge, 413},
      {ErrorKind::kLimited, 429},  {ErrorKind::kUnavailable, 503}, {ErrorKind::kTimeout, 503},
  };
  for (const auto& [kind, status] : statuses) {
    service_->run_error = Error(kind, "because");
    const auto answer = ask("POST /v1/sandboxes/x/exec", R"({"code":"x","language":"bash"})");
    EXPECT_EQ(answer.status, status);
    EXPECT_THAT(error_of(answer), StartsWith("because"));
  }
}

TEST_F(FaceTest, SaysWhatToDoAboutAFullDisk) {
  service_->run_error = Error(ErrorKind::kNoSpace, "because");
  const auto answer = ask("POST /v1/sandboxes/x/exec", R"({"code":"x","language":"bash"})");
  EXPECT_EQ(error_of(answer), "because: the sandbox's disk is full; delete something in it and try again");
}

TEST_F(FaceTest, TellsOfItsOwnFailureByAnIdAlone) {
  service_->run_error = Error(ErrorKind::kInternal, "secret path /x");
  const auto answer = ask("POST /v1/sandboxes/x/exec", R"({"code":"x","language":"bash"})");
  EXPECT_EQ(answer.status, 500);
  EXPECT_THAT(error_of(answer), HasSubstr("internal error "));
  EXPECT_THAT(answer.body, Not(HasSubstr("secret")));
}

TEST_F(FaceTest, CancelsTheCallOfAClientThatIsGone) {
  service_->hangs = true;
  service_->events = {service::Output{service::OutputStream::kStdout, "first"}};
  {
    http::Peer peer(server_.port());
    peer.say(text("POST /v1/sandboxes/x/exec", R"({"code":"x"})"));
    peer.hear_until("first");
  }
  const auto cancelled = [this] {
    return server_.run([](std::shared_ptr<Service> service) -> Task<bool> {
      co_return service->last != nullptr && service->last->was_cancelled();
    }(service_));
  };
  bool seen = false;
  for (int i = 0; i < 200 && !seen; ++i) {
    seen = cancelled();
    if (!seen) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_TRUE(seen);
}

TEST_F(FaceTest, MovesFilesAsRawBytes) {
  const std::string bytes("\0\xff raw", 6);
  const auto put = ask("PUT /v1/sandboxes/x/files?path=%2Froot%2Fa%20b%FF", bytes);
  ASSERT_EQ(put.status, 200) << put.body;
  EXPECT_EQ(json::parse(put.body).at("size"), 6);
  EXPECT_TRUE(json::parse(put.body).as_object().contains("path_base64"));
  EXPECT_EQ(service_->files.at("/root/a b\xff"), bytes);
  const auto got = ask("GET /v1/sandboxes/x/files?path=/root/a%20b%FF");
  EXPECT_EQ(got.body, bytes);
  EXPECT_THAT(got.head, HasSubstr("Content-Length: 6"));
  const auto head = ask("HEAD /v1/sandboxes/x/files?path=/root/a%20b%FF");
  EXPECT_EQ(head.status, 200);
  EXPECT_THAT(head.head, HasSubstr("Content-Length: 6"));
  EXPECT_EQ(head.body, "");
  EXPECT_EQ(ask("GET /v1/sandboxes/x/files?path=/none").status, 404);
  EXPECT_THAT(error_of(ask("GET /v1/sandboxes/x/files")), HasSubstr("path is missing"));
  EXPECT_EQ(ask("GET /v1/sandboxes/x/files?path=/a&part=2").status, 400);
  EXPECT_EQ(ask("DELETE /v1/sandboxes/x/files?path=/a").status, 204);
}

TEST_F(FaceTest, ListsAFolderWithNamesThatAreNoText) {
  service_->listing.entries.resize(2);
  service_->listing.entries[0].name = "n\xff";
  service_->listing.entries[0].type = "file";
  service_->listing.entries[1].name = "ok";
  service_->listing.entries[1].type = "directory";
  const auto answer = ask("GET /v1/sandboxes/x/list?path=/root");
  EXPECT_EQ(answer.status, 200);
  EXPECT_THAT(answer.body, HasSubstr("\"name_base64\":\"bv8=\""));
  EXPECT_THAT(answer.body, HasSubstr("\"name\":\"ok\""));
}

TEST_F(FaceTest, ForksASandbox) {
  const auto id = make();
  service_->not_copied = {{"threads", 2}};
  const auto one = ask("POST /v1/sandboxes/" + id + "/fork");
  ASSERT_EQ(one.status, 200) << one.body;
  EXPECT_EQ(service_->forked.children, 1);
  EXPECT_FALSE(service_->forked.keep_random);
  const auto object = json::parse(one.body).as_object();
  ASSERT_EQ(object.at("children").as_array().size(), 1U);
  EXPECT_EQ(ask("GET /v1/sandboxes/" + std::string(object.at("children").at(0).as_string())).status, 200);
  EXPECT_EQ(object.at("fork_copies"), "runner");
  EXPECT_EQ(object.at("not_copied"), (json::object{{"threads", 2}}));

  const auto five = ask("POST /v1/sandboxes/" + id + "/fork", R"({"n":5,"keep_random":true})");
  EXPECT_EQ(json::parse(five.body).at("children").as_array().size(), 5U);
  EXPECT_TRUE(service_->forked.keep_random);
  EXPECT_EQ(ask("POST /v1/sandboxes/" + std::string(kUnknown) + "/fork").status, 404);
  EXPECT_EQ(ask("POST /v1/sandboxes/" + id + "/fork", "", "other").status, 404);
  for (const auto* body : {R"({"n":0})", R"({"n":33})", R"({"n":"x"})", R"({"n":1.5})",
                           R"({"keep_random":1})", R"({"m":1})", "[]"}) {
    const auto refused = ask("POST /v1/sandboxes/" + id + "/fork", body);
    EXPECT_EQ(refused.status, 400) << body;
    EXPECT_FALSE(error_of(refused).empty());
  }
}

TEST_F(FaceTest, GivesUpTheForkOfAClientThatIsGone) {
  const auto id = make();
  service_->forks_wait = true;
  const auto count = [this](std::size_t Service::*which) {
    return server_.run([](std::shared_ptr<Service> service, std::size_t Service::*of) -> Task<std::size_t> {
      co_return (*service).*of;
    }(service_, which));
  };
  const auto comes_to_be = [&](std::size_t Service::*which) {
    for (int i = 0; i < 500 && count(which) == 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return count(which);
  };
  {
    http::Peer peer(server_.port());
    peer.say(text("POST /v1/sandboxes/" + id + "/fork", "{}"));
    ASSERT_EQ(comes_to_be(&Service::forks_waiting), 1U);
    EXPECT_EQ(count(&Service::forks_withdrawn), 0U);
  }
  EXPECT_EQ(comes_to_be(&Service::forks_withdrawn), 1U);
}

TEST_F(FaceTest, MergesOneSandboxIntoAnother) {
  const auto parent = make();
  const auto winner = make();
  const auto line = "POST /v1/sandboxes/" + parent + "/merge_into/" + winner;
  for (const auto* body : {R"({"mode":"half"})", R"({"on_conflict":"both"})", R"({"winner":"x"})"})
    EXPECT_EQ(ask(line, body).status, 400) << body;
  service_->merge_error = Error(ErrorKind::kConflict, "because");
  EXPECT_EQ(ask(line).status, 409);
  service_->merge_error.reset();
  const auto merged = ask(line);
  EXPECT_EQ(merged.status, 204);
  EXPECT_EQ(merged.body, "");
  EXPECT_EQ(service_->merged.winner, winner);
  EXPECT_FALSE(service_->merged.mode);
  EXPECT_EQ(ask("POST /v1/sandboxes/" + std::string(kUnknown) + "/merge_into/" + parent).status, 404);
  service_->report.emplace();
  service_->report->counts.modified = 3;
  service_->report->modified = {"/root/a", "/root/\xff"};
  const auto files = ask(line, R"({"mode":"files","on_conflict":"ours"})");
  EXPECT_EQ(files.status, 200);
  const auto report = json::parse(files.body);
  EXPECT_EQ(report.at("applied"), json::value(true));
  EXPECT_EQ(report.at("counts").at("modified"), json::value(3));
  EXPECT_EQ(report.at("modified").at(0).at("path"), json::value("/root/a"));
  EXPECT_TRUE(report.at("modified").at(1).as_object().contains("path_base64"));
  EXPECT_EQ(service_->merged.mode, "files");
  EXPECT_EQ(service_->merged.on_conflict, "ours");
  service_->report->applies = false;
  service_->report->counts.conflicts = 1;
  service_->report->conflicts = {{.path = "/root/c", .reason = "both changed it", .resolved = std::nullopt}};
  const auto refused = ask(line, R"({"mode":"files"})");
  EXPECT_EQ(refused.status, 409);
  EXPECT_NE(refused.body.find("/root/c (both changed it)"), std::string::npos) << refused.body;
  EXPECT_EQ(json::parse(refused.body).at("report").at("applied"), json::value(false));
}

TEST_F(FaceTest, TellsWhatDiffers) {
  const auto parent = make();
  const auto child = make();
  const std::string line = "GET /v1/sandboxes/" + parent + "/diff/" + child;
  changes::DiffEntry added;
  added.path = "/root/new";
  added.after.emplace().size = 7;
  changes::DiffEntry changed;
  changed.path = "/root/old";
  changed.before.emplace().size = 1;
  changed.after.emplace().size = 2;
  changed.text = "-a\n+bc\n";
  service_->difference.entries = {added, changed};
  const auto answer = ask(line + "?paths=/root&paths=work&text=true");
  EXPECT_EQ(answer.status, 200);
  const auto told = json::parse(answer.body);
  EXPECT_EQ(told.at("added").at(0).at("size"), json::value(7));
  EXPECT_EQ(told.at("modified").at(0).at("before").at("size"), json::value(1));
  EXPECT_EQ(told.at("modified").at(0).at("text"), json::value("-a\n+bc\n"));
  EXPECT_EQ(told.at("removed").as_array().size(), 0U);
  EXPECT_EQ(service_->diffed.other, child);
  EXPECT_EQ(service_->diffed.paths, (std::vector<std::string>{"/root", "work"}));
  EXPECT_TRUE(service_->diffed.with_text);
  EXPECT_EQ(ask(line + "?text=maybe").status, 400);
  EXPECT_EQ(ask(line + "?depth=3").status, 400);
  EXPECT_EQ(ask("GET /v1/sandboxes/" + std::string(kUnknown) + "/diff/" + child).status, 404);
}

TEST_F(FaceTest, GivesPortsUrlsAndTellsThemOnce) {
  const std::string ports = "/v1/sandboxes/" + make() + "/ports";
  const auto open = ask("POST " + ports, R"({"port":8080})");
  ASSERT_EQ(open.status, 201) << open.body;
  const auto told = json::parse(open.body).as_object();
  EXPECT_EQ(told.at("url"), json::value("http://127.0.0.1/p/" + std::string(32, 'a') + "/"));
  EXPECT_EQ(told.at("visibility"), json::value("public"));
  EXPECT_FALSE(told.contains("token"));
  EXPECT_THAT(open.head, HasSubstr("Cache-Control: no-store"));
  const auto closed = ask("POST " + ports, R"({"port":81,"visibility":"private"})");
  EXPECT_EQ(json::parse(closed.body).at("token"), json::value("wpt_secret"));
  const auto list = ask("GET " + ports).body;
  EXPECT_EQ(json::parse(list).at("ports").as_array().size(), 2U);
  EXPECT_EQ(list.find("url"), std::string::npos);
  for (const auto* body : {"{}", "", R"({"port":0})", R"({"port":65536})", R"({"port":1,"visibility":"some"})"})
    EXPECT_EQ(ask("POST " + ports, body).status, 400) << body;
  EXPECT_EQ(ask("DELETE " + ports + "/x").status, 400);
  EXPECT_EQ(ask("DELETE " + ports + "/8080").status, 204);
  EXPECT_EQ(ask("DELETE " + ports + "/8080").status, 404);
}

TEST_F(FaceTest, ChangesAndExplainsWhatASandboxReaches) {
  service_->why_no_network.clear();
  const auto made = json::parse(ask("POST /v1/sandboxes", R"({"egress":["203.0.113.7"]})").body).as_object();
  EXPECT_EQ(made.at("egress"), json::value(json::array{"203.0.113.7"}));
  EXPECT_FALSE(made.contains("notes"));
  const std::string path = "/v1/sandboxes/" + std::string(made.at("id").as_string());
  const auto changed = ask("PUT " + path + "/egress", R"({"egress":"none"})");
  EXPECT_EQ(changed.status, 200);
  EXPECT_EQ(json::parse(changed.body).at("egress"), "none");
  EXPECT_EQ(ask("PUT " + path + "/egress", "{}").status, 400);
  EXPECT_EQ(ask("PUT /v1/sandboxes/sbx_none/egress", R"({"egress":"none"})").status, 404);
  service_->explanation = {.policy = runtime::EgressPolicy::none(),
                      .refused = {0, 2, 0, 0, 0},
                      .latest = {{.reason = runtime::RefusalReason::kNever,
                                  .address = *IpAddress::parse("169.254.169.254"),
                                  .protocol = 6,
                                  .port = 80,
                                  .times = 2,
                                  .last = {}}}};
  const auto said = json::parse(ask("GET " + path + "/explain").body);
  EXPECT_EQ(said.at("refused").at("never"), 2);
  const auto& latest = said.at("latest").at(0);
  EXPECT_EQ(latest.at("address"), "169.254.169.254");
  EXPECT_EQ(latest.at("protocol"), "tcp");
  EXPECT_EQ(latest.at("port"), 80);
  service_->why_no_network = "none here";
  EXPECT_EQ(ask("PUT " + path + "/egress", R"({"egress":"open"})").status, 503);
}

TEST_F(FaceTest, SaysWhatItDoesNotOffer) {
  EXPECT_THAT(error_of(ask("GET /v1/nonsense")), HasSubstr("no such route"));
  const auto wrong_method = ask("PATCH /v1/sandboxes");
  EXPECT_EQ(wrong_method.status, 405);
  EXPECT_THAT(wrong_method.head, HasSubstr("Allow: "));
}

}  // namespace
}  // namespace warren::api::podflare
