// SPDX-License-Identifier: Apache-2.0
// A chain without reductions as code: one loop, or, where it is long, several that take turns over a few elements,
// since a processor overlaps the turns of a loop only as far as it sees. Sums of columns beside other results are a
// loop of their own.
#ifndef TENON_DEVICES_CPU_CODEGEN_RUN_CHAIN_STAGES_H_
#define TENON_DEVICES_CPU_CODEGEN_RUN_CHAIN_STAGES_H_

#include <array>
#include <memory>
#include <vector>

#include "code/code.h"
#include "code/program.h"

namespace tenon::cpu_codegen {

inline constexpr int64_t kStreamedBytes = 24 << 20;  // of inputs and results, from which on results go past the caches

// Where the program's inputs and then its outputs are: the first element of the first row, and bytes from row to row.
struct Operands {
  std::array<char*, kMostInputs + kMostOutputs> at;
  std::array<int64_t, kMostInputs + kMostOutputs> row;
};

// Immutable once made; any thread.
class Stages {
 public:
  Stages() = default;
  // Nodes that make sums of columns are the last ones. Fails with UNIMPLEMENTED where no code can be had.
  explicit Stages(const Program& program);
  // `rows` rows of `count` elements. Of a result whose row step is 0, and an input at the same place, each row reads
  // what the one before has written. may_stream: else results go past the caches in no case.
  void Run(const Operands& operands, int64_t rows, int64_t count, bool may_stream = true) const;
  // Whether the output may have the input's memory: whoever reads it does so before it is written, element by element.
  static bool MayLieInPlace(const Program& program, int32_t input, int32_t output);
  // Elements of a row that are computed in one turn; rows of listed inputs may have no more.
  int64_t most_in_turn() const { return stages_.size() == 1 ? INT64_MAX : turn_; }
  // Nanoseconds of an element, roughly.
  static double CostOf(const Program& program);

 private:
  struct Stage {
    std::shared_ptr<const Code> code, streaming;  // streaming: where results go past the caches; else nullptr
    std::vector<int32_t> inputs, outputs;  // places: the program's inputs, its outputs, then values between stages
  };
  Stage MakeStage(const Program& program, size_t begin, size_t end, std::vector<int32_t>* place);
  void CallStage(const Stage& stage, const Operands& operands, char* values, int64_t row, int64_t first, int64_t rows,
                 int64_t count, bool may_stream) const;

  std::vector<Stage> stages_;
  std::vector<int64_t> steps_;    // of places
  int64_t turn_ = 0;              // elements of a stage's turn
  size_t first_between_ = 0;      // of the values between stages
  int64_t largest_between_ = 0;   // bytes of an element
};

}  // namespace tenon::cpu_codegen

#endif  // TENON_DEVICES_CPU_CODEGEN_RUN_CHAIN_STAGES_H_
