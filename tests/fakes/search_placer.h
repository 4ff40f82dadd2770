// SPDX-License-Identifier: Apache-2.0
// A placer that knows nothing of placing: simulated annealing over evaluate(), beginning with the host's choice.
#ifndef TENON_TESTS_FAKES_SEARCH_PLACER_H_
#define TENON_TESTS_FAKES_SEARCH_PLACER_H_

#include <cmath>
#include <random>
#include <vector>

#include "tenon/ext/draft/place.h"

namespace tenon::fakes {

inline constexpr int kSearchEvaluations = 20000;

// The devices of each group; groups with one are left alone.
inline std::vector<std::vector<int32_t>> FeasibleDevices(const tenon_place_args& args) {
  std::vector<std::vector<int32_t>> devices(args.group_count);
  std::vector<bool> seen(args.group_count);
  for (uint64_t n = 0; n < args.node_count; ++n) {
    const size_t group = static_cast<size_t>(args.groups[n]);
    if (seen[group]) continue;
    seen[group] = true;
    for (uint64_t d = 0; d < args.device_count; ++d)
      if (args.seconds[n * args.device_count + d] >= 0) devices[group].push_back(static_cast<int32_t>(d));
  }
  return devices;
}

inline tenon_status* SearchPlace(tenon_plugin_self*, const tenon_place_args* args) {
  const std::vector<std::vector<int32_t>> feasible = FeasibleDevices(*args);
  std::vector<size_t> free;
  for (size_t g = 0; g < feasible.size(); ++g)
    if (feasible[g].size() > 1) free.push_back(g);
  std::vector<int32_t> now(args->out_devices, args->out_devices + args->group_count);
  double seconds = 0;
  if (tenon_status* status = args->evaluate(args, now.data(), &seconds)) return status;
  double best = seconds;
  std::mt19937 random(1);
  std::uniform_real_distribution<> chance(0, 1);
  for (int i = 0; i < kSearchEvaluations && !free.empty(); ++i) {
    const double temperature = 0.004 * best * (1 - static_cast<double>(i) / kSearchEvaluations);
    int32_t& device = now[free[random() % free.size()]];
    const std::vector<int32_t>& choices = feasible[static_cast<size_t>(&device - now.data())];
    const int32_t before = device;
    device = choices[random() % choices.size()];
    if (device == before) continue;
    double other = 0;
    if (tenon_status* status = args->evaluate(args, now.data(), &other)) return status;
    if (other <= seconds || chance(random) < std::exp((seconds - other) / temperature)) {
      seconds = other;
    } else {
      device = before;
    }
    if (seconds < best) {
      best = seconds;
      for (size_t g = 0; g < now.size(); ++g) args->out_devices[g] = now[g];
    }
  }
  return nullptr;
}

}  // namespace tenon::fakes

#endif  // TENON_TESTS_FAKES_SEARCH_PLACER_H_
