// SPDX-License-Identifier: Apache-2.0
// A region with its shapes: which elements the code is called with, and by which threads.
#ifndef TENON_DEVICES_CPU_CODEGEN_EXECUTABLE_H_
#define TENON_DEVICES_CPU_CODEGEN_EXECUTABLE_H_

#include <memory>
#include <vector>

#include "code.h"
#include "tenon/sdk/device/compiler.h"

namespace tenon::cpu_codegen {

// The claim's code. Fails with UNIMPLEMENTED where it is better run otherwise, and the host's tiles or the kernels do it.
struct Executable : sdk::Compiled {
  static std::unique_ptr<Executable> Make(const tenon_compile_args& args, Level level, int64_t least);
  void Run(tenon_frame& frame) const;

 private:
  friend class Maker;
  // An input that does not walk on evenly: element (i_0, ..., inner) of the shape is at sum i_d * strides[d] + inner * step.
  struct Spread {
    int32_t input = 0;
    int64_t size = 0;  // bytes of an element
    int64_t step = 0;  // 0 or 1
    std::vector<int64_t> strides;
    bool is_same_in_all = false;  // tiles begin where it begins again
  };
  // Code for some of the nodes. Long chains are several, which take turns over a few elements: a processor overlaps the turns of a loop only as far as it sees.
  struct Stage {
    std::shared_ptr<const Code> code, streaming;  // streaming: where results are too large to stay in caches; else nullptr
    std::vector<int32_t> inputs, outputs;         // places among operands: the frame's inputs, its outputs, then values between stages
  };
  void RunRows(const tenon_frame& frame, int64_t begin, int64_t end) const;
  void RunTiles(const tenon_frame& frame, int64_t begin, int64_t end) const;
  void LayOut(const Spread& spread, const char* from, int64_t begin, int64_t count, char* to) const;
  // Operands of the frame at an element.
  struct Operands;
  Operands OperandsAt(const tenon_frame& frame, int64_t element) const;
  void RunStages(const Operands& operands, int64_t rows, int64_t count) const;
  void CallStage(const Stage& stage, const Operands& operands, char* values, int64_t row, int64_t first, int64_t rows, int64_t count) const;

  std::vector<Stage> stages_;
  std::vector<int64_t> steps_, sizes_;  // of inputs: bytes from element to element as the code walks; then bytes of outputs' elements, then of values' between stages
  std::vector<bool> is_even_;           // of inputs: they are read where the shape's elements are
  int64_t turn_ = 0;                    // elements of a stage's turn
  size_t first_between_ = 0;            // of the values between stages
  int64_t largest_between_ = 0;         // bytes of an element
  std::vector<Spread> spreads_;
  std::vector<int64_t> dims_;  // outer ones, the slowest first
  int64_t total_ = 0, inner_ = 0;
  int64_t piece_ = 0;         // elements of a unit that threads share: of a row, or so many rows
  bool lays_out_ = false;     // spreads are laid out, piece by piece; else rows are called one by one
  double cost_ = 0;           // nanoseconds of an element
};

}  // namespace tenon::cpu_codegen

#endif  // TENON_DEVICES_CPU_CODEGEN_EXECUTABLE_H_
