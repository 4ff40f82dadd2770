// SPDX-License-Identifier: Apache-2.0
// Hostile cases: graphs that must be refused, and with what words. README.md says how one is written.
//
// A case of an op is tried with constants, with feeds and with feeds of unknown shape, each by both executors: checks
// stand in shape functions, in what is prepared when shapes are known, and in kernels, and all of them must hold.
#ifndef TENON_TESTS_HOSTILE_CASES_H_
#define TENON_TESTS_HOSTILE_CASES_H_

#include <string>
#include <vector>

#include "tenon/tenon.h"
#include "tests/golden/tensor_json.h"

namespace tenon::hostile {

struct Answer {
  std::string way;  // in which it was tried
  host::Status status;
  std::vector<host::Tensor> values;  // when it was not refused
};

// The answer of each way.
std::vector<Answer> AnswersOf(const host::Runtime& runtime, const golden::Json& one);
// Empty, or what an answer should have been.
std::string JudgeOf(const golden::Json& one, const Answer& answer);
// What the case is, in a line.
std::string NameOf(const golden::Json& one);

// Cases of a file; throws what nlohmann::json throws.
std::vector<golden::Json> ReadCases(const std::string& path);

}  // namespace tenon::hostile

#endif  // TENON_TESTS_HOSTILE_CASES_H_
