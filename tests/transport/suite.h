// SPDX-License-Identifier: Apache-2.0
// A server, a client and a connection between them, for each transport that was built.
#ifndef TENON_TESTS_TRANSPORT_SUITE_H_
#define TENON_TESTS_TRANSPORT_SUITE_H_

#include <memory>
#include <string>
#include <vector>

#include "tests/transport/tested.h"

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

class Suite : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    meeting_ = std::make_unique<Meeting>(Built(GetParam()));
    ASSERT_TRUE(meeting_->met());
  }
  const Transport& transport() { return meeting_->transport(); }
  Endpoint& server() { return meeting_->server(); }
  Endpoint& client() { return meeting_->client(); }
  Peer& peer() { return meeting_->peer(); }

 private:
  std::unique_ptr<Meeting> meeting_;
};

#define TENON_TRANSPORT_SUITE(suite)                                           \
  INSTANTIATE_TEST_SUITE_P(All, suite, ::testing::ValuesIn(BuiltTransports()), \
                           [](const auto& info) { return info.param; })

}  // namespace tenon::transport_testing

#endif  // TENON_TESTS_TRANSPORT_SUITE_H_
