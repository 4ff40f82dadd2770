// SPDX-License-Identifier: Apache-2.0
// late [--deadline MS] [OP...]: runs ops that last under a deadline, and says how late each was. With --deadline 0 it
// says how long they take.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "tests/hostile/lasting.h"

int main(int argc, char** argv) {
  using namespace tenon;  // NOLINT: a program
  std::chrono::milliseconds deadline(1000);
  std::vector<std::string_view> wanted;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--deadline") == 0 && i + 1 < argc)
      deadline = std::chrono::milliseconds(std::atoi(argv[++i]));
    else wanted.emplace_back(argv[i]);
  }
  const auto runtime = host::Runtime::Create();
  if (!runtime.ok()) {
    std::fprintf(stderr, "%s\n", runtime.status().message().c_str());
    return 2;
  }
  std::printf("%-26s %-42s %10s %10s  %s\n", "op", "size", deadline.count() > 0 ? "late, ms" : "took, ms", "CPU, ms",
              "");
  for (const hostile::Lasting& lasting : hostile::AllLasting()) {
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), lasting.op) == wanted.end()) continue;
    const hostile::Ended ended = hostile::RunLasting(*runtime, lasting, deadline);
    const auto ms = [](std::chrono::nanoseconds time) { return static_cast<double>(time.count()) / 1e6; };
    std::printf("%-26s %-42s %10.0f %10.0f  %s\n", lasting.op.c_str(), lasting.size.c_str(), ms(ended.took - deadline),
                ms(ended.cpu),
                ended.status.code() == host::Code::kDeadlineExceeded ? ""
                : ended.status.ok()                                  ? "OK"
                                                                     : ended.status.message().c_str());
    std::fflush(stdout);
  }
  return 0;
}
