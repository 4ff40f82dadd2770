// SPDX-License-Identifier: Apache-2.0
#include "net/cluster/network.h"

#include <gtest/gtest.h>

#include "net/cluster/secret.h"

namespace tenon::cluster::network_test {
namespace {

// A transport whose endpoint does nothing but hand out its events.
struct Silent {
  static inline const tenon_endpoint_events* events = nullptr;
  static inline Code answered = Code::kOk;
  static inline int answers = 0;
  tenon_transport table = {};
  Silent() {
    table.scheme = TENON_SPAN("silent");
    table.open = [](tenon_plugin_self*, const tenon_endpoint_options*, const tenon_endpoint_events* given,
                    tenon_endpoint**) -> tenon_status* {
      events = given;
      return nullptr;
    };
    table.address = [](const tenon_endpoint*) { return tenon_span TENON_SPAN("silent://"); };
    table.respond = [](tenon_reply*, tenon_status* status, const tenon_span*, uint64_t, void (*)(void*), void*) {
      answered = Status(status).code();
      ++answers;
    };
    table.stop = [](tenon_endpoint*) {};
  }
};

// Of a worker whose memory is short each handler may throw: calls are answered, and the process goes on.
TEST(Network, HandlersThatThrowEndNothing) {
  const Silent silent;
  Handlers handlers;
  handlers.call = [](tenon_peer*, const tenon_incoming&, Reply) { throw std::bad_alloc(); };
  handlers.place = [](tenon_peer*, tenon_span, tenon_span, uint64_t, tenon_bytes*, void**) -> Status {
    throw std::bad_alloc();
  };
  handlers.placed = [](void*, Status) { throw std::bad_alloc(); };
  handlers.cancelled = [](tenon_reply*) { throw std::bad_alloc(); };
  handlers.lost = [](tenon_peer*) { throw std::bad_alloc(); };
  Network network(
      [&](const std::string&) -> Result<session::Runtime::Transport> {
        return session::Runtime::Transport{&silent.table, nullptr};
      },
      std::move(handlers), "");
  ASSERT_TRUE(network.Listen("silent://").ok());
  const tenon_endpoint_events& events = *Silent::events;
  const tenon_incoming call = {TENON_HEAD(tenon_incoming), TENON_SPAN("run"), {}, nullptr, 0, 0};
  auto* const peer = reinterpret_cast<tenon_peer*>(1);
  events.connected(events.argument, peer);
  events.call(events.argument, peer, &call, nullptr);
  EXPECT_EQ(Silent::answers, 1);
  EXPECT_EQ(Silent::answered, Code::kResourceExhausted);
  tenon_bytes memory = {};
  void* token = nullptr;
  EXPECT_EQ(Status(events.place(events.argument, peer, {}, {}, 0, &memory, &token)).code(), Code::kResourceExhausted);
  events.placed(events.argument, peer, nullptr, nullptr);
  events.cancelled(events.argument, nullptr);
  events.lost(events.argument, peer, nullptr);
}

TEST(Owner, HasASecretThatOthersDoNotKnow) {
  const Owner first = Owner::Of("training"), again = Owner::Of("training"), other = Owner::Of("other");
  EXPECT_EQ(first.name, "training");
  EXPECT_GE(first.secret.size(), 32u);
  EXPECT_EQ(first.secret, again.secret);
  EXPECT_NE(first.secret, other.secret);
  const Owner kept = Owner::Of("training\nkept");
  EXPECT_EQ(kept.name, "training");
  EXPECT_EQ(kept.secret, "kept");
  EXPECT_EQ(Owner::Of("").secret, "");
  EXPECT_TRUE(SameSecret("abc", "abc"));
  EXPECT_TRUE(SameSecret("", ""));
  for (const char* wrong : {"", "a", "abd", "abcabc"}) {
    EXPECT_FALSE(SameSecret("abc", wrong));
    EXPECT_FALSE(SameSecret(wrong, "abc"));
  }
}

}  // namespace
}  // namespace tenon::cluster::network_test
