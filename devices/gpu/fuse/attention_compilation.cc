// SPDX-License-Identifier: Apache-2.0
#include "fuse/attention_compilation.h"

#include <algorithm>
#include <string>

#include "kernels/kernel.h"

namespace tenon::gpu {
namespace {

constexpr int64_t kMostBlocksOfDim = 65535;
constexpr size_t kMostOperands = 8;  // query, key, value, out, mask, and three gradients

using Steps = std::map<int, int64_t>;  // by label

// Of an operand whose dims have labels: the step of each, 0 where it broadcasts.
Steps StepsOf(const DimLabels& labels, sdk::Dims dims, const std::map<int, int64_t>& sizes) {
  Steps steps;
  int64_t step = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    const auto size = sizes.find(labels[i]);
    if (size != sizes.end() && dims[i] != size->second && dims[i] != 1) {
      sdk::Fail(TENON_UNIMPLEMENTED, "attention whose dims do not fit: ", dims[i], " and ", size->second);
    }
    steps[labels[i]] = size != sizes.end() && dims[i] != size->second ? 0 : step;
    step = sdk::Multiply(step, dims[i]);
  }
  return steps;
}
int64_t StepOf(const Steps& steps, int label) {
  const auto found = steps.find(label);
  return found == steps.end() ? 0 : found->second;
}

// The dims that are batches: in how many steps of which sizes all operands are walked along.
struct Batches {
  struct Dim {
    int64_t size;
    int64_t steps[kMostOperands];
  };
  std::vector<Dim> dims;  // slowest first

  void Add(const Dim& dim) {
    if (dim.size == 1) return;
    bool merges = !dims.empty();
    for (size_t i = 0; merges && i < kMostOperands; ++i) merges = dims.back().steps[i] == dim.steps[i] * dim.size;
    if (!merges) return dims.push_back(dim);
    dims.back().size = sdk::Multiply(dims.back().size, dim.size);
    std::copy(std::begin(dim.steps), std::end(dim.steps), dims.back().steps);
  }
};

}  // namespace

DimsOfEdge AttentionCompilation::DimsOfEdges() const {
  return [this](const tenon_output& edge) -> std::optional<std::vector<int64_t>> {
    const sdk::Dims of = DimsAt(edge);
    return std::vector<int64_t>(of.begin(), of.end());
  };
}

int64_t AttentionCompilation::NodeOf(std::string_view op) const {
  for (uint64_t i = 0; i < args_.node_count; ++i) {
    if (sdk::ToText(services_.op(cursor_.node(cursor_.graph, args_.nodes[i]))) == op) return args_.nodes[i];
  }
  return -1;
}

int32_t AttentionCompilation::PlaceOf(const tenon_output& edge) const {
  for (uint64_t i = 0; i < args_.input_count; ++i) {
    if (args_.inputs[i].node == edge.node && args_.inputs[i].index == edge.index) return static_cast<int32_t>(i);
  }
  sdk::Fail(TENON_INTERNAL, "an operand of attention does not enter its set");
}

AttentionParams AttentionCompilation::Read(const AttentionPattern& of, const tenon_output& out,
                                           std::vector<Operand> operands) {
  ReadSizes(of, out);
  AttentionParams p = {};
  p.queries = sizes_.at(of.query_label);
  p.keys = sizes_.at(of.key_label);
  p.depth = static_cast<int32_t>(sizes_.at(of.depth_label));
  p.value_depth = static_cast<int32_t>(sizes_.at(of.value_depth_label));
  if (p.keys == 0 || p.keys > INT32_MAX || p.queries > INT32_MAX)
    sdk::Fail(TENON_UNIMPLEMENTED, "attention of ", p.queries, " queries and ", p.keys, " keys");
  p.scale = static_cast<float>(of.scale);
  p.mask_scale = static_cast<float>(of.mask_scale);
  p.shift = static_cast<float>(of.shift);
  const Operand own[] = {{of.query_labels, DimsAt(of.query), &p.query_at, of.query_label},
                         {of.key_labels, DimsAt(of.key), &p.key_at, of.key_label},
                         {of.value_labels, DimsAt(of.value), &p.value_at, of.key_label},
                         {of.out_labels, DimsAt(out), &p.out_at, of.query_label, true},
                         {MaskLabels(of), MaskDims(of), &p.mask_at, of.query_label}};
  operands.insert(operands.begin(), std::begin(own), std::end(own));
  CheckWhole(of.key_labels, DimsAt(of.key), of.key_label);
  CheckWhole(of.key_labels, DimsAt(of.key), of.depth_label);
  CheckWhole(of.value_labels, DimsAt(of.value), of.key_label);
  CheckWhole(of.value_labels, DimsAt(of.value), of.value_depth_label);
  Lay(of, operands, &p);
  return p;
}

