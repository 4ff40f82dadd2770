// SPDX-License-Identifier: Apache-2.0
// A server, a client and a connection between them, for each transport that was built.
#ifndef TENON_TESTS_TRANSPORT_SUITE_H_
#define TENON_TESTS_TRANSPORT_SUITE_H_

#include <algorithm>
#include <cstdlib>

#include "tests/transport/testing.h"

namespace tenon::transport_testing {

inline std::vector<std::string> BuiltTransports() {
  return {
#ifdef TENON_TEST_HAS_loopback
      "loopback",
#endif
#ifdef TENON_TEST_HAS_shm
      "shm",
#endif
#ifdef TENON_TEST_HAS_grpc
      "grpc",
#endif
  };
}

class Suite : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    statuses_ = living_statuses;
    transport_ = std::make_unique<Transport>(GetParam());
    server_ = std::make_unique<Endpoint>(*transport_, transport_->Address());
    client_ = std::make_unique<Endpoint>(*transport_);
    ASSERT_EQ(server_->open_status + client_->open_status, "");
    peer_ = std::make_unique<Peer>(*client_, server_->address());
    ASSERT_EQ(peer_->status, "");
  }
  void TearDown() override {
    peer_ = nullptr;
    client_ = nullptr;
    server_ = nullptr;
    EXPECT_EQ(living_statuses, statuses_) << "statuses were not released";
  }
  const Transport& transport() { return *transport_; }
  Endpoint& server() { return *server_; }
  Endpoint& client() { return *client_; }
  Peer& peer() { return *peer_; }

  // TENON_TRANSPORT_LARGEST=1073741824 for the largest.
  static uint64_t LargestMessage() {
    const char* given = std::getenv("TENON_TRANSPORT_LARGEST");
    return given == nullptr ? uint64_t{1} << 26 : std::strtoull(given, nullptr, 10);
  }

 private:
  int statuses_ = 0;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Endpoint> server_, client_;
  std::unique_ptr<Peer> peer_;
};

#define TENON_TRANSPORT_SUITE(suite) \
  INSTANTIATE_TEST_SUITE_P(All, suite, testing::ValuesIn(BuiltTransports()), [](const auto& info) { return info.param; })

}  // namespace tenon::transport_testing

#endif  // TENON_TESTS_TRANSPORT_SUITE_H_
