// SPDX-License-Identifier: Apache-2.0
// A region whose reductions are of all elements: blocks, which threads share, and then their sums.
#ifndef TENON_DEVICES_CPU_CODEGEN_REDUCE_REDUCE_ALL_H_
#define TENON_DEVICES_CPU_CODEGEN_REDUCE_REDUCE_ALL_H_

#include <memory>
#include <vector>

#include "code/code.h"
#include "region/region.h"
#include "run/broadcast.h"
#include "run/executable.h"

namespace tenon::cpu_codegen {

struct WholeExecutable : Executable {
  static std::unique_ptr<Executable> Make(Region region);
  void Run(tenon_frame& frame) const override;

 private:
  struct Input {
    int32_t source;  // among the frame's
    int64_t step;    // bytes from element to element; 0: it has one
  };
  struct Output {
    int64_t size;        // bytes of an element
    Function function;   // kUnknown: of elements
    uint32_t dtype, sum; // of the result, and of a block's
    int64_t workspace;   // where its blocks' are
  };
  void RunBlocks(const tenon_frame& frame, int64_t begin, int64_t end) const;
  void CallBlocks(const tenon_frame& frame, int64_t block, int64_t count, char* slots) const;
  int64_t Blocks() const;

  std::shared_ptr<const Code> code_, last_;  // last_: of the elements behind whole blocks
  SpreadDims dims_;
  std::vector<Spread> spreads_;
  int64_t total_ = 0;
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  double cost_ = 0;  // nanoseconds of a block
};

}  // namespace tenon::cpu_codegen

#endif  // TENON_DEVICES_CPU_CODEGEN_REDUCE_REDUCE_ALL_H_
