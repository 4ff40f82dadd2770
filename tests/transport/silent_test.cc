// SPDX-License-Identifier: Apache-2.0
// Those who connect to a listener and say nothing, or half of what they must.
#ifdef TENON_TEST_HAS_shm
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "net/shm/handshake.h"
#include "tests/transport/tested.h"

namespace tenon::transport_testing {
namespace {

shm::File Reach(const std::string& path) {
  shm::File socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  EXPECT_EQ(connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0)
      << std::strerror(errno);
  return socket;
}

// More than may be greeted at once, each of which would be waited for.
TEST(SilentGuests, KeepNobodyElseWaiting) {
  const BuiltTransport transport("shm");
  const std::string name = "silent_test_" + std::to_string(getpid());
  Endpoint server(transport, "shm://" + name);
  ASSERT_EQ(server.open_status, "");
  std::string path;
  ASSERT_EQ(shm::PathOf(name, &path), nullptr);
  std::vector<shm::File> silent;
  for (int i = 0; i < 200; ++i) {
    silent.push_back(Reach(path));
    if (i % 2 == 0) {
      EXPECT_EQ(send(silent.back().get(), "half", 4, MSG_NOSIGNAL), 4);
    }
  }
  Endpoint client(transport);
  Peer peer(client, server.address());
  EXPECT_EQ(peer.Call("echo", "heard").response, "heard");
}

}  // namespace
}  // namespace tenon::transport_testing
#endif  // TENON_TEST_HAS_shm
