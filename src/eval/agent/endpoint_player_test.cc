#include "eval/agent/endpoint_player.h"

#include <gtest/gtest.h>
#include <httplib.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

namespace kvasir::eval::agent {
namespace {

using nlohmann::json;

constexpr const char* kPath = "/v1/chat/completions";

/// An endpoint on loopback that answers as a test says.
class LoopbackServer {
 public:
  explicit LoopbackServer(httplib::Server::Handler handler, const char* path = kPath) {
    server_.Post(path, [this, handler](const httplib::Request& request, httplib::Response& reply) {
      ++requests;
      handler(request, reply);
    });
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ~LoopbackServer() {
    server_.stop();
    thread_.join();
  }
  LoopbackServer(const LoopbackServer&) = delete;
  LoopbackServer& operator=(const LoopbackServer&) = delete;

  std::string address() const { return "http://127.0.0.1:" + std::to_string(port_); }

  std::atomic<int> requests{0};

 private:
  httplib::Server server_;
  int port_ = 0;
  std::thread thread_;
};

httplib::Server::Handler says(int status, std::string body) {
  return [=](const httplib::Request&, httplib::Response& reply) {
    reply.status = status;
    reply.set_content(body, "application/json");
  };
}

EndpointOptions options_for(const LoopbackServer& server) {
  EndpointOptions options;
  options.address = server.address();
  options.model = "tiny";
  options.timeout_seconds = 10;
  options.retry_wait_seconds = 0.01;
  return options;
}

Result<std::string> ask(const EndpointOptions& options) {
  auto player = EndpointPlayer::make(options);
  if (!player) return Error{player.error()};
  const std::vector<Message> transcript = {{Role::kSystem, "rules"}, {Role::kUser, "page \xFF"}};
  return player.value()->act(transcript);
}

const std::string kGood = R"({"choices":[{"message":{"role":"assistant","content":"click[3]"}}]})";

TEST(Endpoint, SendsTheTranscriptAndReadsTheReply) {
  json body;
  std::string key;
  const LoopbackServer server([&](const httplib::Request& request, httplib::Response& reply) {
    body = json::parse(request.body);
    key = request.get_header_value("Authorization");
    reply.set_content(kGood, "application/json");
  });
  setenv("KVASIR_TEST_KEY", "secret-7", 1);
  EndpointOptions options = options_for(server);
  options.key_variable = "KVASIR_TEST_KEY";
  const auto reply = ask(options);
  ASSERT_TRUE(reply) << reply.error();
  EXPECT_EQ(reply.value(), "click[3]");
  EXPECT_EQ(key, "Bearer secret-7");
  EXPECT_EQ(body["model"], "tiny");
  EXPECT_EQ(body["temperature"], 0);
  EXPECT_EQ(body["max_tokens"], 256);
  ASSERT_EQ(body["messages"].size(), 2U);
  EXPECT_EQ(body["messages"][0], json({{"role", "system"}, {"content", "rules"}}));
  EXPECT_EQ(body["messages"][1]["role"], "user");
}

TEST(Endpoint, PathMayBeGiven) {
  const LoopbackServer server(says(200, kGood), "/deep/v1/chat/completions");
  for (const std::string path : {"/deep/v1", "/deep/v1/", "/deep/v1/chat/completions"}) {
    EndpointOptions options = options_for(server);
    options.address += path;
    const auto reply = ask(options);
    EXPECT_TRUE(reply) << path << ": " << reply.error();
  }
}

TEST(Endpoint, RefusalIsOneLineWithTheAddressAndIsNotRetried) {
  setenv("KVASIR_TEST_KEY", "secret-7", 1);
  const LoopbackServer server(says(401, R"({"error":{"message":"wrong\nkey"}})"));
  EndpointOptions options = options_for(server);
  options.key_variable = "KVASIR_TEST_KEY";
  const auto reply = ask(options);
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error(), "the endpoint " + server.address() + kPath + ": status 401: wrong?key");
  EXPECT_EQ(reply.error().find("secret-7"), std::string::npos);
  EXPECT_EQ(server.requests, 1);
}

TEST(Endpoint, BusyIsRetried) {
  std::atomic<int> left{2};
  const LoopbackServer server([&](const httplib::Request& request, httplib::Response& reply) {
    says(left-- > 0 ? 503 : 200, kGood)(request, reply);
  });
  const auto reply = ask(options_for(server));
  ASSERT_TRUE(reply) << reply.error();
  EXPECT_EQ(server.requests, 3);
  const LoopbackServer busy(says(429, "slow down"));
  EXPECT_NE(ask(options_for(busy)).error().find("status 429: slow down (after 3 tries)"),
            std::string::npos);
  EXPECT_EQ(busy.requests, 3);
}

TEST(Endpoint, WrongShapesAreNamed) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"<html>", "the body is no JSON: '<html>'"},
      {"", "the body is no JSON: ''"},
      {"[]", "lacks the array choices"},
      {R"({"choices":{}})", "lacks the array choices"},
      {R"({"choices":[]})", "the body's array choices is empty"},
      {R"({"choices":[1]})", "lacks the object choices[0].message"},
      {R"({"choices":[{"message":"x"}]})", "lacks the object choices[0].message"},
      {R"({"choices":[{"message":{"content":null}}]})",
       "lacks the string choices[0].message.content"}};
  for (const auto& [body, error] : cases) {
    const LoopbackServer server(says(200, body));
    const auto reply = ask(options_for(server));
    ASSERT_FALSE(reply) << body;
    EXPECT_NE(reply.error().find(error), std::string::npos) << reply.error();
    EXPECT_NE(reply.error().find(server.address()), std::string::npos);
    EXPECT_EQ(reply.error().find('\n'), std::string::npos);
  }
}

