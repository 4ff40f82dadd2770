// SPDX-License-Identifier: Apache-2.0
#include "plugins/cpu.h"

#include <algorithm>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace tenon::plugins {
namespace {

#if defined(__x86_64__)

// Features that the compiler's builtin does not name everywhere.
struct CpuidBit {
  unsigned leaf;
  unsigned bit;  // of ecx
};

bool HasEcx(CpuidBit where) {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(where.leaf, &eax, &ebx, &ecx, &edx) != 0 && ((ecx >> where.bit) & 1u) != 0;
}

constexpr CpuidBit kCmpxchg16b{1, 13}, kMovbe{1, 22}, kF16c{1, 29}, kLahf{0x80000001u, 0}, kLzcnt{0x80000001u, 5};

// The builtins also ask whether the operating system saves the registers.
bool HasV2() {
  return __builtin_cpu_supports("sse3") && __builtin_cpu_supports("ssse3") && __builtin_cpu_supports("sse4.1") &&
         __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt") && HasEcx(kCmpxchg16b) && HasEcx(kLahf);
}
bool HasV3() {
  return HasV2() && __builtin_cpu_supports("avx") && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma") && HasEcx(kF16c) && HasEcx(kMovbe) &&
         HasEcx(kLzcnt);
}
bool HasV4() {
  return HasV3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

struct Feature {
  std::string_view name;
  bool (*has)();
};

constexpr Feature kFeatures[] = {
    {"x86-64-v1", [] { return true; }},
    {"x86-64-v2", HasV2},
    {"x86-64-v3", HasV3},
    {"x86-64-v4", HasV4},
    {"sse4_2", [] { return __builtin_cpu_supports("sse4.2") != 0; }},
    {"avx", [] { return __builtin_cpu_supports("avx") != 0; }},
    {"avx2", [] { return __builtin_cpu_supports("avx2") != 0; }},
    {"fma", [] { return __builtin_cpu_supports("fma") != 0; }},
    {"f16c", [] { return __builtin_cpu_supports("avx") != 0 && HasEcx(kF16c); }},
    {"avx512f", [] { return __builtin_cpu_supports("avx512f") != 0; }},
    {"avx512bw", [] { return __builtin_cpu_supports("avx512bw") != 0; }},
    {"avx512cd", [] { return __builtin_cpu_supports("avx512cd") != 0; }},
    {"avx512dq", [] { return __builtin_cpu_supports("avx512dq") != 0; }},
    {"avx512vl", [] { return __builtin_cpu_supports("avx512vl") != 0; }},
    {"avx512_vnni", [] { return __builtin_cpu_supports("avx512vnni") != 0; }},
    {"avx512_bf16", [] { return __builtin_cpu_supports("avx512bf16") != 0; }},
};

#else

struct Feature {
  std::string_view name;
  bool (*has)();
};
constexpr Feature kFeatures[] = {{"none", [] { return false; }}};

#endif

}  // namespace

bool MachineHas(std::string_view feature) {
  const auto found = std::find_if(std::begin(kFeatures), std::end(kFeatures),
                                  [&](const Feature& known) { return known.name == feature; });
  return found != std::end(kFeatures) && found->has();
}

std::string FirstMissingFeature(const std::vector<std::string>& features) {
  for (const std::string& feature : features) {
    if (!MachineHas(feature)) return feature;
  }
  return {};
}

int FeatureRank(const std::vector<std::string>& features) {
  int level = 1;
  int singles = 0;
  for (const std::string& feature : features) {
    if (feature.size() == 9 && feature.starts_with("x86-64-v") && feature[8] >= '1' && feature[8] <= '9') {
      level = std::max(level, feature[8] - '0');
    } else {
      ++singles;
    }
  }
  return level * 100 + std::min(singles, 99);
}

}  // namespace tenon::plugins
