// SPDX-License-Identifier: Apache-2.0
// How a reduction is spread over a GPU, and its launches.
#ifndef TENON_DEVICES_GPU_KERNELS_REDUCTION_H_
#define TENON_DEVICES_GPU_KERNELS_REDUCTION_H_

#include "code/reduce.h"
#include "kernels/kernel.h"
#include "tenon/extras/walk/reduce_shape.h"

namespace tenon::gpu {

// Threads of a group, of blocks of kFlatThreads, that walk along `count` elements: few for few, a warp up to
// `most_of_warp`, the block for more.
uint32_t LanesFor(int64_t count, int64_t most_of_warp = 1024);
// The same for rows that are walked along by packs (code/row.h): a pack for each thread while a warp has them; then so
// many that the row stays in registers, as long as it fits those of a block. Few rows are given a block each.
uint32_t LanesForPacks(const CardFacts& facts, int64_t rows, int64_t width, uint32_t dtype);
// Blocks of groups for so many items, not more than fill the GPU many times over.
Grid GroupGrid(const CardFacts& facts, int64_t items, uint32_t lanes);

// Over all dims but the one of the channels.
sdk::ReduceShape AllBut(sdk::Dims dims, size_t channels);

class Reduction {
 public:
  // `name` is the device code's (code/reduce.h).
  Reduction(Shapes& s, const sdk::ReduceShape& shape, std::string_view name, uint32_t dtype);

  // p.shape is set here.
  template <class Params>
  void operator()(Launcher& on, Params p) const {
    if (shape_.outputs == 0) return;
    p.shape = shape_;
    if (shape_.splits > 1) p.shape.partial = on.Workspace<char>(partial_);
    on(code_, grid_, p);
    if (shape_.splits == 1) return;
    p.shape.inputs = p.shape.per_split = shape_.splits;
    p.shape.splits = 1;
    p.shape.lanes = last_lanes_;
    on(last_, last_grid_, p);
  }

 private:
  ReductionShape shape_ = {};
  uint32_t last_lanes_ = 1;
  int64_t partial_ = 0;
  Grid grid_, last_grid_;
  Function code_ = nullptr, last_ = nullptr;
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_KERNELS_REDUCTION_H_
