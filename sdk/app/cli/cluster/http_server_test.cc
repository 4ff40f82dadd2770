// SPDX-License-Identifier: Apache-2.0
// The server of metrics: what it answers, and to whom while others ask half.
#include "sdk/app/cli/cluster/http_server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <vector>

#include "tests/cluster/scrape.h"

namespace tenon::cli::http_server_test {
namespace {

using engine::Telephone;

constexpr char kRequest[] = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";

std::unique_ptr<HttpServer> Serve(std::chrono::milliseconds patience = std::chrono::hours(1)) {
  HttpOptions options;
  options.path = "/metrics";
  options.patience = patience;
  auto server = HttpServer::Start("127.0.0.1", 0, options, [] { return std::string("tenon_one 1\n"); });
  EXPECT_TRUE(server.ok()) << server.status();
  return server.ok() ? *std::move(server) : nullptr;
}
std::string Ask(const HttpServer& server, const std::string& request) {
  const Telephone telephone(server.port());
  return telephone.Say(request) ? telephone.Hear() : "nobody is there";
}

TEST(HttpServer, AnswersItsPathAlone) {
  const auto server = Serve();
  ASSERT_NE(server, nullptr);
  const std::string answer = Ask(*server, kRequest);
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK")) << answer;
  EXPECT_TRUE(answer.ends_with("tenon_one 1\n")) << answer;
  EXPECT_TRUE(Ask(*server, "GET /metrics?a=b HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));
  EXPECT_TRUE(Ask(*server, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
  EXPECT_TRUE(Ask(*server, "DELETE /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
  const std::string head = Ask(*server, "HEAD /metrics HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(head.starts_with("HTTP/1.1 200")) << head;
  EXPECT_TRUE(head.ends_with("\r\n\r\n")) << head;
  EXPECT_EQ(Ask(*server, "nonsense\r\n\r\n"), "");
  EXPECT_EQ(Ask(*server, "GET /metrics HTTP/1.1\r\nLong: " + std::string(100'000, 'x') + "\r\n\r\n"), "");
}

// They would be waited for as long as anybody likes: an answer comes all the same.
TEST(HttpServer, HalfRequestsKeepNobodyWaiting) {
  const auto server = Serve();
  ASSERT_NE(server, nullptr);
  std::vector<std::unique_ptr<Telephone>> half;
  for (int i = 0; i < 200; ++i) {
    half.push_back(std::make_unique<Telephone>(server->port()));
    if (i % 2 == 0) half.back()->Say("GET /metrics HTTP/1.1\r\nHo");
  }
  for (int i = 0; i < 10; ++i) {
    const std::string answer = Ask(*server, kRequest);
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK")) << answer;
  }
  EXPECT_EQ(half[0]->Hear(), "") << "the oldest was ended";
}

TEST(HttpServer, AHalfRequestEndsWithItsTime) {
  const auto server = Serve(std::chrono::milliseconds(1));
  ASSERT_NE(server, nullptr);
  const Telephone half(server->port());
  half.Say("GET /metr");
  EXPECT_EQ(half.Hear(), "");
}

TEST(HttpServer, EndsWithOpenConnections) {
  auto server = Serve();
  ASSERT_NE(server, nullptr);
  const Telephone half(server->port());
  half.Say("GET /metr");
  server.reset();
  EXPECT_EQ(half.Hear(), "");
}

}  // namespace
}  // namespace tenon::cli::http_server_test