void AttentionCompilation::ReadSizes(const AttentionPattern& of, const tenon_output& out) {
  const sdk::Dims scores = DimsAt({of.scores, 0, 0});
  if (scores.size() != of.score_labels.size()) sdk::Fail(TENON_INTERNAL, "scores of the shape ", scores);
  // Nothing on the way makes more of the scores than the product.
  if (!std::ranges::equal(scores, DimsAt({of.softmax, 0, 0})))
    sdk::Fail(TENON_UNIMPLEMENTED, "attention whose mask is larger than the scores");
  for (size_t i = 0; i < scores.size(); ++i) sizes_[of.score_labels[i]] = scores[i];
  sizes_[of.depth_label] = DimsAt(of.query).back();
  sizes_[of.value_depth_label] = DimsAt(out).back();
}

void AttentionCompilation::Lay(const AttentionPattern& of, const std::vector<Operand>& operands,
                               AttentionParams* p) const {
  std::vector<Steps> steps;
  for (const Operand& operand : operands) {
    if (operand.labels.size() != operand.dims.size())
      sdk::Fail(TENON_INTERNAL, "an operand of attention of the shape ", operand.dims);
    steps.push_back(StepsOf(operand.labels, operand.dims, sizes_));
    operand.at->row = StepOf(steps.back(), operand.rows);
    for (const int label : operand.labels) {
      if (operand.is_whole) CheckWhole(operand.labels, operand.dims, label);
    }
  }
  p->mask_column = StepOf(steps[4], of.key_label);
  Batches batches;
  for (const int label : of.score_labels) {
    if (label == of.query_label || label == of.key_label) continue;
    Batches::Dim dim = {sizes_.at(label), {}};
    for (size_t i = 0; i < operands.size(); ++i) dim.steps[i] = StepOf(steps[i], label);
    batches.Add(dim);
  }
  if (batches.dims.size() > kMostAttentionDims)
    sdk::Fail(TENON_UNIMPLEMENTED, "attention whose batches alternate ", batches.dims.size(), " times");
  p->rank = static_cast<int32_t>(batches.dims.size());
  p->batches = 1;
  for (size_t d = 0; d < batches.dims.size(); ++d) {
    p->dims[d] = batches.dims[d].size;
    p->batches = sdk::Multiply(p->batches, batches.dims[d].size);
    for (size_t i = 0; i < operands.size(); ++i) operands[i].at->batch[d] = batches.dims[d].steps[i];
  }
  p->batch_blocks = std::min(p->batches, kMostBlocksOfDim);
}

void AttentionCompilation::CheckWhole(const DimLabels& labels, sdk::Dims dims, int label) const {
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] == label && dims[i] != sizes_.at(label))
      sdk::Fail(TENON_UNIMPLEMENTED, "attention whose operands do not fit each other");
  }
}

// The mask's dims are the scores' last ones.
DimLabels AttentionCompilation::MaskLabels(const AttentionPattern& of) const {
  const size_t rank = MaskDims(of).size();
  if (rank > of.score_labels.size())
    sdk::Fail(TENON_UNIMPLEMENTED, "attention whose mask has more dims than the scores");
  return {of.score_labels.end() - static_cast<ptrdiff_t>(rank), of.score_labels.end()};
}

uint64_t AttentionCompilation::RowBits(const AttentionParams& p, const std::vector<const AttentionOperand*>& operands) {
  int64_t all = 0;
  for (const AttentionOperand* operand : operands) {
    all |= operand->row;
    for (int d = 0; d < p.rank; ++d) all |= operand->batch[d];
  }
  return static_cast<uint64_t>(all);
}

int AttentionCompilation::DepthOf(const AttentionParams& p) {
  const int32_t depth = std::max(p.depth, p.value_depth);
  return depth <= 32 ? 32 : depth <= 64 ? 64 : 128;
}

bool AttentionCompilation::IsByCores(uint32_t dtype) const {
  constexpr int32_t kRocm = 10;  // DLPack's number; AMD's have others
  return dtype != TENON_DT_FLOAT && device_.facts().dl_device_type != kRocm;
}

Function AttentionCompilation::FindCode(std::string_view name, int depth, uint32_t dtype) const {
  Function code = nullptr;
  const Outcome outcome = device_.FindFunction(sdk::Concat(name, depth, "_", Suffix(dtype)), &code);
  if (!outcome.ok()) sdk::Fail(outcome.code, outcome.message);
  return code;
}

}  // namespace tenon::gpu
