// SPDX-License-Identifier: Apache-2.0
// What `tenon train digits` shows at its end: who did the work, and some digits with the answers given.
#ifndef TENON_CLI_TRAIN_DIGIT_REPORT_H_
#define TENON_CLI_TRAIN_DIGIT_REPORT_H_

#include <cstdint>
#include <span>
#include <string>

#include "tenon/tenon.h"
#include "tenon/train/digits.h"

namespace tenon::cli {

// Which plugins ran how many nodes of a step, from Callable::Explain and the load reports; of a cluster, which devices.
std::string WorkTable(const host::Runtime& runtime, const std::string& explanation);

// A few digits as shades of ink, those that were read wrongly among them.
std::string DrawDigits(const train::DigitSet& digits, std::span<const int64_t> answers);

}  // namespace tenon::cli

#endif  // TENON_CLI_TRAIN_DIGIT_REPORT_H_
