// SPDX-License-Identifier: Apache-2.0
// CudnnRNN in its three versions: layers of recurrent cells whose parameters are one vector, in the order that cuDNN
// packs them.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

#define TENON_RNN_KIND                                                                                         \
  "T: {bfloat16, half, float, double}; rnn_mode: {'rnn_relu', 'rnn_tanh', 'lstm', 'gru'} = 'lstm'; "           \
  "input_mode: {'linear_input', 'skip_input', 'auto_select'} = 'linear_input'; direction: {'unidirectional', " \
  "'bidirectional'} = 'unidirectional'; "                                                                      \
  "dropout: float = 0; seed: int = 0; seed2: int = 0"
#define TENON_RNN_INPUTS "input: T, input_h: T, input_c: T, params: T"
#define TENON_RNN_OUTPUTS "output: T, output_h: T, output_c: T, reserve_space: T"
#define TENON_RNN_GRADIENTS                                                                               \
  "output: T, output_h: T, output_c: T, output_backprop: T, output_h_backprop: T, output_c_backprop: T, " \
  "reserve_space: T"
#define TENON_RNN_RANKS "rank(input) == 3; rank(input_h) == 3; rank(params) == 1"

// kVersion: from 2 on there is host_reserved, from 3 on there are sequence_lengths, num_proj and time_major.
template <int kVersion>
static void RnnShape(ShapeContext& c) {
  const Shape input = c.WithRank(0, 3), h = c.WithRank(1, 3);
  c.WithRank(3, 1);
  const bool time_major = kVersion < 3 || c.Bool("time_major"), lstm = c.String("rnn_mode") == "lstm";
  const int64_t directions = c.String("direction") == "bidirectional" ? 2 : 1;
  c.Merge(input[time_major ? 1 : 0], h[time_major ? 1 : 0], "the batches of input and input_h");
  const int64_t wide = c.Multiply(h[2], directions);
  Shape output = input.known_rank() ? input : Shape::OfRank(3);
  output.Set(2, wide);
  c.SetOutput(0, output);
  c.SetOutput(1, h);
  c.SetOutput(2, lstm ? c.Merge(h, c.Input(2), "the shapes of input_h and input_c") : Shape::Scalar());
  // What dropout draws: between the layers.
  int64_t reserved = 0;
  if (c.Float("dropout") > 0 && c.Bool("is_training")) {
    const int64_t stacked = h[time_major ? 0 : 1];
    reserved = stacked < 0 ? kUnknown
                           : c.Multiply(c.Multiply(std::max<int64_t>(stacked / directions - 1, 0), wide),
                                        c.Multiply(input[0], input[1]));
  }
  c.SetOutput(3, {reserved});
  if (kVersion > 1) c.SetOutput(4, {0});
}

template <int kVersion>
static void RnnGradient(GradientContext& g) {
  if (!g.Bool("is_training")) return g.Invalid("To use ", g.op(), " in gradients, is_training must be set to True.");
  std::vector<Output> inputs;
  for (int i = 0; i < g.input_count(); ++i) inputs.push_back(g.input(i));
  for (int i = 0; i < 3; ++i) inputs.push_back(g.output(i));
  for (int i = 0; i < 3; ++i) inputs.push_back(g.dy(i));
  for (int i = 3; i < g.output_count(); ++i) inputs.push_back(g.output(i));
  std::vector<Attribute> attributes;
  for (const char* name : {"rnn_mode", "input_mode", "direction", "dropout", "seed", "seed2"})
    attributes.emplace_back(name, g.Raw(name));
  if (kVersion == 3) {
    for (const char* name : {"num_proj", "time_major"}) attributes.emplace_back(name, g.Raw(name));
  }
  const int64_t node = g.Node(kVersion == 1   ? "CudnnRNNBackprop"
                              : kVersion == 2 ? "CudnnRNNBackpropV2"
                                              : "CudnnRNNBackpropV3",
                              inputs, attributes);
  for (int32_t i = 0; i < 4; ++i) g.SetDx(i, {node, i, 0});
}

static void BackpropShape(ShapeContext& c) {
  for (int i = 0; i < 4; ++i) c.SetOutput(i, c.Input(i));
}

TENON_OP(kCudnnRNN) = DefineOp({
    .name = "CudnnRNN",
    .inputs = TENON_RNN_INPUTS,
    .outputs = TENON_RNN_OUTPUTS,
    .attrs = TENON_RNN_KIND "; is_training: bool = true",
    .constraints = TENON_RNN_RANKS,
    .doc = "Layers of recurrent cells over all steps of input [time, batch, inputs], from the states input_h and "
           "input_c [layers * directions, batch, cells]; "
           "a bidirectional layer has a second set of cells that goes through the steps backward. params: the weights "
           "of all layers, then all biases.",
    .traits = TENON_OP_STATEFUL | TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<RnnShape<1>>,
    .gradient = GradientFunction<RnnGradient<1>>,
});

TENON_OP(kCudnnRNNV2) = DefineOp({
    .name = "CudnnRNNV2",
    .inputs = TENON_RNN_INPUTS,
    .outputs = TENON_RNN_OUTPUTS ", host_reserved: int8",
    .attrs = TENON_RNN_KIND "; is_training: bool = true",
    .constraints = TENON_RNN_RANKS,
    .doc = "CudnnRNN; host_reserved is empty.",
    .traits = TENON_OP_STATEFUL | TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<RnnShape<2>>,
    .gradient = GradientFunction<RnnGradient<2>>,
});

