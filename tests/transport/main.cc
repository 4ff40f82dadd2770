// SPDX-License-Identifier: Apache-2.0
// The tests, or (--serve TRANSPORT ADDRESS) the other process of some: a server that says where it listens and ends
// with its input.
#include <cstdio>

#include "tests/transport/tested.h"

namespace {

int Serve(const std::string& name, const std::string& address) {
  const tenon::transport_testing::BuiltTransport transport(name);
  tenon::transport_testing::Endpoint server(transport, address);
  if (!server.open_status.empty()) return 1;
  std::printf("%s\n", server.address().c_str());
  std::fflush(stdout);
  char byte = 0;
  while (read(0, &byte, 1) > 0) continue;
  while (!server.held.Empty()) server.Respond(server.held.Take(), "the end");
  while (!server.streams.Empty()) server.streams.Take()->Close();
  server.Stop();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 4 && std::string(argv[1]) == "--serve") return Serve(argv[2], argv[3]);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
