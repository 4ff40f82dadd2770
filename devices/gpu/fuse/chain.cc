// SPDX-License-Identifier: Apache-2.0
#include "fuse/chain.h"

#include <algorithm>
#include <set>

#include "code/fused.h"
#include "driver.h"
#include "kernels/kernel.h"
#include "tenon/extras/walk/broadcast.h"

namespace tenon::gpu {
namespace {

// How inputs of any shape walk beside the elements of `out`; dims over which all walk on evenly are one.
struct Walk {
  Walk(const std::vector<sdk::Dims>& inputs, sdk::Dims out) {
    total = sdk::Count(out);
    const std::vector<sdk::BroadcastDim> dims = sdk::BroadcastDims(inputs, out, "a chain");
    for (const sdk::Dims& input : inputs) {
      if (input.size() > out.size() && sdk::Count(input) != 1)
        sdk::Fail(TENON_UNIMPLEMENTED, "a chain with shapes ", input, " and ", out);
    }
    if (dims.size() > kMostFusedDims + 1)
      sdk::Fail(TENON_UNIMPLEMENTED, "a chain whose shapes alternate ", dims.size(), " times");
    spreads.resize(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      spreads[i] = sdk::Count(inputs[i]) == 1 ? FusedInput::kSingle
                   : dims.size() <= 1         ? FusedInput::kEven
                                              : FusedInput::kStrided;
      if (sdk::Count(inputs[i]) == total && spreads[i] == FusedInput::kStrided) spreads[i] = FusedInput::kEven;
    }
    inner = dims.empty() ? 1 : dims.front().size;
    strides.resize(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) steps.push_back(dims.empty() ? 0 : dims.front().steps[i]);
    for (size_t d = dims.size(); d-- > 1;) {
      outer.push_back(dims[d].size);
      for (size_t i = 0; i < inputs.size(); ++i) strides[i].push_back(dims[d].steps[i]);
    }
  }
  int64_t total = 0, inner = 1;
  std::vector<int64_t> outer;  // slowest first
  std::vector<FusedInput::Spread> spreads;
  std::vector<int64_t> steps;                 // of each input, along a row
  std::vector<std::vector<int64_t>> strides;  // and along the outer dims
};

class Compilation {
 public:
  Compilation(const tenon_compile_args& args, Device& device) : args_(args), device_(device) {}

  std::unique_ptr<Executable> Make() {
    const sdk::Dims out = sdk::DimsOf(ViewOf(args_.outputs[0]));
    for (uint64_t i = 1; i < args_.output_count; ++i) {
      const sdk::Dims other = sdk::DimsOf(ViewOf(args_.outputs[i]));
      if (!std::equal(out.begin(), out.end(), other.begin(), other.end()))
        sdk::Fail(TENON_UNIMPLEMENTED, "a chain with outputs of shapes ", out, " and ", other);
    }
    auto made = std::make_unique<ChainExecutable>();
    made->inputs = InputsRead(args_);
    std::vector<sdk::Dims> shapes;
    for (const int32_t i : made->inputs) shapes.push_back(sdk::DimsOf(ViewOf(args_.inputs[i])));
    const Walk walk(shapes, out);
    for (size_t i = 0; i < made->inputs.size(); ++i) {
      const tenon_output& edge = args_.inputs[made->inputs[i]];
      const bool strided = walk.spreads[i] == FusedInput::kStrided;
      kernel_.inputs.push_back({ViewOf(edge).dtype, walk.spreads[i], strided ? walk.steps[i] : 0,
                                strided ? walk.strides[i] : std::vector<int64_t>()});
      if (strided) {
        kernel_.inner = walk.inner;
        kernel_.dims = walk.outer;
      }
      operand_[{edge.node, edge.index}] = -1 - static_cast<int>(i);
    }
    for (uint64_t i = 0; i < args_.node_count; ++i) {
      kernel_.nodes.push_back(ReadNode(args_, args_.nodes[i], operand_));
      operand_[{args_.nodes[i], 0}] = static_cast<int>(i);
    }
    for (uint64_t i = 0; i < args_.output_count; ++i)
      kernel_.outputs.push_back(operand_.at({args_.outputs[i].node, args_.outputs[i].index}));
    kernel_.wide = walk.total > INT32_MAX;
    made->total = walk.total;
    made->pack = PackOf(kernel_);
    for (const FusedInput& input : kernel_.inputs) made->is_packed.push_back(IsPacked(kernel_, input));
    const Outcome outcome = device_.FindCompiled(SourceOf(kernel_), kFusedName, &made->code);
    if (!outcome.ok()) sdk::Fail(outcome.code, outcome.message);
    std::vector<uint32_t> results;
    for (const int output : kernel_.outputs) results.push_back(kernel_.nodes[static_cast<size_t>(output)].result);
    AddInPlace(kernel_.inputs, results, made.get());
    return made;
  }

