// SPDX-License-Identifier: Apache-2.0
// What a graph may not have, for these or any other shapes, if it is to be one straight program.
#ifndef TENON_CORE_EXEC_LOWER_STRAIGHT_LINE_H_
#define TENON_CORE_EXEC_LOWER_STRAIGHT_LINE_H_

#include <string>

#include "core/exec/lower/facts.h"
#include "core/graph/branch_analysis.h"

namespace tenon::exec {

// Why the dynamic executor has to run it; "": it may be a program.
std::string WhyNotStraight(const Plan& plan, const Facts& facts, const graph::BranchAnalysis& branches);

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_LOWER_STRAIGHT_LINE_H_
