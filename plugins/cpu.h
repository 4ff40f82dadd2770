// SPDX-License-Identifier: Apache-2.0
// CPU features of this machine, by the names that manifests use: "x86-64-v2" to "x86-64-v4", and names of
// /proc/cpuinfo.
//
// A name that is not known here is a feature that the machine lacks: opening a library that needs it could end the
// process.
#ifndef TENON_PLUGINS_CPU_H_
#define TENON_PLUGINS_CPU_H_

#include <string>
#include <string_view>
#include <vector>

namespace tenon::plugins {

bool MachineHas(std::string_view feature);

// The first feature that this machine lacks; empty when it has all.
std::string FirstMissingFeature(const std::vector<std::string>& features);

// How much of a machine the features ask for: the x86-64 level times 100, plus the number of single features.
int FeatureRank(const std::vector<std::string>& features);

}  // namespace tenon::plugins

#endif  // TENON_PLUGINS_CPU_H_
