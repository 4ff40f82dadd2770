// SPDX-License-Identifier: Apache-2.0
#include "core/exec/plan/tile_program.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <set>

#include "core/base/plugin_call.h"
#include "core/exec/kernel/frame.h"
#include "core/exec/kernel/kernel_instance.h"
#include "core/exec/kernel/node_runner.h"
#include "core/exec/plan/plan.h"
#include "core/graph/graph.h"
#include "core/tensor/dtype.h"
#include "core/tensor/view.h"
#include "tenon/bytes/repeat.h"

namespace tenon::exec {

using graph::Edge;
using graph::Node;
using graph::NodeId;

namespace {

constexpr int64_t kMostTile = 2048,
                  kLeastTile = 256;  // elements; more cost less to begin, fewer stay nearer to the processor
constexpr int64_t kGrain = 64;                         // elements that tiles begin at a multiple of
constexpr int64_t kMostSlotBytes = 64 << 10;           // of a thread's stack
constexpr size_t kMostOperands = 8;                    // of a node
constexpr double kLeastCost = 0.1,
                 kMostCost = 1e6;  // nanoseconds of an element; what is less or more is taken for a few instructions

const tenon_tile* TileOf(const tenon_kernel_registration& kernel) {
  const tenon_tile* const tile = TENON_HAS(&kernel, tile) ? kernel.tile : nullptr;
  const bool is_known = tile != nullptr && TENON_HAS(tile, select) && tile->select != nullptr &&
                        tile->must_understand == 0 && View(tile->id) == TENON_EXTENSION_TILE;
  return is_known ? tile : nullptr;
}

// The node's function, by its kernel's answer; function NULL: none.
tenon_tile_args Select(const Node& node, const tenon_kernel_registration& kernel, const std::string& plugin,
                       const tenon_kernel* state) {
  const std::vector<uint32_t> types(node.input_types.begin(), node.input_types.end());
  tenon_tile_args args{
      TENON_HEAD(tenon_tile_args), state, types.data(), types.size(), node.output_types[0], 0, nullptr, nullptr, 0};
  const Status status = CallPlugin(plugin, "select", [&] { return TileOf(kernel)->select(&args); });
  if (!status.ok()) args.out_function = nullptr;
  args.input_dtypes = nullptr;
  return args;
}

bool IsTiledType(DType type) { return !IsRef(type) && IsPlain(type) && SizeOf(type) > 0; }

}  // namespace

bool MayBeTiled(const Plan& plan, NodeId id) {
  const NodeRunner* runner = plan.runner(id).get();
  if (runner == nullptr || runner->queued_on() != nullptr || runner->main_queue_only() ||
      runner->has(TENON_KERNEL_ASYNC | TENON_KERNEL_BLOCKING | TENON_KERNEL_STATEFUL | TENON_KERNEL_VIEW))
    return false;
  const tenon_kernel_registration& kernel = runner->registration();
  const Node& node = runner->node();
  if (TileOf(kernel) == nullptr || kernel.dynamic_outputs != 0 || node.output_types.size() != 1 ||
      node.input_types.empty() || node.input_types.size() > kMostOperands)
    return false;
  if (!IsTiledType(node.output_types[0]) || !std::all_of(node.input_types.begin(), node.input_types.end(), IsTiledType))
    return false;
  // What depends on attributes is known when the kernel has been made.
  return kernel.create != nullptr || Select(node, kernel, runner->plugin(), nullptr).out_function != nullptr;
}

// ---- Making ----

class TileProgram::Maker {
 public:
  Maker(const Plan& plan, const std::vector<NodeId>& nodes, const std::vector<Edge>& inputs,
        const std::vector<Edge>& outputs, const graph::ShapeInference& inference)
      : plan_(plan),
        graph_(plan.graph()),
        nodes_(nodes),
        inputs_(inputs),
        outputs_(outputs),
        inference_(inference),
        dims_(inference.facts({nodes[0], 0}).shape.dims()) {}

