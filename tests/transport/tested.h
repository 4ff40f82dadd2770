// SPDX-License-Identifier: Apache-2.0
// The transports that were built, driven as tenon/testing/transport.h says.
#ifndef TENON_TESTS_TRANSPORT_TESTED_H_
#define TENON_TESTS_TRANSPORT_TESTED_H_

#include <map>
#include <string>
#include <vector>

#include "tenon/testing/googletest.h"
#include "tenon/testing/transport_suite.h"

namespace tenon::transport_testing {

using namespace testing;  // NOLINT(google-build-using-namespace): the kit's words are these tests' words
using std::chrono::milliseconds;

// By the name of its library, which lives as long as the process.
inline TransportSubject Built(const std::string& name) {
  static auto* const libraries = new std::map<std::string, Library>;  // NOLINT
  const Library& library =
      libraries->try_emplace(name, TENON_TEST_BUILD_DIR "/lib/tenon/plugins/tenon_" + name + ".so").first->second;
  return {library, name, name == "grpc" ? "grpc://127.0.0.1:0" : ""};
}
struct BuiltTransport : Transport {
  explicit BuiltTransport(const std::string& name) : BuiltTransport(Built(name)) {}
  explicit BuiltTransport(const TransportSubject& subject)
      : Transport(subject.library, subject.scheme, subject.any_address) {}
};

}  // namespace tenon::transport_testing

#endif  // TENON_TESTS_TRANSPORT_TESTED_H_
