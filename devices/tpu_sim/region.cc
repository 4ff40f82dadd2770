// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compiler.h"
#include "kernels/kernel.h"

namespace tenon::tpu_sim {
namespace {

// Where a value is during a run.
struct Slot {
  enum Kind { kNone, kInput, kOutput, kWorkspace } kind = kNone;
  int64_t at = 0;  // number of the input or output, or offset in the workspace
};

// One node's planned kernel; owns both objects.
class NodePlan {
 public:
  NodePlan(const tenon_kernel_registration* registration, const tenon_create_args& create)
      : registration_(registration) {
    sdk::Check(registration->create(&create, &kernel_));
  }
  NodePlan(NodePlan&& other) noexcept
      : registration_(other.registration_), kernel_(std::exchange(other.kernel_, nullptr)),
        prepared_(std::exchange(other.prepared_, nullptr)) {}
  NodePlan& operator=(NodePlan&&) = delete;
  ~NodePlan() {
    if (prepared_ != nullptr) registration_->destroy_prepared(prepared_);
    if (kernel_ != nullptr) registration_->destroy(kernel_);
  }
  void Prepare(tenon_prepare_args& args) {
    sdk::Check(registration_->prepare(kernel_, &args));
    prepared_ = args.out_prepared;
  }
  // Every planned kernel's prepared object is one (kernel.h).
  const PreparedWork& work() const { return *reinterpret_cast<const PreparedWork*>(prepared_); }

 private:
  const tenon_kernel_registration* registration_;
  tenon_kernel* kernel_ = nullptr;
  tenon_prepared* prepared_ = nullptr;
};

struct RegionStep {
  NodePlan plan;
  std::string name;
  std::vector<Slot> operands;
};
struct RegionCopy {
  Slot source;
  int64_t output;
  uint64_t bytes;
};

// Places values of one lifetime each: first fit.
class Workspace {
 public:
  int64_t Take(int64_t bytes) {
    bytes = (bytes + kUnit - 1) / kUnit * kUnit;
    int64_t at = 0;
    for (const auto& [begin, end] : taken_) {
      if (begin - at >= bytes) break;
      at = std::max(at, end);
    }
    taken_.emplace(at, at + bytes);
    most_ = std::max(most_, at + bytes);
    return at;
  }
  void Give(int64_t at) { taken_.erase(taken_.find(at)); }
  int64_t most() const { return most_; }

 private:
  static constexpr int64_t kUnit = 64;
  std::multimap<int64_t, int64_t> taken_;
  int64_t most_ = 0;
};

// What the region takes: vector work in a row is one pass, values between nodes stay on chip.
class RegionCost {
 public:
  explicit RegionCost(const Machine& machine) : machine_(machine) {}
  // left_comes: the left matrix is not on chip; result_stays: the first output is read on chip alone.
  void Add(const Effort& effort, int64_t read_bytes, int64_t written_bytes, bool left_comes, bool result_stays) {
    if (effort.products == 0) {
      row_.operations += effort.operations;
      row_.read_bytes += read_bytes;
      row_.written_bytes += written_bytes;
      return;
    }
    Flush();
    Effort product = effort;
    if (!left_comes) product.product.left_bytes = 1;
    if (result_stays) product.product.output_bytes = 0;
    total_ += CyclesOf(machine_, product);
  }
  Cycles Finish() {
    Flush();
    return total_;
  }

 private:
  void Flush() { total_ += CyclesOf(machine_, std::exchange(row_, {})); }
  const Machine& machine_;
  Effort row_;
  Cycles total_;
};

using Edge = std::pair<int64_t, int32_t>;
Edge EdgeOf(const tenon_output& output) { return {output.node, output.index}; }

// What a region was compiled into.
struct Executable : sdk::Compiled {
  Outcome Run(tenon_frame& frame) const;
  // frame: what FrameOperands gives.
  void Work(char* const* frame, int32_t inputs, int32_t outputs) const;