  Result<std::shared_ptr<const TileProgram>> Make() {
    const std::string label = StrCat(graph_.node(nodes_[0]).name, " and ", nodes_.size() - 1, " more");
    program_ = std::make_shared<TileProgram>(nodes_, label, plan_.runner(nodes_[0])->plugin());
    program_->dims_ = dims_;
    program_->total_ = std::accumulate(dims_.begin(), dims_.end(), int64_t{1}, std::multiplies<>());
    if (program_->total_ <= 1)
      return std::shared_ptr<const TileProgram>();  // kernels have a way of their own for one element
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (!PlaceInput(i)) return std::shared_ptr<const TileProgram>();
    FindLastReads();
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (inference_.facts({nodes_[i], 0}).shape.dims() != dims_) return std::shared_ptr<const TileProgram>();
      TENON_ASSIGN_OR_RETURN(const bool added, AddStep(i));
      if (!added) return std::shared_ptr<const TileProgram>();
    }
    if (!ChooseTile()) return std::shared_ptr<const TileProgram>();
    TakeOver();
    return std::shared_ptr<const TileProgram>(program_);
  }

 private:
  int32_t NewSlot() {
    if (free_.empty()) return program_->slots_++;
    const int32_t slot = free_.back();
    free_.pop_back();
    return slot;
  }

  // Where it is read; false: it is not of a shape that is broadcast to the program's.
  bool PlaceInput(size_t i) {
    const Edge edge = inputs_[i];
    const DType type = BaseType(graph_.TypeOf(edge));
    const std::vector<int64_t>& shape = inference_.facts(edge).shape.dims();
    Operand operand{Where::kInput, false, static_cast<int32_t>(i), SizeOf(type)};
    const int64_t count = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
    if (shape.size() > dims_.size()) return false;
    largest_ = std::max(largest_, operand.size);
    if (shape == dims_) {
    } else if (count == 1) {
      operand.is_scalar = true;
    } else {
      Broadcast broadcast{static_cast<int32_t>(i), NewSlot(), operand.size, std::vector<int64_t>(dims_.size(), 0),
                          false};
      int64_t stride = 1;
      for (size_t d = shape.size(); d-- > 0;) {
        const size_t at = d + dims_.size() - shape.size();
        if (shape[d] != dims_[at] && shape[d] != 1) return false;
        broadcast.strides[at] = shape[d] == 1 ? 0 : stride;
        stride *= shape[d];
      }
      program_->broadcasts_.push_back(std::move(broadcast));
      operand.where = Where::kSlot;
      operand.index = program_->broadcasts_.back().slot;
    }
    place_.emplace(edge, operand);
    return true;
  }

  void FindLastReads() {
    for (size_t i = 0; i < nodes_.size(); ++i)
      for (const Edge& edge : graph_.node(nodes_[i]).inputs) last_read_[edge] = i;
  }

