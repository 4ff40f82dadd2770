// SPDX-License-Identifier: Apache-2.0
#include "core/place/problem.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "core/graph/loop_analysis.h"
#include "core/place/cost_model.h"

namespace tenon::place {
namespace {

using graph::Edge;
using graph::Node;

class Maker {
 public:
  Maker(const Request& request, const graph::NodeMap<int32_t>& position, Problem* out)
      : request_(request), position_(position), out_(*out), shapes_(request.graph) {}

  Status Make() {
    MakeDevices();
    InferShapes();
    CountTurns();
    AddFeeds();
    for (size_t i = 0; i < request_.order.size(); ++i) AddValues(i);
    out_.input_offsets.push_back(0);
    for (size_t i = 0; i < request_.order.size(); ++i) {
      AddInputs(i);
      TENON_RETURN_IF_ERROR(AddCosts(i));
    }
    for (size_t i = 0; i < request_.fetches.size(); ++i)
      if (const int32_t value = ValueOf(request_.fetches[i]); value >= 0) {
        out_.fetched.push_back(value);
        out_.fetched_to.push_back(DeviceAt(request_.fetch_devices, i));
        CountReader(value);
      }
    if (request_.host_input) out_.host_inputs.resize(out_.inputs.size() * out_.class_count);
    if (request_.host_output) out_.host_outputs.resize(out_.values.size() * out_.class_count);
    return Status::Ok();
  }

 private:
  const Node& NodeAt(size_t position) const { return request_.graph->node(request_.order[position]); }

  void MakeDevices() {
    const std::vector<DeviceInfo>& devices = *request_.devices;
    for (size_t i = 0; i < devices.size(); ++i) {
      size_t like = 0;
      while (like < i && !SameSpeed(devices[like], devices[i])) ++like;  // what is like nothing (NaN) is not even like itself
      if (like == i) representatives_.push_back(i);
      out_.device_class.push_back(like == i ? static_cast<int>(out_.class_count++) : out_.device_class[like]);
      if (out_.host < 0 && devices[i].host_memory) out_.host = static_cast<int>(i);
    }
    out_.links.resize(devices.size() * devices.size());
    for (size_t from = 0; from < devices.size() && request_.link; ++from)
      for (size_t to = 0; to < devices.size(); ++to)
        if (from != to) out_.links[from * devices.size() + to] = request_.link(static_cast<int>(from), static_cast<int>(to));
  }
  static bool SameSpeed(const DeviceInfo& a, const DeviceInfo& b) {
    return a.type == b.type && a.flops == b.flops && a.bytes_per_second == b.bytes_per_second && a.launch_seconds == b.launch_seconds &&
           a.host_memory == b.host_memory;
  }

  // What cannot be inferred stays unknown here; the step will say what is wrong.
  void InferShapes() { (void)shapes_.Run(request_.order).ok(); }

  void CountTurns() {
    turns_.assign(request_.order.size(), 1);
    bool has_loops = false;
    for (size_t i = 0; i < request_.order.size() && !has_loops; ++i) has_loops = NodeAt(i).has(TENON_OP_ENTER);
    if (!has_loops) return;
    const auto loops = graph::LoopAnalysis::Run(*request_.graph, request_.order);
    if (!loops.ok()) return;
    for (size_t i = 0; i < request_.order.size(); ++i) {
      // What goes in or out is once for the whole loop.
      int depth = NodeAt(i).has(TENON_OP_ENTER | TENON_OP_EXIT) ? -1 : 0;
      for (graph::FrameId frame = loops->frame_of(request_.order[i]); frame > graph::kStep; frame = loops->frame(frame).parent) ++depth;
      turns_[i] = std::pow(kGuessedTurns, depth);
    }
  }

  int32_t AddValue(int32_t producer, Edge edge, double bytes, double repeats, bool stored) {
    const int32_t value = static_cast<int32_t>(out_.values.size());
    out_.values.push_back({producer, edge, -1, bytes, repeats, stored ? value : -1, 0});
    return value;
  }

  double BytesOfEdge(Edge edge, bool* guessed) const {
    const graph::OutputFacts& facts = shapes_.facts(edge);
    const DType type = request_.graph->TypeOf(edge);
    const bool through = IsRef(type) && !facts.shape.known_rank();
    return BytesOf(type, GuessShape(through ? facts.handle_shape : facts.shape, guessed));
  }

