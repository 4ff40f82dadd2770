// SPDX-License-Identifier: Apache-2.0
#include "fuse/attention.h"

#include <algorithm>
#include <map>

#include "code/attention.h"
#include "fuse/attention_pattern.h"
#include "kernels/kernel.h"

namespace tenon::gpu {
namespace {

constexpr int64_t kMostBlocksOfDim = 65535;
constexpr int kOperands = 5;  // query, key, value, out, mask
constexpr int32_t kRocm = 10;  // DLPack's number

// Of an operand whose dims have labels: the step of each, 0 where it broadcasts.
std::map<int, int64_t> StepsOf(const DimLabels& labels, sdk::Dims dims, const std::map<int, int64_t>& sizes) {
  std::map<int, int64_t> steps;
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

// The dims that are batches: in how many steps of which sizes all operands are walked along.
struct Batches {
  struct Dim {
    int64_t size;
    int64_t steps[kOperands];
  };
  std::vector<Dim> dims;  // slowest first

  void Add(const Dim& dim) {
    if (dim.size == 1) return;
    bool merges = !dims.empty();
    for (int i = 0; merges && i < kOperands; ++i) merges = dims.back().steps[i] == dim.steps[i] * dim.size;
    if (!merges) return dims.push_back(dim);
    dims.back().size = sdk::Multiply(dims.back().size, dim.size);
    std::copy(std::begin(dim.steps), std::end(dim.steps), dims.back().steps);
  }
};

class AttentionExecutable final : public Executable {
 public:
  AttentionExecutable(const AttentionParams& params, Function code, const AttentionTile& tile, uint64_t row_bytes) : params_(params), code_(code), tile_(tile), row_bytes_(row_bytes) {}

  void Run(const tenon_frame& frame) const override {
    if (params_.queries == 0 || params_.batches == 0) return SubmitTo(frame, [](Launcher&) {});
    AttentionParams now = params_;
    now.query = sdk::Data<const void>(*frame.inputs[inputs[0]]);
    now.key = sdk::Data<const void>(*frame.inputs[inputs[1]]);
    now.value = sdk::Data<const void>(*frame.inputs[inputs[2]]);
    now.mask = inputs[3] < 0 ? nullptr : sdk::Data<const void>(*frame.inputs[inputs[3]]);
    now.out = sdk::Data<void>(*frame.outputs[0]);
    const auto bits = [](const void* address) { return reinterpret_cast<uintptr_t>(address); };
    now.even = (row_bytes_ | bits(now.query) | bits(now.key) | bits(now.value) | bits(now.out)) % 16 == 0;
    const auto tiles = static_cast<uint32_t>((params_.queries + tile_.queries - 1) / tile_.queries);
    SubmitTo(frame, [&](Launcher& on) {
      on(code_, Grid{{tiles, static_cast<uint32_t>(params_.batch_blocks), 1}, static_cast<uint32_t>(AttentionThreads(tile_))}, now);
    });
  }
  int32_t inputs[4] = {-1, -1, -1, -1};  // of the frame: query, key, value, mask; -1: none

 private:
  const AttentionParams params_;
  const Function code_;
  const AttentionTile tile_;
  const uint64_t row_bytes_;  // the bits of all distances between rows and batches
};

class Compilation {
 public:
  Compilation(const tenon_compile_args& args, Device& device) : args_(args), cursor_(*args.cursor), services_(*cursor_.node_services), device_(device) {}

  std::unique_ptr<Executable> Make() {
    Recognise();
    ReadSizes();
    AttentionParams p = {};
    p.queries = sizes_.at(found_.query_label);
    p.keys = sizes_.at(found_.key_label);
    p.depth = static_cast<int32_t>(sizes_.at(found_.depth_label));
    p.value_depth = static_cast<int32_t>(sizes_.at(found_.value_depth_label));
    if (p.keys == 0 || p.keys > INT32_MAX || p.queries > INT32_MAX) sdk::Fail(TENON_UNIMPLEMENTED, "attention of ", p.queries, " queries and ", p.keys, " keys");
    p.scale = static_cast<float>(found_.scale);
    p.mask_scale = static_cast<float>(found_.mask_scale);
    p.shift = static_cast<float>(found_.shift);
    Lay(&p);
    const int64_t depth = std::max(p.depth, p.value_depth);
    const uint32_t dtype = View(found_.query).dtype;
    // AMD's have others.
    const bool by_cores = dtype != TENON_DT_FLOAT && device_.facts().dl_device_type != kRocm;
    const AttentionTile plain = depth <= 32 ? kShortHeads : depth <= 64 ? kMiddleHeads : kLongHeads, cores = depth <= 32 ? kShortCores : depth <= 64 ? kMiddleCores : kLongCores;
    const AttentionTile& tile = by_cores ? cores : plain;
    Function code = nullptr;
    const std::string name = sdk::Concat(by_cores ? "AttentionCores_" : "Attention_", tile.depth, "_", Suffix(dtype));
    const Outcome outcome = device_.FindFunction(name, &code);
    if (!outcome.ok()) sdk::Fail(outcome.code, outcome.message);
    auto made = std::make_unique<AttentionExecutable>(p, code, tile, RowBits(p) * sdk::ElementSize(dtype));
    made->inputs[0] = PlaceOf(found_.query);
    made->inputs[1] = PlaceOf(found_.key);
    made->inputs[2] = PlaceOf(found_.value);
    if (found_.mask.node >= 0) made->inputs[3] = PlaceOf(found_.mask);
    return made;
  }

 private:
  const tenon_tensor_view& View(const tenon_output& edge) const { return ViewOf(args_, edge); }
  sdk::Dims DimsAt(const tenon_output& edge) const { return sdk::DimsOf(View(edge)); }
  bool IsMember(int64_t id) const { return std::find(args_.nodes, args_.nodes + args_.node_count, id) != args_.nodes + args_.node_count; }

  void Recognise() {
    int64_t softmax = -1;
    for (uint64_t i = 0; i < args_.node_count; ++i) {
      if (sdk::ToText(services_.op(cursor_.node(cursor_.graph, args_.nodes[i]))) == "Softmax") softmax = args_.nodes[i];
    }
    const auto dims = [&](const tenon_output& edge) -> std::optional<std::vector<int64_t>> {
      const sdk::Dims of = DimsAt(edge);
      return std::vector<int64_t>(of.begin(), of.end());
    };
    std::optional<AttentionPattern> found;
    if (softmax >= 0 && args_.output_count == 1) {
      found = FindAttention(cursor_, softmax, args_.outputs[0].node, [&](int64_t id) { return IsMember(id); }, dims);
    }
    if (!found.has_value() || found->nodes.size() != args_.node_count) sdk::Fail(TENON_UNIMPLEMENTED, "attention whose scores or probabilities somebody else reads");
    found_ = *std::move(found);
  }

  void ReadSizes() {
    const sdk::Dims scores = DimsAt({found_.scores, 0, 0}), query = DimsAt(found_.query), value = DimsAt(found_.value);
    if (scores.size() != found_.score_labels.size()) sdk::Fail(TENON_INTERNAL, "scores of the shape ", scores);
    // Nothing on the way makes more of the scores than the product.
    if (!std::ranges::equal(scores, DimsAt({found_.softmax, 0, 0}))) sdk::Fail(TENON_UNIMPLEMENTED, "attention whose mask is larger than the scores");
    for (size_t i = 0; i < scores.size(); ++i) sizes_[found_.score_labels[i]] = scores[i];
    sizes_[found_.depth_label] = query.back();
    sizes_[found_.value_depth_label] = value.back();
  }

  void Lay(AttentionParams* p) const {
    const struct {
      const DimLabels& labels;
      sdk::Dims dims;
      AttentionOperand* at;
      int rows;  // the label of rows; 0: none
    } operands[kOperands] = {{found_.query_labels, DimsAt(found_.query), &p->query_at, found_.query_label},
                             {found_.key_labels, DimsAt(found_.key), &p->key_at, found_.key_label},
                             {found_.value_labels, DimsAt(found_.value), &p->value_at, found_.key_label},
                             {found_.out_labels, DimsAt({found_.values, 0, 0}), &p->out_at, found_.query_label},
                             {MaskLabels(), MaskDims(), &p->mask_at, found_.query_label}};
    std::map<int, int64_t> steps[kOperands];
    for (int i = 0; i < kOperands; ++i) {
      if (operands[i].labels.size() != operands[i].dims.size()) sdk::Fail(TENON_INTERNAL, "an operand of attention of the shape ", operands[i].dims);
      steps[i] = StepsOf(operands[i].labels, operands[i].dims, sizes_);
      operands[i].at->row = StepOf(steps[i], operands[i].rows);
    }
    CheckWhole(operands[1].labels, operands[1].dims, found_.key_label);
    CheckWhole(operands[1].labels, operands[1].dims, found_.depth_label);
    CheckWhole(operands[2].labels, operands[2].dims, found_.key_label);
    p->mask_column = StepOf(steps[4], found_.key_label);
    Batches batches;
    for (const int label : found_.score_labels) {
      if (label == found_.query_label || label == found_.key_label) continue;
      Batches::Dim dim = {sizes_.at(label), {}};
      for (int i = 0; i < kOperands; ++i) dim.steps[i] = StepOf(steps[i], label);
      batches.Add(dim);
    }
    if (batches.dims.size() > kMostAttentionDims) sdk::Fail(TENON_UNIMPLEMENTED, "attention whose batches alternate ", batches.dims.size(), " times");
    p->rank = static_cast<int32_t>(batches.dims.size());
    p->batches = 1;
    for (size_t d = 0; d < batches.dims.size(); ++d) {
      p->dims[d] = batches.dims[d].size;
      p->batches = sdk::Multiply(p->batches, batches.dims[d].size);
      for (int i = 0; i < kOperands; ++i) operands[i].at->batch[d] = batches.dims[d].steps[i];
    }
    p->batch_blocks = std::min(p->batches, kMostBlocksOfDim);
  }
  static int64_t StepOf(const std::map<int, int64_t>& steps, int label) {
    const auto found = steps.find(label);
    return found == steps.end() ? 0 : found->second;
  }
  void CheckWhole(const DimLabels& labels, sdk::Dims dims, int label) const {
    for (size_t i = 0; i < labels.size(); ++i) {
      if (labels[i] == label && dims[i] != sizes_.at(label)) sdk::Fail(TENON_UNIMPLEMENTED, "attention whose keys and values do not fit");
    }
  }
  sdk::Dims MaskDims() const { return found_.mask.node < 0 ? sdk::Dims() : DimsAt(found_.mask); }
  // The mask's dims are the scores' last ones.
  DimLabels MaskLabels() const {
    const size_t rank = MaskDims().size();
    if (rank > found_.score_labels.size()) sdk::Fail(TENON_UNIMPLEMENTED, "attention whose mask has more dims than the scores");
    return {found_.score_labels.end() - static_cast<ptrdiff_t>(rank), found_.score_labels.end()};
  }
  static uint64_t RowBits(const AttentionParams& p) {
    int64_t all = 0;
    for (const AttentionOperand* operand : {&p.query_at, &p.key_at, &p.value_at, &p.out_at}) {
      all |= operand->row;
      for (int d = 0; d < p.rank; ++d) all |= operand->batch[d];
    }
    return static_cast<uint64_t>(all);
  }
  int32_t PlaceOf(const tenon_output& edge) const {
    for (uint64_t i = 0; i < args_.input_count; ++i) {
      if (args_.inputs[i].node == edge.node && args_.inputs[i].index == edge.index) return static_cast<int32_t>(i);
    }
    sdk::Fail(TENON_INTERNAL, "an operand of attention does not enter its set");
  }

  const tenon_compile_args& args_;
  const tenon_graph_cursor& cursor_;
  const tenon_node_services& services_;
  Device& device_;
  AttentionPattern found_;
  std::map<int, int64_t> sizes_;  // by label
};

// The node that alone reads the node's value, as far as the graph says; -1: none, or several, or it stands so far behind that to look for it would take long.
int64_t ReaderOf(const sdk::RegionGraph& graph, const std::vector<int>& readers, int64_t id) {
  if (readers[static_cast<size_t>(id)] != 1) return -1;
  constexpr int64_t kFar = 1024;
  const int64_t end = std::min(static_cast<int64_t>(graph.size()), id + kFar);
  for (int64_t reader = id + 1; reader < end; ++reader) {
    const auto& inputs = graph.at(reader).inputs;
    if (std::any_of(inputs.begin(), inputs.end(), [&](const tenon_output& input) { return input.node == id; })) return reader;
  }
  return -1;
}

}  // namespace

std::vector<int64_t> NodesOfAttention(const tenon_graph_cursor& cursor, const sdk::RegionGraph& graph, const std::vector<int>& readers,
                                      const std::vector<bool>& ours, int64_t softmax) {
  if (graph.at(softmax).op != "Softmax") return {};
  const int64_t values = ReaderOf(graph, readers, softmax);
  const auto lives_with = [&](int64_t id) { return ours[static_cast<size_t>(id)] && graph.at(id).dead_with == graph.at(softmax).dead_with; };
  if (values < 0 || !lives_with(values)) return {};
  const auto dims = [&](const tenon_output& edge) -> std::optional<std::vector<int64_t>> {
    tenon_shape shape = {nullptr, -1, 0};
    if (edge.node >= 0) sdk::Check(cursor.output_shape(cursor.graph, edge, &shape));
    if (shape.rank < 0) return {};
    return std::vector<int64_t>(shape.dims, shape.dims + shape.rank);
  };
  const auto found = FindAttention(cursor, softmax, values, [&](int64_t id) { return lives_with(id) && readers[static_cast<size_t>(id)] == 1; }, dims);
  return found.has_value() ? found->nodes : std::vector<int64_t>();
}

bool IsAttention(const tenon_compile_args& args) {
  return std::any_of(args.nodes, args.nodes + args.node_count, [&](int64_t id) { return IsBatchProduct(*args.cursor, id); });
}

std::unique_ptr<Executable> MakeAttention(const tenon_compile_args& args, Device& device) { return Compilation(args, device).Make(); }

}  // namespace tenon::gpu