  Result<bool> AddStep(size_t i) {
    const Node& node = graph_.node(nodes_[i]);
    NodeRunner& runner = *plan_.runner(nodes_[i]);
    std::vector<const graph::OutputFacts*> facts;
    for (const Edge& edge : node.inputs) facts.push_back(&inference_.facts(edge));
    TENON_ASSIGN_OR_RETURN(std::shared_ptr<const PreparedNode> prepared,
                           runner.Prepare(facts, {inference_.facts({node.id, 0})}));
    if (TileOf(prepared->kernel->registration()) == nullptr) return false;
    const tenon_tile_args selected =
        Select(node, prepared->kernel->registration(), prepared->kernel->plugin(), prepared->kernel->state());
    if (selected.out_function == nullptr) return false;
    Step step{selected.out_function, selected.out_argument, {}, {}, {}};
    std::vector<int32_t> read_last;  // slots of values that nobody reads after this
    for (const Edge& edge : node.inputs) {
      const auto found = place_.find(edge);
      if (found == place_.end()) return false;
      step.inputs.push_back(found->second);
      step.strides.push_back(found->second.is_scalar ? 0 : 1);
      const bool is_inside = made_.contains(edge);
      if (is_inside && found->second.where == Where::kSlot && last_read_[edge] == i)
        read_last.push_back(found->second.index);
    }
    if (std::all_of(step.strides.begin(), step.strides.end(), [](int64_t stride) { return stride == 0; })) return false;
    const Edge out{node.id, 0};
    step.output = {Where::kOutput, false, 0, SizeOf(node.output_types[0])};
    largest_ = std::max(largest_, step.output.size);
    const auto leaves = std::find(outputs_.begin(), outputs_.end(), out);
    if (leaves != outputs_.end()) {
      step.output.index = static_cast<int32_t>(leaves - outputs_.begin());
    } else {
      // In the place of an operand that ends here and is as large, else in one of its own.
      step.output.where = Where::kSlot;
      const auto same = std::find_if(step.inputs.begin(), step.inputs.end(), [&](const Operand& operand) {
        return operand.where == Where::kSlot && operand.size == step.output.size &&
               std::find(read_last.begin(), read_last.end(), operand.index) != read_last.end();
      });
      if (same != step.inputs.end()) {
        step.output.index = same->index;
        std::erase(read_last, same->index);
      } else {
        step.output.index = NewSlot();
      }
    }
    std::sort(read_last.begin(), read_last.end());
    read_last.erase(std::unique(read_last.begin(), read_last.end()), read_last.end());
    free_.insert(free_.end(), read_last.begin(), read_last.end());
    place_[out] = step.output;
    made_.insert(out);
    program_->cost_ += selected.out_cost > kLeastCost && selected.out_cost < kMostCost ? selected.out_cost : kLeastCost;
    program_->steps_.push_back(std::move(step));
    program_->kernels_.push_back(std::move(prepared));
    return true;
  }

  // As many elements as the slots have room for; a multiple of the periods of what is broadcast, where that is not too
  // many.
  bool ChooseTile() {
    int64_t grain = kGrain;
    for (const Broadcast& broadcast : program_->broadcasts_) {
      const int64_t with = std::lcm(grain, PeriodOf(broadcast));
      if (with <= kMostTile) grain = with;
    }
    int64_t most = kMostTile;
    if (program_->slots_ > 0) most = std::min(most, kMostSlotBytes / (program_->slots_ * largest_));
    if (most < kLeastTile) return false;
    if (grain > most) grain = kGrain;
    program_->tile_ = most / grain * grain;
    program_->slot_bytes_ = program_->tile_ * largest_;
    for (Broadcast& broadcast : program_->broadcasts_)
      broadcast.same_in_all = program_->tile_ % PeriodOf(broadcast) == 0;
    return true;
  }
  // The elements after which it repeats itself.
  int64_t PeriodOf(const Broadcast& broadcast) const {
    size_t first = 0;
    while (first < dims_.size() && broadcast.strides[first] == 0) ++first;
    return std::accumulate(dims_.begin() + static_cast<int64_t>(first), dims_.end(), int64_t{1}, std::multiplies<>());
  }

  // Outputs that may lie where an input lies: when they are written, nobody reads the tile of that any more.
  void TakeOver() {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const Operand& input = place_.at(inputs_[i]);
      if (input.where != Where::kInput || input.is_scalar) continue;
      for (size_t k = 0; k < outputs_.size(); ++k) {
        const auto writer =
            static_cast<size_t>(std::find(nodes_.begin(), nodes_.end(), outputs_[k].node) - nodes_.begin());
        if (place_.at(outputs_[k]).size == input.size && last_read_[inputs_[i]] <= writer)
          program_->taken_over_.push_back({static_cast<int32_t>(i), static_cast<int32_t>(k)});
      }
    }
    program_->in_place_ = program_->taken_over_;
  }

  const Plan& plan_;
  const graph::Graph& graph_;
  const std::vector<NodeId>& nodes_;
  const std::vector<Edge>& inputs_;
  const std::vector<Edge>& outputs_;
  const graph::ShapeInference& inference_;
  const std::vector<int64_t> dims_;
  std::shared_ptr<TileProgram> program_;
  std::map<Edge, Operand> place_;
  std::map<Edge, size_t> last_read_;  // by the number of the node
  std::set<Edge> made_;               // inside
  std::vector<int32_t> free_;         // slots
  int64_t largest_ = 1;               // bytes of an element of anything
};

