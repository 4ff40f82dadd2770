// SPDX-License-Identifier: Apache-2.0
// Failures of the testing kit as GoogleTest's, and suites as its tests. Include it in GoogleTest programs alone; the
// rest of the kit does not need GoogleTest.
//
//   const bool registered = RegisterSuite("Conformance", DeviceCases(), subject);   // a test a case
#ifndef TENON_TESTING_GOOGLETEST_H_
#define TENON_TESTING_GOOGLETEST_H_

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tenon/testing/failure.h"

namespace tenon::testing {

inline const bool kGoogleTestIsTold = [] {
  Sink() = [](const Failure& failure) { ADD_FAILURE_AT(failure.file.c_str(), failure.line) << failure.text; };
  return true;
}();

// Before main(). subject() makes what each case is run on.
template <class Subject>
bool RegisterSuite(const std::string& suite, const std::vector<SuiteCase<Subject>>& cases,
                   std::function<Subject()> subject) {
  class Test : public ::testing::Test {
   public:
    Test(const SuiteCase<Subject>& one, std::function<Subject()> make) : case_(one), make_(std::move(make)) {}
    void TestBody() override { case_.run(make_()); }

   private:
    const SuiteCase<Subject> case_;
    const std::function<Subject()> make_;
  };
  for (const SuiteCase<Subject>& one : cases) {
    ::testing::RegisterTest(suite.c_str(), one.name, nullptr, nullptr, __FILE__, __LINE__,
                            [=]() -> ::testing::Test* { return new Test(one, subject); });
  }
  return true;
}

}  // namespace tenon::testing

#endif  // TENON_TESTING_GOOGLETEST_H_
