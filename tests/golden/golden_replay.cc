// SPDX-License-Identifier: Apache-2.0
// golden_replay [--plain | --onednn | --gpu] [--no-optimize] [--resume [--damage N]] FILE...: replays files of cases
// and says what differs.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "tests/device/gpu.h"
#include "tests/golden/replay.h"

namespace {

int Usage() {
  std::fprintf(
      stderr,
      "usage: golden_replay [--plain | --onednn | --gpu] [--no-optimize] [--resume [--damage N]] FILE...\n"
      "Replays cases as make_cases.py writes them. --plain: without oneDNN; --onednn: oneDNN at any size;\n"
      "--gpu: a GPU's kernels, the emulated one's or with TENON_TEST_GPU=tenon.cuda a real one's.\n"
      "--resume: each run in a new session, to which the iterator's state is carried; N damaged ones before it.\n");
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace tenon::golden;  // NOLINT: a program of this namespace
  Kernels kernels = Kernels::kAll;
  Manner manner;
  std::vector<std::string> files;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--plain") kernels = Kernels::kPlain;
    else if (word == "--onednn") kernels = Kernels::kOneDnnAlways;
    else if (word == "--gpu") kernels = Kernels::kGpu, manner.device = tenon::device_test::kGpu;
    else if (word == "--no-optimize") manner.optimize = false;
    else if (word == "--resume") manner.resume = true;
    else if (word == "--damage" && i + 1 < argc) manner.damage = std::atoi(argv[++i]);
    else if (word.starts_with("-")) return Usage();
    else files.push_back(word);
  }
  if (files.empty()) return Usage();
  SayCaseOnCrash();
  const auto runtime = MakeRuntime(kernels);
  if (!runtime.ok()) {
    std::fprintf(stderr, "%s\n", runtime.status().message().c_str());
    return 2;
  }
  const auto differences = Differences::Read(TENON_TEST_SOURCE_DIR "/tests/golden/differences.json");
  bool differs = false;
  for (const std::string& path : files) {
    std::ifstream text(path);
    if (!text) {
      std::fprintf(stderr, "%s: %s\n", path.c_str(), std::strerror(errno));
      return 2;
    }
    const Tally tally = ReplayAll(*runtime, text, differences, manner);
    for (const std::string& failure : tally.failures) std::printf("%s, %s\n", path.c_str(), failure.c_str());
    std::printf("%s: %zu cases (%zu refused by TensorFlow, %zu with gradients), %zu differ\n", path.c_str(),
                tally.cases, tally.refused, tally.gradients, tally.failures.size());
    differs |= !tally.failures.empty();
  }
  return differs ? 1 : 0;
}