  std::vector<bool> reads_input;  // others may lie on the host
  std::vector<RegionStep> steps;
  std::vector<RegionCopy> copies;
  Cycles cost;
};

class Builder {
 public:
  explicit Builder(const tenon_compile_args& args)
      : args_(args), cursor_(*args.cursor), nodes_(args.nodes, args.nodes + args.node_count),
        cost_(Device::Of(args.device)->options().machine) {
    std::sort(nodes_.begin(), nodes_.end());
  }

  std::unique_ptr<Executable> Build() {
    for (uint64_t i = 0; i < args_.input_count; ++i)
      places_[EdgeOf(args_.inputs[i])] = {Slot::kInput, static_cast<int64_t>(i)};
    FindUses();
    for (int64_t id : nodes_) {
      const std::string_view op = Op(id);
      IsAlias(op) ? AddAlias(id) : AddStep(id, op);
    }
    AddCopies();
    executable_->cost = cost_.Finish();
    executable_->reads_input = read_inputs_;
    executable_->workspace_bytes = static_cast<uint64_t>(workspace_.most());
    return std::move(executable_);
  }

 private:
  std::string_view Op(int64_t id) const {
    return sdk::ToText(cursor_.node_services->op(cursor_.node(cursor_.graph, id)));
  }
  tenon_output Source(int64_t id, int32_t input) const {
    tenon_output source = {-1, 0, 0};
    sdk::Check(cursor_.input(cursor_.graph, id, input, &source));
    return source;
  }
  const View& ViewOf(const tenon_output& output) const {
    const View* view = nullptr;
    sdk::Check(args_.edge(args_.context, output, &view));
    return *view;
  }
  static int64_t BytesOf(const View& view) {
    return sdk::Count(view) * static_cast<int64_t>(sdk::ElementSize(view.dtype));
  }

  // The value that an edge names: that of the alias' input.
  Edge ValueOf(Edge edge) const {
    const auto found = alias_of_.find(edge);
    return found == alias_of_.end() ? edge : found->second;
  }
  // When each value is last read within the region, and which leave it.
  void FindUses() {
    for (int64_t id : nodes_) {
      if (IsAlias(Op(id))) {
        alias_of_[{id, 0}] = ValueOf(EdgeOf(Source(id, 0)));
        continue;
      }
      for (int32_t i = 0; i < InputCount(id); ++i) last_use_[ValueOf(EdgeOf(Source(id, i)))] = id;
    }
    for (uint64_t k = 0; k < args_.output_count; ++k) {
      leaves_.emplace(ValueOf(EdgeOf(args_.outputs[k])), static_cast<int64_t>(k));
    }
  }
  int32_t InputCount(int64_t id) const { return cursor_.node_services->input_count(cursor_.node(cursor_.graph, id)); }

  void AddAlias(int64_t id) {
    const auto place = places_.find(ValueOf(EdgeOf(Source(id, 0))));
    if (place == places_.end()) sdk::Fail(TENON_INTERNAL, "an input of node ", id, " is no edge of the region");
    places_[{id, 0}] = place->second;
  }

  void AddStep(int64_t id, std::string_view op) {
    const tenon_node* node = cursor_.node(cursor_.graph, id);
    const tenon_kernel_registration* kernel = PlannedKernel(op);
    if (kernel == nullptr) sdk::Fail(TENON_UNIMPLEMENTED, op, " is not compiled");
    const tenon_create_args create = {
        TENON_HEAD(tenon_create_args), cursor_.node_services, node, nullptr, nullptr, args_.device, nullptr};
    RegionStep step = {NodePlan(kernel, create), std::string(sdk::ToText(cursor_.node_services->name(node))), {}};
    const int32_t inputs = InputCount(id), outputs = cursor_.node_services->output_count(node);
    std::vector<const View*> views;
    for (int32_t i = 0; i < inputs; ++i) views.push_back(&ViewOf(Source(id, i)));
    for (int32_t k = 0; k < outputs; ++k) views.push_back(&ViewOf({id, k, 0}));
    tenon_prepare_args prepare = {TENON_HEAD(tenon_prepare_args), views.data(), views.data() + inputs, inputs, outputs,
                                  args_.precision, 1, args_.device, nullptr, 0, nullptr, nullptr, nullptr};
    step.plan.Prepare(prepare);
    const PreparedWork& work = step.plan.work();
    if (!work.ready) sdk::Fail(TENON_UNIMPLEMENTED, op, " '", step.name, "': an argument is not constant in this plan");
    Place(id, inputs, outputs, views, work, &step);
    executable_->steps.push_back(std::move(step));
  }