  void AddFeeds() {
    bool guessed = false;
    for (size_t i = 0; i < request_.feeds.size(); ++i) {
      const Edge edge = request_.feeds[i];
      const int32_t value = AddValue(-1, edge, BytesOfEdge(edge, &guessed), 1, true);
      out_.values[value].home = DeviceAt(request_.feed_devices, i);
      fed_.emplace(edge, value);
    }
  }
  int DeviceAt(const std::vector<int32_t>& devices, size_t i) const { return devices.empty() || devices[i] < 0 ? out_.host : devices[i]; }

  void AddValues(size_t i) {
    const Node& node = NodeAt(i);
    const bool by_engine = RunsInEngine(node);
    bool guessed = false;
    out_.first_value.push_back(static_cast<int32_t>(out_.values.size()));
    for (size_t k = 0; k < node.output_types.size(); ++k) {
      const Edge edge{node.id, static_cast<int32_t>(k)};
      AddValue(static_cast<int32_t>(i), edge, BytesOfEdge(edge, &guessed), turns_[i], !by_engine && !IsRef(node.output_types[k]));
      AddHostFlags(request_.host_output, node, k, by_engine, &out_.host_outputs, out_.values.size());
    }
    AddValue(static_cast<int32_t>(i), {node.id, -1}, 0, turns_[i], false);
    if (guessed) ++out_.guessed_nodes;
  }

  // Asked only where the node may go.
  template <typename Question>
  void AddHostFlags(const Question& question, const Node& node, size_t index, bool by_engine, std::vector<bool>* flags, size_t count) {
    if (!question) return;
    flags->resize(count * out_.class_count);
    if (by_engine) return;
    const int32_t group = out_.groups.group_of[position_[node.id]];
    for (size_t c : QueuedClasses(out_.groups.sets[group]))
      (*flags)[(count - 1) * out_.class_count + c] = question(node, static_cast<int>(representatives_[c]), static_cast<int>(index));
  }
  // The classes of a set's devices whose memory is not the host's.
  const std::vector<size_t>& QueuedClasses(int set) {
    if (static_cast<size_t>(set) >= queued_classes_.size()) queued_classes_.resize(static_cast<size_t>(set) + 1);
    std::optional<std::vector<size_t>>& classes = queued_classes_[set];
    if (classes) return *classes;
    classes.emplace();
    for (int device : out_.sets.devices(set)) {
      const size_t c = static_cast<size_t>(out_.device_class[device]);
      const bool known = std::find(classes->begin(), classes->end(), c) != classes->end();
      if (!known && !(*request_.devices)[device].host_memory) classes->push_back(c);
    }
    return *classes;
  }

  int32_t ValueOf(const Edge& edge) const {
    if (!edge.node) return -1;
    if (!fed_.empty())
      if (const auto found = fed_.find(edge); found != fed_.end()) return found->second;
    const int32_t from = position_[edge.node];
    return from < 0 ? -1 : out_.first_value[from] + edge.index;
  }

  void AddInput(size_t i, int32_t value) {
    // A back edge: it comes from what is later.
    if (value < 0 || out_.values[value].producer >= static_cast<int32_t>(i)) return;
    out_.inputs.push_back(value);
    CountReader(value);
  }
  void CountReader(int32_t value) {
    const int32_t storage = out_.values[value].storage;
    if (storage >= 0) ++out_.values[storage].readers;
  }

  // What the engine forwards has the memory of where it comes from; a merge's comes from several, and counts again.
  void ShareStorage(size_t i) {
    const Node& node = NodeAt(i);
    const size_t first = static_cast<size_t>(out_.first_value[i]);
    for (size_t k = 0; k < node.output_types.size(); ++k) {
      int32_t& storage = out_.values[first + k].storage;
      if (node.has(TENON_OP_MERGE)) storage = static_cast<int32_t>(first + k);
      const size_t from = node.has(TENON_OP_IDENTITY) ? k : 0;
      if (!node.has(TENON_OP_IDENTITY | TENON_OP_SWITCH | TENON_OP_ENTER | TENON_OP_EXIT | TENON_OP_NEXT_ITERATION) || from >= node.inputs.size()) continue;
      if (const int32_t source = ValueOf(node.inputs[from]); source >= 0) storage = out_.values[source].storage;
    }
  }