TENON_OP(kCudnnRNNV3) = DefineOp({
    .name = "CudnnRNNV3",
    .inputs = TENON_RNN_INPUTS ", sequence_lengths: int32",
    .outputs = TENON_RNN_OUTPUTS ", host_reserved: int8",
    .attrs = TENON_RNN_KIND "; num_proj: int = 0; is_training: bool = true; time_major: bool = true",
    .constraints = TENON_RNN_RANKS "; rank(sequence_lengths) == 1",
    .doc = "CudnnRNN of sequences of their own lengths, behind which the output is 0; without time_major the batch "
           "comes first, also of the states.",
    .traits = TENON_OP_STATEFUL | TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<RnnShape<3>>,
    .gradient = GradientFunction<RnnGradient<3>>,
});

static constexpr std::string_view kBackpropOutputs =
    "input_backprop: T, input_h_backprop: T, input_c_backprop: T, params_backprop: T";

TENON_OP(kCudnnRNNBackprop) = DefineOp({
    .name = "CudnnRNNBackprop",
    .inputs = TENON_RNN_INPUTS ", " TENON_RNN_GRADIENTS,
    .outputs = kBackpropOutputs,
    .attrs = TENON_RNN_KIND,
    .constraints = TENON_RNN_RANKS,
    .doc = "The gradient of CudnnRNN.",
    .traits = TENON_OP_STATEFUL | TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<BackpropShape>,
});

TENON_OP(kCudnnRNNBackpropV2) = DefineOp({
    .name = "CudnnRNNBackpropV2",
    .inputs = TENON_RNN_INPUTS ", " TENON_RNN_GRADIENTS ", host_reserved: int8",
    .outputs = kBackpropOutputs,
    .attrs = TENON_RNN_KIND,
    .constraints = TENON_RNN_RANKS,
    .doc = "The gradient of CudnnRNNV2.",
    .traits = TENON_OP_STATEFUL | TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<BackpropShape>,
});

TENON_OP(kCudnnRNNBackpropV3) = DefineOp({
    .name = "CudnnRNNBackpropV3",
    .inputs = TENON_RNN_INPUTS ", sequence_lengths: int32, " TENON_RNN_GRADIENTS ", host_reserved: int8",
    .outputs = kBackpropOutputs,
    .attrs = TENON_RNN_KIND "; num_proj: int = 0; time_major: bool = true",
    .constraints = TENON_RNN_RANKS "; rank(sequence_lengths) == 1",
    .doc = "The gradient of CudnnRNNV3.",
    .traits = TENON_OP_STATEFUL | TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<BackpropShape>,
});

static void ParamsSizeShape(ShapeContext& c) {
  for (int i = 0; i < 3; ++i) c.WithRank(i, 0);
  c.SetOutput(0, {1});
}

// gates * cells * directions times (inputs + cells + two biases) for each layer; of later layers the inputs are
// directions * cells.
static void DecomposeParamsSize(DecomposeContext& d) {
  if (d.Int("num_proj") != 0)
    return d.Fail(TENON_UNIMPLEMENTED, "num_proj is ", d.Int("num_proj"), "; projections are cuDNN's alone");
  if (d.String("input_mode") != "linear_input") {
    return d.Fail(TENON_UNIMPLEMENTED, "input_mode '", d.String("input_mode"),
                  "' may skip the weights of the input, which is cuDNN's alone; take linear_input");
  }
  const uint32_t dtype = d.Type("S");
  const std::string_view mode = d.String("rnn_mode");
  const int64_t gates = mode == "lstm"  ? 4
                        : mode == "gru" ? 3
                                        : 1,
                directions = d.String("direction") == "bidirectional" ? 2 : 1;
  const Output layers = d.Cast(d.input(0), dtype), cells = d.Cast(d.input(1), dtype),
               inputs = d.Cast(d.input(2), dtype);
  const auto number = [&](int64_t value) { return d.Number(value, dtype); };
  const Output own = d.Add(cells, number(2));
  const Output first = d.Add(inputs, own), later = d.Add(d.Mul(cells, number(directions)), own);
  const Output all = d.Add(first, d.Mul(d.Sub(layers, number(1)), later));
  d.SetOutput(0, d.Reshape(d.Mul(d.Mul(cells, number(gates * directions)), all), d.Vector({1})));
}

TENON_OP(kCudnnRNNParamsSize) = DefineOp({
    .name = "CudnnRNNParamsSize",
    .inputs = "num_layers: int32, num_units: int32, input_size: int32",
    .outputs = "params_size: S",
    .attrs = "T: {bfloat16, half, float, double}; S: {int32, int64}; rnn_mode: {'rnn_relu', 'rnn_tanh', 'lstm', 'gru'} "
             "= 'lstm'; "
             "input_mode: {'linear_input', 'skip_input', 'auto_select'} = 'linear_input'; direction: "
             "{'unidirectional', 'bidirectional'} = 'unidirectional'; "
             "dropout: float = 0; seed: int = 0; seed2: int = 0; num_proj: int = 0",
    .constraints = "rank(num_layers) == 0; rank(num_units) == 0; rank(input_size) == 0; value(num_layers) > 0; "
                   "value(num_units) > 0; value(input_size) >= 0",
    .doc = "How many parameters CudnnRNN takes, as a vector of one number.",
    .shape = ShapeFunction<ParamsSizeShape>,
    .decompose = DecomposeFunction<DecomposeParamsSize>,
});

}  // namespace tenon::ops