  // Finds its operands, makes room for its outputs, and gives back what it was the last to read.
  void Place(int64_t id, int32_t inputs, int32_t outputs, const std::vector<const View*>& views,
             const PreparedWork& work, RegionStep* step) {
    int64_t read = 0, written = 0;
    bool left_comes = false;
    for (int32_t i = 0; i < inputs; ++i) {
      const bool host = i < 64 && (work.host_inputs >> i & 1) != 0;
      const Edge value = ValueOf(EdgeOf(Source(id, i)));
      const auto place = places_.find(value);
      if (host) {
        step->operands.push_back({});
        continue;
      }
      if (place == places_.end())
        sdk::Fail(TENON_INTERNAL, "input ", i, " of '", step->name, "' is no edge of the region");
      step->operands.push_back(place->second);
      // An input that an earlier node has read is on chip, if it fits.
      const int64_t bytes = BytesOf(*views[static_cast<size_t>(i)]);
      const bool comes = place->second.kind == Slot::kInput && (FirstRead(place->second.at) || bytes > on_chip_);
      if (comes || (place->second.kind != Slot::kInput && bytes > on_chip_)) {
        read += bytes;
        left_comes |= i == work.effort.left;
      }
    }
    bool result_stays = true;
    for (int32_t k = 0; k < outputs; ++k) {
      const int64_t bytes = BytesOf(*views[static_cast<size_t>(inputs + k)]);
      const Slot slot = PlaceOutput({id, k}, bytes);
      places_[{id, k}] = slot;
      step->operands.push_back(slot);
      if (slot.kind == Slot::kOutput || bytes > on_chip_) {
        written += bytes;
        result_stays &= k != 0;
      }
    }
    cost_.Add(work.effort, read, written, left_comes, result_stays);
    for (int32_t i = 0; i < inputs; ++i) Release(ValueOf(EdgeOf(Source(id, i))), id);
    for (int32_t k = 0; k < outputs; ++k) {
      if (last_use_.count({id, k}) == 0) Release({id, k}, id);
    }
  }
  Slot PlaceOutput(Edge edge, int64_t bytes) {
    const auto leaves = leaves_.find(edge);
    if (leaves != leaves_.end()) return {Slot::kOutput, leaves->second};
    return {Slot::kWorkspace, workspace_.Take(bytes)};
  }
  void Release(Edge value, int64_t id) {
    const auto last = last_use_.find(value);
    const auto place = places_.find(value);
    if (place == places_.end() || place->second.kind != Slot::kWorkspace || released_[value]) return;
    if (last != last_use_.end() && last->second != id) return;
    workspace_.Give(place->second.at);
    released_[value] = true;
  }
  bool FirstRead(int64_t input) {
    const bool first = !read_inputs_[static_cast<size_t>(input)];
    read_inputs_[static_cast<size_t>(input)] = true;
    return first;
  }

  // Outputs that are another name of an input, or of another output.
  void AddCopies() {
    for (uint64_t k = 0; k < args_.output_count; ++k) {
      const Edge value = ValueOf(EdgeOf(args_.outputs[k]));
      const auto place = places_.find(value);
      if (place == places_.end()) sdk::Fail(TENON_INTERNAL, "output ", k, " of the region is no edge of it");
      const Slot slot = place->second;
      if (slot.kind == Slot::kOutput && slot.at == static_cast<int64_t>(k)) continue;
      const auto bytes = static_cast<uint64_t>(BytesOf(ViewOf(args_.outputs[k])));
      if (slot.kind == Slot::kInput) FirstRead(slot.at);
      executable_->copies.push_back({slot, static_cast<int64_t>(k), bytes});
      Effort move;
      cost_.Add(move, static_cast<int64_t>(bytes), static_cast<int64_t>(bytes), true, false);
    }
  }

