// SPDX-License-Identifier: Apache-2.0
// The suite of sdk/author/testing for transports, over each that was built. Covers H3, H8, I6.
//
// It takes half a minute: what a peer does that says nothing, or is gone, is found out by waiting, over each of three.
#include "tests/transport/suite.h"

namespace tenon::transport_testing {
namespace {

const bool kRegistered = [] {
  static const std::vector<std::string> names = BuiltTransports();
  for (const std::string& name : names) {
    RegisterSuite<TransportSubject>("Transports/" + name, TransportCases(), [&name] { return Built(name); });
  }
  return true;
}();

}  // namespace
}  // namespace tenon::transport_testing