 private:
  const tenon_tensor_view& ViewOf(const tenon_output& output) const { return gpu::ViewOf(args_, output); }

  const tenon_compile_args& args_;
  Device& device_;
  FusedKernel kernel_;
  OperandNames operand_;
};

}  // namespace

void ChainExecutable::Run(const tenon_frame& frame) const {
  FusedParams now = {total, 1, {}, {}};
  uintptr_t packed = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    now.inputs[i] = sdk::Data<const void>(*frame.inputs[inputs[i]]);
    if (is_packed[i]) packed |= reinterpret_cast<uintptr_t>(now.inputs[i]);
  }
  for (int32_t i = 0; i < frame.output_count; ++i) {
    now.outputs[i] = sdk::Data<void>(*frame.outputs[i]);
    packed |= reinterpret_cast<uintptr_t>(now.outputs[i]);
  }
  now.even = packed % 16 == 0 ? 1 : 0;
  SubmitTo(frame, [&](Launcher& on) {
    if (!grid.has_value()) return on(code, Flat(total, pack), now);
    if (total > 0) on(code, *grid, now);
  });
}

std::vector<int32_t> InputsRead(const tenon_compile_args& args) {
  const tenon_graph_cursor& cursor = *args.cursor;
  std::set<std::pair<int64_t, int32_t>> read, known;
  for (uint64_t n = 0; n < args.node_count; ++n) {
    const tenon_node* node = cursor.node(cursor.graph, args.nodes[n]);
    const int32_t inputs = cursor.node_services->input_count(node),
                  operands = OperandsOf(sdk::ToText(cursor.node_services->op(node)), inputs);
    for (int32_t i = 0; i < inputs; ++i) {
      tenon_output source = {-1, 0, 0};
      sdk::Check(cursor.input(cursor.graph, args.nodes[n], i, &source));
      (i < operands ? read : known).insert({source.node, source.index});
    }
  }
  std::vector<int32_t> numbers;
  for (uint64_t i = 0; i < args.input_count; ++i) {
    const std::pair<int64_t, int32_t> edge = {args.inputs[i].node, args.inputs[i].index};
    if (!read.contains(edge)) continue;
    if (known.contains(edge)) sdk::Fail(TENON_UNIMPLEMENTED, "a chain that computes with axes or shapes of its own");
    numbers.push_back(static_cast<int32_t>(i));
  }
  if (numbers.size() > kMostFusedInputs || args.output_count > kMostFusedOutputs) {
    sdk::Fail(TENON_UNIMPLEMENTED, "a chain of ", numbers.size(), " inputs and ", args.output_count,
              " outputs; it may have ", kMostFusedInputs, " and ", kMostFusedOutputs);
  }
  return numbers;
}

FusedNode ReadNode(const tenon_compile_args& args, int64_t id, const OperandNames& names) {
  const tenon_graph_cursor& cursor = *args.cursor;
  const tenon_node_services& services = *cursor.node_services;
  const tenon_node* node = cursor.node(cursor.graph, id);
  const std::string_view op = sdk::ToText(services.op(node));
  FusedNode fused;
  fused.function = FusedFunction(op);
  const int32_t inputs = OperandsOf(op, services.input_count(node));
  for (int32_t i = 0; i < inputs; ++i) {
    tenon_output source = {-1, 0, 0};
    sdk::Check(cursor.input(cursor.graph, id, i, &source));
    fused.operands.push_back(names.at({source.node, source.index}));
  }
  fused.result = services.output_dtype(node, 0);
  if (op == "LeakyRelu" || op == "LeakyReluGrad") {
    tenon_attr_value alpha = {};
    sdk::Check(services.attr(node, TENON_SPAN("alpha"), &alpha));
    fused.alpha = *static_cast<const float*>(alpha.data);
  }
  return fused;
}

// A thread reads all that stands at its place before it writes there.
void AddInPlace(const std::vector<FusedInput>& inputs, const std::vector<uint32_t>& outputs, ChainExecutable* made) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].spread != FusedInput::kEven) continue;
    for (size_t k = 0; k < outputs.size(); ++k) {
      if (sdk::ElementSize(inputs[i].dtype) == sdk::ElementSize(outputs[k]))
        made->in_place.push_back({made->inputs[i], static_cast<int32_t>(k)});
    }
  }
}

std::unique_ptr<Executable> MakeChain(const tenon_compile_args& args, Device& device) {
  return Compilation(args, device).Make();
}

}  // namespace tenon::gpu
