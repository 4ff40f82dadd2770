// SPDX-License-Identifier: Apache-2.0
// What a test finds wrong, as a value: a text with the file and line of the check. No test framework is needed; each
// one has a sink that passes failures on (googletest.h is GoogleTest's).
//
//   ExpectEq(Text(driver->open(self, 0, &device)), "");
//
// Checks may be made on any thread. The sink is set while no test runs.
#ifndef TENON_TESTING_FAILURE_H_
#define TENON_TESTING_FAILURE_H_

#include <algorithm>
#include <cstdio>
#include <functional>
#include <mutex>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace tenon::testing {

struct Failure {
  std::string file;
  int line = 0;
  std::string text;
};
using FailureSink = std::function<void(const Failure&)>;

// Who is told; without anybody a line on stderr.
inline FailureSink& Sink() {
  static auto* const sink = new FailureSink(
      [](const Failure& f) { std::fprintf(stderr, "%s:%d: %s\n", f.file.c_str(), f.line, f.text.c_str()); });
  return *sink;
}
inline void Report(std::string text, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  static std::mutex one_at_a_time;
  const std::lock_guard guard(one_at_a_time);
  Sink()({file, line, std::move(text)});
}

// ---- Checks ----

template <class T>
std::string Print(const T& value) {
  std::ostringstream out;
  if constexpr (std::is_integral_v<T> && sizeof(T) == 1) {
    out << static_cast<int>(value);
  } else if constexpr (requires { out << value; }) {
    out << value;
  } else if constexpr (requires { value.begin(); value.end(); }) {
    size_t count = 0;
    for (const auto& each : value) {
      if (++count > 20) continue;
      out << (count == 1 ? "{" : ", ") << Print(each);
    }
    out << (count == 0 ? "{}" : count > 20 ? ", ...}" : "}");
  } else {
    out << "?";
  }
  return out.str();
}

// All give whether it was so. about: what else a reader of the failure wants to know.
inline bool Expect(bool is_so, std::string_view about, const char* file = __builtin_FILE(),
                   int line = __builtin_LINE()) {
  if (!is_so) Report("not so: " + std::string(about), file, line);
  return is_so;
}
template <class A, class B>
bool ExpectEq(const A& got, const B& want, std::string_view about = "", const char* file = __builtin_FILE(),
              int line = __builtin_LINE()) {
  if (got == want) return true;
  Report("found " + Print(got) + ", expected " + Print(want) + (about.empty() ? "" : " (" + std::string(about) + ")"),
         file, line);
  return false;
}
template <class A, class B>
bool ExpectNe(const A& got, const B& other, std::string_view about = "", const char* file = __builtin_FILE(),
              int line = __builtin_LINE()) {
  if (!(got == other)) return true;
  Report("found " + Print(got) + ", which must not be" + (about.empty() ? "" : " (" + std::string(about) + ")"), file,
         line);
  return false;
}

// ---- Suites ----

// A named case of a suite over something of type Subject (a device's library, a transport). It throws nothing.
template <class Subject>
struct SuiteCase {
  const char* name;
  void (*run)(const Subject&);
};

// Runs something and gives what was reported meanwhile, to nobody else.
template <class Function>
std::vector<Failure> FailuresOf(Function&& function) {
  std::vector<Failure> failures;
  FailureSink before = std::exchange(Sink(), [&](const Failure& failure) { failures.push_back(failure); });
  function();
  Sink() = std::move(before);
  return failures;
}

}  // namespace tenon::testing

#endif  // TENON_TESTING_FAILURE_H_
