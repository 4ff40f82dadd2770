// SPDX-License-Identifier: Apache-2.0
// A region of elements of one shape: which ones the code is called with, and by which threads.
#ifndef TENON_DEVICES_CPU_CODEGEN_ELEMENTS_H_
#define TENON_DEVICES_CPU_CODEGEN_ELEMENTS_H_

#include <memory>
#include <vector>

#include "code.h"
#include "executable.h"
#include "region.h"
#include "spread.h"

namespace tenon::cpu_codegen {

struct ElementExecutable : Executable {
  static std::unique_ptr<Executable> Make(Region region);
  void Run(tenon_frame& frame) const override;

 private:
  friend class ElementMaker;
  // Code for some of the nodes. Long chains are several, which take turns over a few elements: a processor overlaps the turns of a loop only as far as it sees.
  struct Stage {
    std::shared_ptr<const Code> code, streaming;  // streaming: where results are too large to stay in caches; else nullptr
    std::vector<int32_t> inputs, outputs;         // places among operands: the frame's inputs, its outputs, then values between stages
  };
  void RunRows(const tenon_frame& frame, int64_t begin, int64_t end) const;
  void RunTiles(const tenon_frame& frame, int64_t begin, int64_t end) const;
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
  SpreadDims dims_;
  std::vector<Spread> spreads_;
  int64_t total_ = 0;
  int64_t piece_ = 0;         // elements of a unit that threads share: of a row, or so many rows
  bool lays_out_ = false;     // spreads are laid out, piece by piece; else rows are called one by one
  double cost_ = 0;           // nanoseconds of an element
};

}  // namespace tenon::cpu_codegen

#endif  // TENON_DEVICES_CPU_CODEGEN_ELEMENTS_H_