TEST(Endpoint, SlowServerTimesOut) {
  const LoopbackServer server([](const httplib::Request& request, httplib::Response& reply) {
    std::this_thread::sleep_for(std::chrono::milliseconds(800));
    says(200, kGood)(request, reply);
  });
  EndpointOptions options = options_for(server);
  options.timeout_seconds = 0.2;
  options.retries = 0;
  const auto start = std::chrono::steady_clock::now();
  const auto reply = ask(options);
  const auto taken = std::chrono::steady_clock::now() - start;
  ASSERT_FALSE(reply);
  EXPECT_NE(reply.error().find("no answer within 200 ms"), std::string::npos) << reply.error();
  EXPECT_LT(taken, std::chrono::milliseconds(700));
}

// Each read comes in time, all of them together do not.
TEST(Endpoint, TricklingServerTimesOut) {
  const LoopbackServer server([](const httplib::Request&, httplib::Response& reply) {
    reply.set_chunked_content_provider("application/json", [](size_t at, httplib::DataSink& sink) {
      std::this_thread::sleep_for(std::chrono::milliseconds(60));
      if (at > 20) {
        sink.done();
        return true;
      }
      return sink.write("  ", 2);
    });
  });
  EndpointOptions options = options_for(server);
  options.timeout_seconds = 0.25;
  options.retries = 0;
  const auto reply = ask(options);
  ASSERT_FALSE(reply);
  EXPECT_NE(reply.error().find("no answer within 250 ms"), std::string::npos) << reply.error();
}

TEST(Endpoint, LongBodyIsRefused) {
  const LoopbackServer server(says(200, kGood + std::string(100'000, ' ')));
  EndpointOptions options = options_for(server);
  options.max_body_bytes = 10'000;
  const auto reply = ask(options);
  ASSERT_FALSE(reply);
  EXPECT_NE(reply.error().find("the body is longer than 10000 bytes"), std::string::npos)
      << reply.error();
  EXPECT_EQ(server.requests, 1);
  options.max_body_bytes = 200'000;
  EXPECT_TRUE(ask(options));
}

TEST(Endpoint, NobodyThereIsNamed) {
  EndpointOptions options;
  {
    const LoopbackServer gone(says(200, kGood));
    options = options_for(gone);
  }
  const auto reply = ask(options);
  ASSERT_FALSE(reply);
  EXPECT_NE(reply.error().find(options.address), std::string::npos) << reply.error();
  EXPECT_NE(reply.error().find("(after 3 tries)"), std::string::npos) << reply.error();
}

TEST(Endpoint, OptionsAreChecked) {
  EndpointOptions options;
  options.model = "tiny";
  for (const std::string address :
       {"", "localhost:80", "ftp://host", "http://", "http:///v1", "http://a b", "http://k@host",
        "http://host:99999999999", "http://host:65536", "http://host:", "http://host:x/v1"}) {
    options.address = address;
    const auto player = EndpointPlayer::make(options);
    ASSERT_FALSE(player) << address;
    EXPECT_NE(player.error().find("'" + address + "': expected http://HOST"), std::string::npos);
  }
  for (const std::string address : {"http://[::1]:8080", "http://[::1]/v1", "http://host:80"}) {
    options.address = address;
    EXPECT_TRUE(EndpointPlayer::make(options)) << address;
  }
  options.address = "https://host/v1";
  EXPECT_TRUE(EndpointPlayer::make(options)) << "https is there with OpenSSL";
  options.key_variable = "KVASIR_TEST_NO_SUCH_KEY";
  EXPECT_NE(EndpointPlayer::make(options).error().find("KVASIR_TEST_NO_SUCH_KEY"),
            std::string::npos);
  options.key_variable.clear();
  options.timeout_seconds = 0;
  EXPECT_NE(EndpointPlayer::make(options).error().find("timeout"), std::string::npos);
  options.timeout_seconds = 1;
  options.retries = -1;
  EXPECT_NE(EndpointPlayer::make(options).error().find("-1 retries"), std::string::npos);
  options.retries = 0;
  options.model.clear();
  EXPECT_NE(EndpointPlayer::make(options).error().find("model"), std::string::npos);
}

}  // namespace
}  // namespace kvasir::eval::agent
