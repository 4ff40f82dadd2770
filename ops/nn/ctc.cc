// SPDX-License-Identifier: Apache-2.0
// Connectionist temporal classification (Graves and others, 2006): the loss of label sequences that are not aligned,
// and what was most likely said.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

// inputs [time, batch, classes]; sequence_length [batch].
static int64_t Batch(ShapeContext& c, const Shape& inputs, const Shape& lengths) {
  return c.Merge(inputs[1], lengths[0], "the batches of inputs and of sequence_length");
}

static void LossShape(ShapeContext& c) {
  Shape inputs = c.WithRank(0, 3);
  const Shape indices = c.WithRank(1, 2), values = c.WithRank(2, 1);
  c.Merge(indices[0], values[0], "the rows of labels_indices and labels_values");
  const int64_t batch = Batch(c, inputs, c.WithRank(3, 1));
  inputs.Set(1, batch);
  c.SetOutput(0, {batch});
  c.SetOutput(1, inputs);
}

// The op's second output is the gradient, for a gradient of 1.
static void LossGradient(GradientContext& g) {
  g.SetDx(
      0, g.Mul(g.Op("PreventGradient", {g.output(1)},
                    {{"message", "the second derivative of the CTC loss is not known: its op computes the first one"}}),
               g.ExpandDims(g.dy(0), -1)));
}

static constexpr std::string_view kLossConstraints =
    "rank(inputs) == 3; rank(labels_indices) == 2; dim(labels_indices, 1) == 2; rank(labels_values) == 1; "
    "rank(sequence_length) == 1";
#define TENON_CTC_LOSS_ATTRS                                                                                         \
  "preprocess_collapse_repeated: bool = false; ctc_merge_repeated: bool = true; ignore_longer_outputs_than_inputs: " \
  "bool = false"

TENON_OP(kCTCLoss) = DefineOp({
    .name = "CTCLoss",
    .inputs = "inputs: T, labels_indices: int64, labels_values: int32, sequence_length: int32",
    .outputs = "loss: T, gradient: T",
    .attrs = TENON_CTC_LOSS_ATTRS "; T: {float, double} = float",
    .constraints = kLossConstraints,
    .doc = "Minus the logarithm of the probability that inputs, logits [time, batch, classes], say the labels; the "
           "last class is the blank. And the "
           "gradient with respect to inputs.",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<LossShape>,
    .gradient = GradientFunction<LossGradient>,
});

TENON_OP(kCTCLossV2) = DefineOp({
    .name = "CTCLossV2",
    .inputs = "inputs: float, labels_indices: int64, labels_values: int32, sequence_length: int32",
    .outputs = "loss: float, gradient: float",
    .attrs = TENON_CTC_LOSS_ATTRS,
    .constraints = kLossConstraints,
    .doc = "CTCLoss whose blank is class 0.",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<LossShape>,
    .gradient = GradientFunction<LossGradient>,
});

static void DecoderShape(ShapeContext& c) {
  const int64_t batch = Batch(c, c.WithRank(0, 3), c.WithRank(1, 1));
  const Range indices = c.OutputRange("decoded_indices"), values = c.OutputRange("decoded_values"),
              shapes = c.OutputRange("decoded_shape");
  for (int i = 0; i < indices.count; ++i) {
    c.SetOutput(indices.begin + i, {kUnknown, 2});
    c.SetOutput(values.begin + i, {kUnknown});
    c.SetOutput(shapes.begin + i, {2});
  }
  c.SetOutput(shapes.begin + shapes.count, {batch, indices.count});
}

TENON_OP(kCTCGreedyDecoder) = DefineOp({
    .name = "CTCGreedyDecoder",
    .inputs = "inputs: T, sequence_length: int32",
    .outputs = "decoded_indices: int64, decoded_values: int64, decoded_shape: int64, log_probability: T",
    .attrs = "merge_repeated: bool = false; blank_index: int = -1; T: {float, double} = float",
    .constraints = "rank(inputs) == 3; rank(sequence_length) == 1",
    .doc = "The largest class of each step, without blanks, as a sparse tensor [batch, longest]; and minus the sum of "
           "their logits. merge_repeated: "
           "of equal ones in a row only the first.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<DecoderShape>,
});

TENON_OP(kCTCBeamSearchDecoder) = DefineOp({
    .name = "CTCBeamSearchDecoder",
    .inputs = "inputs: T, sequence_length: int32",
    .outputs = "decoded_indices: top_paths * int64, decoded_values: top_paths * int64, decoded_shape: top_paths * "
               "int64, log_probability: T",
    .attrs = "beam_width: int >= 1; top_paths: int >= 1; merge_repeated: bool = true; T: {float, double} = float",
    .constraints = "rank(inputs) == 3; rank(sequence_length) == 1",
    .doc = "The top_paths most likely label sequences that a search of beam_width finds, each as a sparse tensor "
           "[batch, longest]; and the logarithms of "
           "their probabilities. The last class is the blank. merge_repeated: of equal labels in a row of what is "
           "found only the first.",
    .traits = TENON_OP_NO_GRADIENT | TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<DecoderShape>,
});

}  // namespace tenon::ops