Result<std::shared_ptr<const TileProgram>> TileProgram::Make(const Plan& plan, const std::vector<NodeId>& nodes,
                                                             const std::vector<Edge>& inputs,
                                                             const std::vector<Edge>& outputs,
                                                             const graph::ShapeInference& inference) {
  return Maker(plan, nodes, inputs, outputs, inference).Make();
}

// ---- Running ----

struct TileProgram::Share {
  const TileProgram* program;
  tenon_frame* frame;
  static void Run(void* argument, int64_t first, int64_t last) {
    const auto* share = static_cast<const Share*>(argument);
    share->program->RunTiles(share->frame, first, last);
  }
};

tenon_status* TileProgram::Run(tenon_frame* frame) const {
  const KernelCall mark(frame);
  const int64_t tiles = (total_ + tile_ - 1) / tile_;
  Share share{this, frame};
  try {
    if (tiles <= 1) {
      if (tiles == 1) RunTiles(frame, 0, 1);
    } else {
      frame->services->parallel_for(frame, tiles, cost_ * static_cast<double>(tile_), &Share::Run, &share);
    }
    return nullptr;
  } catch (...) {
    return Thrown(plugin(), "tile function").release();
  }
}

void TileProgram::RunTiles(tenon_frame* frame, int64_t first, int64_t last) const {
  alignas(64) char slots[kMostSlotBytes];
  const auto slot = [&](int32_t index) { return slots + index * slot_bytes_; };
  for (int64_t tile = first; tile < last; ++tile) {
    const int64_t begin = tile * tile_, count = std::min(tile_, total_ - begin);
    for (const Broadcast& broadcast : broadcasts_)
      if (tile == first || !broadcast.same_in_all) LayOut(broadcast, *frame, begin, count, slot(broadcast.slot));
    for (const Step& step : steps_) {
      const void* inputs[kMostOperands];
      for (size_t i = 0; i < step.inputs.size(); ++i) {
        const Operand& operand = step.inputs[i];
        if (operand.where == Where::kSlot) {
          inputs[i] = slot(operand.index);
        } else {
          const tenon_tensor_view& view =
              operand.where == Where::kInput ? *frame->inputs[operand.index] : *frame->outputs[operand.index];
          inputs[i] = static_cast<const char*>(DataOf(view)) + (operand.is_scalar ? 0 : begin * operand.size);
        }
      }
      void* const output =
          step.output.where == Where::kSlot
              ? slot(step.output.index)
              : static_cast<char*>(DataOf(*frame->outputs[step.output.index])) + begin * step.output.size;
      step.function(step.argument, inputs, step.strides.data(), output, count);
    }
  }
}

// Elements [begin, begin + count) of the shape.
void TileProgram::LayOut(const Broadcast& broadcast, const tenon_frame& frame, int64_t begin, int64_t count,
                         char* to) const {
  const char* const from = static_cast<const char*>(DataOf(*frame.inputs[broadcast.input]));
  std::array<int64_t, TENON_MAX_RANK> at{};
  int64_t offset = 0;
  const size_t rank = dims_.size();
  for (size_t d = rank, rest = static_cast<size_t>(begin); d-- > 0;) {
    at[d] = static_cast<int64_t>(rest) % dims_[d];
    rest /= static_cast<size_t>(dims_[d]);
    offset += at[d] * broadcast.strides[d];
  }
  const size_t inner = rank - 1;
  const auto size = static_cast<size_t>(broadcast.size);
  while (count > 0) {
    const int64_t row = std::min(count, dims_[inner] - at[inner]);
    const char* source = from + offset * broadcast.size;
    if (broadcast.strides[inner] != 0) {
      std::memcpy(to, source, static_cast<size_t>(row) * size);
    } else {
      sdk::Repeat(to, source, size, static_cast<size_t>(row));
    }
    to += static_cast<size_t>(row) * size;
    count -= row;
    at[inner] += row;
    offset += row * broadcast.strides[inner];
    for (size_t d = inner; at[d] == dims_[d] && d > 0; --d) {
      offset += broadcast.strides[d - 1] - at[d] * broadcast.strides[d];
      at[d] = 0;
      ++at[d - 1];
    }
  }
}

}  // namespace tenon::exec