  void AddInputs(size_t i) {
    const Node& node = NodeAt(i);
    const bool by_engine = RunsInEngine(node);
    ShareStorage(i);
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const size_t before = out_.inputs.size();
      AddInput(i, ValueOf(node.inputs[k]));
      if (out_.inputs.size() > before) AddHostFlags(request_.host_input, node, k, by_engine, &out_.host_inputs, out_.inputs.size());
    }
    for (graph::NodeId control : node.controls) {
      const int32_t from = position_[control];
      if (from < 0) continue;
      AddInput(i, out_.first_value[from] + static_cast<int32_t>(NodeAt(static_cast<size_t>(from)).output_types.size()));
    }
    out_.input_offsets.push_back(static_cast<int32_t>(out_.inputs.size()));
  }

  Status AddCosts(size_t i) {
    const Node& node = NodeAt(i);
    out_.resident_bytes.push_back(ResidentBytes(node));
    out_.by_engine.push_back(RunsInEngine(node));
    out_.seconds.resize(out_.seconds.size() + out_.class_count, 0);
    if (RunsInEngine(node)) return Status::Ok();
    bool guessed = false;
    TENON_ASSIGN_OR_RETURN(const NodeCost cost, StaticCost(node, shapes_, &guessed));
    std::vector<Shape> inputs;
    if (request_.costs != nullptr)
      for (const Edge& edge : node.inputs) inputs.push_back(shapes_.facts(edge).shape);
    for (size_t c = 0; c < out_.class_count; ++c) {
      const DeviceInfo& device = (*request_.devices)[representatives_[c]];
      if (request_.is_view && request_.is_view(node, static_cast<int>(representatives_[c]))) continue;
      const CostModel::Measured* measured =
          request_.costs == nullptr ? nullptr : request_.costs->Find(node.name, node.op->name, device.type, inputs);
      const double said = measured == nullptr && request_.kernel_seconds ? request_.kernel_seconds(node, static_cast<int>(representatives_[c]), shapes_) : 0;
      out_.seconds[i * out_.class_count + c] = turns_[i] * (measured != nullptr ? measured->seconds : said > 0 ? said : SecondsOn(cost, device));
    }
    return Status::Ok();
  }

  // Of variables, where their handle or reference is made, and of constants.
  double ResidentBytes(const Node& node) const {
    double bytes = 0;
    if (node.has(TENON_OP_CONSTANT)) {
      const graph::AttrValue* value = node.FindAttr("value");
      if (value != nullptr && value->kind() == TENON_ATTR_TENSOR) bytes += static_cast<double>(value->tensor().view().byte_size);
    }
    for (DType type : node.input_types)
      if (IsRef(type) || type == TENON_DT_RESOURCE) return bytes;
    for (size_t k = 0; k < node.output_types.size(); ++k) {
      const DType type = node.output_types[k];
      const graph::OutputFacts& facts = shapes_.facts({node.id, static_cast<int32_t>(k)});
      const DType held = IsRef(type) ? BaseType(type) : type == TENON_DT_RESOURCE ? facts.handle_type : DType{TENON_DT_INVALID};
      bool guessed = false;
      const Shape& shape = IsRef(type) && facts.shape.known_rank() ? facts.shape : facts.handle_shape;
      if (held != TENON_DT_INVALID && shape.known_rank()) bytes += BytesOf(held, GuessShape(shape, &guessed));
    }
    return bytes;
  }

  const Request& request_;
  const graph::NodeMap<int32_t>& position_;
  Problem& out_;
  graph::ShapeInference shapes_;
  std::vector<size_t> representatives_;  // a device of each class
  std::vector<double> turns_;
  std::map<Edge, int32_t> fed_;
  std::vector<std::optional<std::vector<size_t>>> queued_classes_;  // by set
};

}  // namespace

Result<Problem> MakeProblem(const Request& request, const graph::NodeMap<int32_t>& position, Groups groups, DeviceSets sets) {
  Problem problem;
  problem.request = &request;
  problem.devices = request.devices;
  problem.groups = std::move(groups);
  problem.sets = std::move(sets);
  TENON_RETURN_IF_ERROR(Maker(request, position, &problem).Make());
  return problem;
}

}  // namespace tenon::place
