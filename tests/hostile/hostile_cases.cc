// SPDX-License-Identifier: Apache-2.0
// hostile_cases FILE...: tries hostile cases, and shows what each way of trying them says. For whoever writes a case.
#include <cstdio>

#include "tests/golden/replay.h"
#include "tests/hostile/cases.h"

int main(int argc, char** argv) {
  using namespace tenon::hostile;  // NOLINT: a program of this namespace
  if (argc < 2) {
    std::fprintf(stderr, "usage: hostile_cases FILE...\n");
    return 2;
  }
  const auto runtime = tenon::golden::MakeRuntime(tenon::golden::Kernels::kAll);
  if (!runtime.ok()) {
    std::fprintf(stderr, "%s\n", runtime.status().message().c_str());
    return 2;
  }
  size_t bad = 0;
  for (int i = 1; i < argc; ++i) {
    size_t line = 0;
    for (const tenon::golden::Json& one : ReadCases(argv[i])) {
      std::printf("%zu %s\n", ++line, NameOf(one).c_str());
      for (const Answer& answer : AnswersOf(*runtime, one)) {
        const std::string judged = JudgeOf(one, answer);
        std::printf("  %s %s: %s\n", judged.empty() ? " " : "!", answer.way.c_str(),
                    answer.status.ok() ? "accepted" : answer.status.message().c_str());
        bad += judged.empty() ? 0 : 1;
      }
      std::fflush(stdout);
    }
  }
  std::printf("%zu answers are not as the cases say\n", bad);
  return bad == 0 ? 0 : 1;
}
