// SPDX-License-Identifier: Apache-2.0
// simulate --seed N [--count N] [--bug N] [--tell] [--calm]: runs a simulated cluster, and says what went wrong.
#include <chrono>
#include <cstdio>

#include <CLI/CLI.hpp>

#include "tests/simulation/world.h"

int main(int argc, char** argv) {
  CLI::App app("Runs simulated clusters from seeds");
  tenon::simulation::RunOptions options;
  uint64_t count = 1;
  int focus = 0;
  app.add_option("--seed", options.seed, "The first one");
  app.add_option("--count", count, "How many");
  app.add_option("--bug", options.planted_bug, "A planted bug's number");
  app.add_option("--focus", focus, "What goes wrong more often, by its number; 0: all alike")
      ->check(CLI::Range(0, static_cast<int>(tenon::simulation::Focus::kCount) - 1));
  app.add_flag("--tell", options.tell, "What happens");
  app.add_flag("--calm", options.calm, "No faults");
  CLI11_PARSE(app, argc, argv);
  options.focus = static_cast<tenon::simulation::Focus>(focus);
  tenon::simulation::Prepare();
  const auto began = std::chrono::steady_clock::now();
  uint64_t bad = 0, switches = 0, steps = 0, faults = 0;
  for (uint64_t i = 0; i < count; ++i, ++options.seed) {
    const tenon::simulation::Outcome outcome = tenon::simulation::Simulate(options);
    switches += outcome.switches;
    steps += static_cast<uint64_t>(outcome.steps);
    faults += static_cast<uint64_t>(outcome.faults);
    if (count == 1)
      std::printf("trace %016llx, %lld steps, %d sessions, %d faults, %llu switches, %llu frames, %.3f s simulated\n",
                  static_cast<unsigned long long>(outcome.trace), static_cast<long long>(outcome.steps),
                  outcome.sessions, outcome.faults, static_cast<unsigned long long>(outcome.switches),
                  static_cast<unsigned long long>(outcome.frames), static_cast<double>(outcome.simulated_ns) * 1e-9);
    if (outcome.violation.empty()) continue;
    ++bad;
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(options.seed), outcome.violation.c_str());
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  std::printf("%llu of %llu runs bad; %llu steps, %llu faults, %llu switches, %.1f s\n",
              static_cast<unsigned long long>(bad), static_cast<unsigned long long>(count),
              static_cast<unsigned long long>(steps), static_cast<unsigned long long>(faults),
              static_cast<unsigned long long>(switches), seconds);
  return bad == 0 ? 0 : 1;
}
