// SPDX-License-Identifier: Apache-2.0
// Kernels that work in the host's memory, whatever the device: Shape, ShapeN, Size, Rank and VariableShape, which look
// at views; and what graphs compute with shapes.
#ifndef TENON_SDK_KERNEL_SHAPE_KERNELS_H_
#define TENON_SDK_KERNEL_SHAPE_KERNELS_H_

#include <algorithm>
#include <cstring>

#include "tenon/sdk/kernel/element.h"
#include "tenon/sdk/kernel/kernel.h"
#include "tenon/extras/walk/row_shape.h"

namespace tenon::sdk {

// Writes an integer to element i of an int32 or int64 output in host memory; INVALID_ARGUMENT when int32 cannot hold
// it.
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

// Shape and ShapeN: output k is a vector, input k's dims.
struct ShapeKernel {
  void Run(RunContext c) const {
    for (int32_t k = 0; k < c.input_count(); ++k) {
      const Dims dims = DimsOf(c.input_view(k));
      for (size_t i = 0; i < dims.size(); ++i) Put(c.output_view(k), static_cast<int64_t>(i), dims[i]);
    }
  }
};
// The number of elements, a scalar.
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

// ---- What graphs compute with shapes ----

// For each input, a shape as a vector, the axes over which its gradient is summed. Both outputs' sizes depend on the
// values (dynamic_outputs).
struct BroadcastGradientArgsKernel {
  void Run(RunContext c) const {
    const tenon_tensor_view* inputs[2] = {&c.input_view(0), &c.input_view(1)};
    const int64_t ranks[2] = {Count(*inputs[0]), Count(*inputs[1])};
    const int64_t rank = std::max(ranks[0], ranks[1]);
    if (rank > TENON_MAX_RANK) Fail(TENON_INVALID_ARGUMENT, "a shape of rank ", rank);
    int64_t axes[2][TENON_MAX_RANK];
    int64_t counts[2] = {0, 0};
    bool equal = ranks[0] == ranks[1];
    for (int64_t i = 0; i < rank; ++i) {
      int64_t dims[2];
      for (int k = 0; k < 2; ++k) {
        const int64_t at = i - (rank - ranks[k]);
        dims[k] = at < 0 ? 1 : IndexAt(Data<void>(*inputs[k]), inputs[k]->dtype, at);
      }
      if (dims[0] != dims[1] && dims[0] != 1 && dims[1] != 1) {
        Fail(TENON_INVALID_ARGUMENT, "Incompatible shapes: dims ", dims[0], " and ", dims[1], " do not broadcast");
      }
      equal = equal && dims[0] == dims[1];
      for (int k = 0; k < 2; ++k) {
        if (dims[k] == 1) axes[k][counts[k]++] = i;
      }
    }
    if (equal) counts[0] = counts[1] = 0;  // not even along dims of 1
    for (int32_t k = 0; k < 2; ++k) {
      c.AllocOutput(k, Dims(&counts[k], 1));
      for (int64_t i = 0; i < counts[k]; ++i) Put(c.output_view(k), i, axes[k][i]);
    }
  }
};

// Inputs: axis, then shapes that are alike but along it. Output k is where input k begins in their concatenation.
struct ConcatOffsetKernel {
  void Run(RunContext c) const {
    const tenon_tensor_view& axis_view = c.input_view(0);
    const int64_t rank = Count(c.input_view(1));
    const int64_t given = IndexAt(Data<void>(axis_view), axis_view.dtype, 0);
    const int64_t axis = given < 0 ? given + rank : given;
    if (axis < 0 || axis >= rank) Fail(TENON_INVALID_ARGUMENT, "axis ", given, " is outside rank ", rank);
    int64_t offset = 0;
    for (int32_t k = 1; k < c.input_count(); ++k) {
      const tenon_tensor_view& shape = c.input_view(k);
      if (Count(shape) != rank) Fail(TENON_INVALID_ARGUMENT, "input ", k, " has another rank");
      for (int64_t i = 0; i < rank; ++i) {
        const int64_t dim = IndexAt(Data<void>(shape), shape.dtype, i);
        const tenon_tensor_view& first = c.input_view(1);
        if (i != axis && dim != IndexAt(Data<void>(first), first.dtype, i)) {
          Fail(TENON_INVALID_ARGUMENT, "input ", k, " differs from the first in dim ", i);
        }
        Put(c.output_view(k - 1), i, i == axis ? offset : 0);
      }
      offset = Add(offset, IndexAt(Data<void>(shape), shape.dtype, axis));
    }
  }
};

// y[x[i]] = i. INVALID_ARGUMENT when x is no permutation of [0, n).
struct InvertPermutationKernel {
  void Run(RunContext c) const {
    const tenon_tensor_view& x = c.input_view(0);
    const int64_t n = Count(x);
    for (int64_t i = 0; i < n; ++i) Put(c.output_view(0), i, -1);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t at = IndexAt(Data<void>(x), x.dtype, i);
      if (at < 0 || at >= n) Fail(TENON_INVALID_ARGUMENT, at, " is not between 0 and ", n);
      if (IndexAt(Data<void>(c.output_view(0)), x.dtype, at) != -1) {
        Fail(TENON_INVALID_ARGUMENT, at, " is duplicated in the input.");
      }
      Put(c.output_view(0), at, i);
    }
  }
};

// Rows of data[k] go to the rows that indices[k] name; the last one wins; rows that nobody names are zero.
struct Stitch : StitchShape {
  explicit Stitch(RunContext c) : StitchShape(c.frame()->inputs, c.input_count()) {
    for (int32_t k = 0; k < n; ++k) {
      const int64_t count = Count(c.input_view(k));
      for (int64_t i = 0; i < count; ++i) {
        const int64_t row = c.input<int32_t>(k)[i];
        if (row < 0) Fail(TENON_INVALID_ARGUMENT, "indices[", k, "][", i, "] = ", row, " is negative");
        rows = std::max(rows, row + 1);
      }
    }
  }
  int64_t rows = 0;
};

// Everything in host memory; the output is one of dynamic_outputs. Asks between rows whether the step was given up.
struct DynamicStitchKernel {
  void Run(RunContext c) const {
    const Stitch stitch(c);
    AllocRows(c, 0, stitch.rows, stitch.tail);
    char* out = c.output<char>(0);
    const int64_t width = stitch.width * static_cast<int64_t>(ElementSize(c.input_view(stitch.n).dtype));
    if (stitch.rows * width != 0) std::memset(out, 0, static_cast<size_t>(stitch.rows * width));
    CancelPoll poll(c);
    for (int32_t k = 0; k < stitch.n; ++k) {
      const int64_t count = Count(c.input_view(k));
      for (int64_t i = 0; i < count && width != 0; poll(2 + width / 8), ++i) {
        std::memcpy(out + c.input<int32_t>(k)[i] * width, c.input<char>(stitch.n + k) + i * width,
                    static_cast<size_t>(width));
      }
    }
  }
};

}  // namespace tenon::sdk

#endif  // TENON_SDK_KERNEL_SHAPE_KERNELS_H_
