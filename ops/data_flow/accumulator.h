// SPDX-License-Identifier: Apache-2.0
// Accumulators: gradients that steps bring, summed until somebody takes what enough of them have made (place.h).
//
// Rules, which are TensorFlow's:
// - A gradient whose local step lies before the global step is dropped, unseen.
// - A take waits for its number of gradients. It gets the sum of all that are there, or their mean, and the global step
// goes on by one. Takes are served in the
//   order in which they came.
// - Rows of sparse gradients are merged where their indices are equal, as two sorted lists are; the mean of a row is
// that of the gradients that had it.
#ifndef TENON_OPS_DATA_FLOW_ACCUMULATOR_H_
#define TENON_OPS_DATA_FLOW_ACCUMULATOR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "place.h"
#include "tenon/sdk/kernel/kept_tensor.h"
#include "tenon/sdk/shape.h"

namespace tenon::ops {

inline constexpr tenon_span kAccumulatorType = TENON_SPAN("tenon.Accumulator/1");

struct AccumulatorOptions {
  std::string op;  // "ConditionalAccumulator", for messages
  std::string name;
  uint32_t dtype = TENON_DT_INVALID;  // half, float or double
  sdk::Shape shape;                   // of a gradient; may be partly known
  bool mean = true;
  bool sparse = false;
};

// A gradient that a step brings; views of its inputs. shape: data NULL where it is not said.
struct SparseGradient {
  tenon_tensor_view indices, values, shape;
};

class Accumulator final : public Place {
 public:
  explicit Accumulator(AccumulatorOptions options)
      : Place(Order::kInOrder, Order::kInOrder), options_(std::move(options)) {}

  const AccumulatorOptions& options() const { return options_; }
  std::string Describe() const { return sdk::Concat(options_.op, " '", options_.name, "'"); }
  // INVALID_ARGUMENT: another type, or another kind of gradient.
  void Check(uint32_t dtype, bool sparse) const;

  // INVALID_ARGUMENT, and nothing was added: it is not of the accumulator's shape, or of that of the gradients before
  // it.
  void Apply(const sdk::RunContext& c, int64_t local_step, const tenon_tensor_view& gradient);
  void Apply(const sdk::RunContext& c, int64_t local_step, const SparseGradient& gradient);
  // Ends with done, at once or later, unless it throws. count >= 1.
  void Take(sdk::RunContext c, sdk::Done done, int64_t count);
  int64_t Count() const;
  void SetGlobalStep(int64_t step);

 private:
  class Taking;
  // Dense: the sum. Sparse: indices, values, and how many gradients had each row.
  struct Sum {
    std::vector<sdk::KeptTensor> parts;
    int64_t count = 0;  // of the gradients in it
  };

  // Below: under the mutex.
  void CheckSparse(const SparseGradient& gradient) const;
  void Add(const sdk::RunContext& c, const tenon_tensor_view& gradient);
  void Add(const sdk::RunContext& c, const SparseGradient& gradient);
  template <class Gradient>
  void ApplyAny(const sdk::RunContext& c, int64_t local_step, const Gradient& gradient);

  const AccumulatorOptions options_;
  // The mutex guards all below.
  Sum sum_;
  int64_t global_step_ = 0;
};

}  // namespace tenon::ops

#endif  // TENON_OPS_DATA_FLOW_ACCUMULATOR_H_
