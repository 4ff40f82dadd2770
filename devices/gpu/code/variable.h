// SPDX-License-Identifier: Apache-2.0
// What changes variables: sums (Accumulate_<type>, Deduct_<type>) and the optimizers' steps (Apply<Optimizer>_<type>,
// ApplyMany<Optimizer>_<type>, SparseApply<Optimizer>_<type>). Old and new values may be the same memory.
#ifndef TENON_DEVICES_GPU_CODE_VARIABLE_H_
#define TENON_DEVICES_GPU_CODE_VARIABLE_H_

#include <iterator>

#include "code/fault.h"
#include "tenon/extras/kernel/optimizer.h"

namespace tenon::gpu {

// to[i] = from[i] + delta[i], or minus.
struct AccumulateParams {
  const void* from;
  const void* delta;
  void* to;
  int64_t count;
};

// One step for every element. Scalars are read when the work runs; one that is bad is reported, and nothing is changed.
inline constexpr int kMostBadScalars = 5;
template <class Optimizer>
struct ApplyParams {
  static constexpr int kVariables = Optimizer::kVariables;
  static constexpr int kScalars = static_cast<int>(std::size(Optimizer::kScalars));
  Optimizer optimizer;
  const void* gradient;
  int64_t count;
  const void* scalars[kScalars];
  uint32_t counts;  // bit i: scalar i counts steps, and is an int64
  const void* from[kVariables];
  void* to[kVariables];
  FaultSite bad_scalars[kMostBadScalars];
};

// The same for several variables, with the same scalars. Their elements are numbered in chunks, a block takes one at a
// time.
inline constexpr int64_t kApplyChunk = 2048;
inline constexpr uint32_t kApplyThreads = 256;
template <class Optimizer>
struct ApplyManyParams {
  static constexpr int kVariables = Optimizer::kVariables;
  static constexpr int kScalars = static_cast<int>(std::size(Optimizer::kScalars));
  struct Item {
    const void* gradient;
    const void* from[kVariables];
    void* to[kVariables];
    int64_t count, first_chunk;
  };
  static constexpr int kMostItems = (4096 - 64 - 8 * kScalars) / static_cast<int>(sizeof(Item));
  Optimizer optimizer;
  uint32_t counts;
  const void* scalars[kScalars];
  int64_t chunks;
  int32_t items;
  Item item[kMostItems];
};

// One step for the rows that indices name, in their order: a row that comes twice is changed twice.
inline constexpr uint32_t kSparseThreads = 256;
template <class Optimizer>
struct SparseApplyParams {
  ApplyParams<Optimizer> dense;  // from: to itself; count: of indices
  const void* indices;
  bool wide_indices;   // int64, else int32
  int64_t rows, row;   // of the variable, and elements of one
  FaultSite bad_row;
};

#define TENON_GPU_DENSE_OPTIMIZERS(X) \
  X(GradientDescent) X(Momentum) X(KerasMomentum) X(Adagrad) X(AdagradV2) X(Adam) X(RmsProp) X(Ftrl) X(FtrlV2)    \
  X(AdamWithAmsgrad) X(AdaMax) X(Adadelta) X(CenteredRmsProp) X(AddSign) X(PowerSign)
// Of several variables at once; they have no scalars that may be bad.
#define TENON_GPU_JOINED_OPTIMIZERS(X) X(GradientDescent) X(Momentum) X(KerasMomentum) X(Adagrad) X(Adam) X(RmsProp)
#define TENON_GPU_SPARSE_OPTIMIZERS(X) \
  X(Momentum) X(KerasMomentum) X(Adagrad) X(AdagradV2) X(RmsProp) X(Ftrl) X(FtrlV2) X(Adadelta) X(CenteredRmsProp)
// Of float and double alone, dense and sparse.
#define TENON_GPU_WIDE_OPTIMIZERS(X) X(ProximalGradientDescent) X(ProximalAdagrad) X(AdagradDualAveraging)

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_VARIABLE_H_
