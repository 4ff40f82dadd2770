// SPDX-License-Identifier: Apache-2.0
// Batches: which examples a step trains on, and their rows out of arrays that hold all of them.
//
// Everything depends on the seed and the step's number alone, so that a run that was killed and resumed sees what an
// unbroken one does.
#ifndef TENON_TRAIN_BATCHES_H_
#define TENON_TRAIN_BATCHES_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tenon/train/base.h"

namespace tenon::train {

// A number from 0 to limit-1 that depends on nothing but the arguments.
uint64_t HashedNumber(uint64_t seed, uint64_t a, uint64_t b, uint64_t limit);
// The numbers from 0 to count-1 in an order that depends on the arguments alone: Fisher and Yates, the same on every
// machine and library.
std::vector<int64_t> ShuffledOrder(int64_t count, uint64_t seed, uint64_t pass);

// What becomes of the examples at the end of a pass that are too few for a batch.
enum class LastBatch {
  kFilled,   // with the first ones of the next pass
  kSmaller,  // they are a smaller batch
  kDropped,  // they are left out of this pass; which they are depends on its order
};

// Which examples a step trains on: each pass goes over all of them once, in an order of its own.
class BatchSampler {
 public:
  // examples, batch: at least 1. seed: none: each pass has them in their order.
  BatchSampler(int64_t examples, int64_t batch, std::optional<uint64_t> seed, LastBatch last = LastBatch::kFilled)
      : examples_(examples), batch_(batch), seed_(seed), last_(last) {}
  // Of a step from 0 on. One thread at a time.
  std::vector<int64_t> Indices(int64_t step);
  // 0: kDropped, and there are fewer examples than a batch. Of kFilled: those that begin in a first pass.
  int64_t StepsInPass() const;

 private:
  const std::vector<int64_t>& Order(int64_t pass);

  int64_t examples_;
  int64_t batch_;
  std::optional<uint64_t> seed_;
  LastBatch last_;
  int64_t pass_ = -1;
  std::vector<int64_t> order_;
};

// Rows of one array, in memory of its own.
class RowGatherer {
 public:
  RowGatherer() = default;  // of no row
  // rows: of rank 1 or more, in host memory; numbers or strings.
  explicit RowGatherer(Tensor rows) : rows_(std::move(rows)) {}
  // [indices, ...]. Lives until the next call; rows that follow each other in the array are not copied. The indices are
  // within it.
  Result<View> Take(std::span<const int64_t> indices);

 private:
  Tensor rows_;
  std::vector<uint8_t> taken_;
};

// An array whose rows are examples. name: for messages, "'x' of 'x.npy'".
struct NamedRows {
  std::string name;
  Tensor rows;
};

// Several arrays of as many rows, from which steps get batches.
class ArrayBatches {
 public:
  // INVALID_ARGUMENT names the array that has no rows, or not as many as the first; or the batch that there is no
  // example for.
  static Result<ArrayBatches> Create(std::vector<NamedRows> arrays, int64_t batch, std::optional<uint64_t> seed,
                                     LastBatch last);

  int64_t examples() const { return examples_; }
  int64_t StepsInPass() const { return sampler_.StepsInPass(); }
  // The arrays' rows of a step, in the arrays' order. They live until the next call.
  Result<std::vector<View>> At(int64_t step);

 private:
  ArrayBatches(int64_t examples, BatchSampler sampler) : examples_(examples), sampler_(std::move(sampler)) {}
  int64_t examples_;
  BatchSampler sampler_;
  std::vector<RowGatherer> arrays_;
};

}  // namespace tenon::train

#endif  // TENON_TRAIN_BATCHES_H_