  const tenon_compile_args& args_;
  const tenon_graph_cursor& cursor_;
  std::vector<int64_t> nodes_;
  std::map<Edge, Edge> alias_of_;
  std::map<Edge, int64_t> last_use_;
  std::map<Edge, int64_t> leaves_;  // the output that holds it
  std::map<Edge, Slot> places_;
  std::map<Edge, bool> released_;
  std::vector<bool> read_inputs_ = std::vector<bool>(args_.input_count);
  Workspace workspace_;
  RegionCost cost_;
  // Of the buffer a half holds what is read, a half what is written.
  const int64_t on_chip_ = Device::Of(args_.device)->options().machine.buffer_bytes / 2;
  std::unique_ptr<Executable> executable_ = std::make_unique<Executable>();
};

// Addresses of the inputs that are read, the outputs, and the workspace.
Operands FrameOperands(const Executable& executable, const sdk::RunContext& c) {
  const tenon_frame& f = *c.frame();
  Operands operands(f.input_count + f.output_count + 1);
  char** at = operands.at();
  for (int32_t i = 0; i < f.input_count; ++i) {
    *at++ = executable.reads_input[static_cast<size_t>(i)] ? Address(c, c.input_view(i), "input", i) : nullptr;
  }
  for (int32_t k = 0; k < f.output_count; ++k) *at++ = Address(c, c.output_view(k), "output", k);
  View workspace = {};
  workspace.dl.data = f.workspace;
  workspace.byte_size = f.workspace_bytes;
  *at = Address(c, workspace, "workspace", 0);
  return operands;
}

Outcome Executable::Run(tenon_frame& frame) const {
  const sdk::RunContext c(&frame);
  Order order = OrderOf(c, "region", cost);
  order.kind = "region";
  return Queue::Of(frame.queue)->Submit(
      order, [this, operands = FrameOperands(*this, c), inputs = frame.input_count, outputs = frame.output_count] {
        Work(operands.at(), inputs, outputs);
      });
}

void Executable::Work(char* const* frame, int32_t inputs, int32_t outputs) const {
  const auto address = [&](const Slot& slot) -> char* {
    switch (slot.kind) {
      case Slot::kNone: return nullptr;
      case Slot::kInput: return frame[slot.at];
      case Slot::kOutput: return frame[inputs + slot.at];
      case Slot::kWorkspace: return frame[inputs + outputs] + slot.at;
    }
    return nullptr;
  };
  for (const RegionStep& step : steps) {
    Operands operands(static_cast<int32_t>(step.operands.size()));
    std::transform(step.operands.begin(), step.operands.end(), operands.at(), address);
    try {
      step.plan.work().Work(operands.at());
    } catch (sdk::KernelError& problem) {
      const Outcome why = TakeStatus(problem.release());
      sdk::Fail(why.code, step.plan.work().op, " '", step.name, "': ", why.message);
    }
  }
  for (const RegionCopy& copy : copies) {
    if (copy.bytes > 0) std::memmove(frame[inputs + copy.output], address(copy.source), copy.bytes);
  }
}

struct Compiler {
  static constexpr tenon_span kDeviceType = sdk::ToSpan(tpu_sim::kDeviceType);
  static constexpr int32_t kPriority = 0;
  using Executable = tpu_sim::Executable;

  static void Claim(const tenon_plugin_self*, const tenon_graph_cursor& cursor, std::span<const int64_t> nodes,
                    const tenon_device*, const sdk::Claims& claims) {
    ClaimRegions(cursor, nodes, claims);
  }
  static std::unique_ptr<Executable> Compile(const tenon_plugin_self*, const tenon_compile_args& args) {
    return Builder(args).Build();
  }
};

}  // namespace

constinit const tenon_compiler kCompiler = sdk::kCompilerTable<Compiler>;

}  // namespace tenon::tpu_sim
