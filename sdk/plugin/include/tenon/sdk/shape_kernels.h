// SPDX-License-Identifier: Apache-2.0
// Shape, ShapeN, Size, Rank and VariableShape as kernels: they look at views, and write outputs in the host's memory.
#ifndef TENON_SDK_SHAPE_KERNELS_H_
#define TENON_SDK_SHAPE_KERNELS_H_

#include "tenon/sdk/kernel.h"

namespace tenon::sdk {

// Writes an integer to element i of an int32 or int64 output.
inline void Put(const tenon_tensor_view& output, int64_t i, int64_t value) {
  if (output.dtype == TENON_DT_INT64) {
    Data<int64_t>(output)[i] = value;
    return;
  }
  if (value < INT32_MIN || value > INT32_MAX) {
    Fail(TENON_INVALID_ARGUMENT, value, " does not fit out_type int32; use int64");
  }
  Data<int32_t>(output)[i] = static_cast<int32_t>(value);
}

struct ShapeKernel {
  void Run(RunContext c) const {
    for (int32_t k = 0; k < c.input_count(); ++k) {
      const Dims dims = DimsOf(c.input_view(k));
      for (size_t i = 0; i < dims.size(); ++i) Put(c.output_view(k), static_cast<int64_t>(i), dims[i]);
    }
  }
};
struct SizeKernel {
  void Run(RunContext c) const { Put(c.output_view(0), 0, Count(c.input_view(0))); }
};
struct RankKernel {
  void Run(RunContext c) const { Put(c.output_view(0), 0, c.input_view(0).dl.ndim); }
};
// Of a variable, on the device in whose memory it lies.
struct VariableShapeKernel {
  void Run(RunContext c) const {
    tenon_tensor_view value = {};
    Check(c.services().variable_read(c.frame(), c.resource(0), &value));
    const int64_t rank = value.dl.ndim;
    c.AllocOutput(0, {&rank, 1});
    for (int32_t i = 0; i < value.dl.ndim; ++i) Put(c.output_view(0), i, value.dl.shape[i]);
  }
};

}  // namespace tenon::sdk

#endif  // TENON_SDK_SHAPE_KERNELS_H_
