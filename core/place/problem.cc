// SPDX-License-Identifier: Apache-2.0
#include "core/place/problem.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "core/graph/graph.h"
#include "core/graph/loop_analysis.h"
#include "core/graph/op_def.h"
#include "core/place/cost_model.h"

namespace tenon::place {
namespace {

using graph::Edge;
using graph::Node;

class Maker {
 public:
  Maker(const Request& request, const Positions& position, Problem* out)
      : request_(request), position_(position), out_(*out), shapes_(request.graph) {}

  Status Make() {
    MakeDevices();
    InferShapes();
    CountTurns();
    AddFeeds();
    for (Position position : request_.order.ids()) AddValues(position);
    for (Position position : request_.order.ids()) {
      out_.first_input.push_back(out_.inputs.next_id());
      AddInputs(position);
      TENON_RETURN_IF_ERROR(AddCosts(position));
    }
    out_.first_input.push_back(out_.inputs.next_id());
    AddFetches();
    if (request_.host_input) out_.host_inputs.resize(out_.inputs.size() * out_.class_count);
    if (request_.host_output) out_.host_outputs.resize(out_.values.size() * out_.class_count);
    return Status::Ok();
  }

 private:
  const Node& NodeAt(Position position) const { return request_.graph->node(request_.order[position]); }

  void MakeDevices() {
    const Devices& devices = *request_.devices;
    for (DeviceId device : devices.ids()) {
      DeviceId like(0);
      while (like < device && !SameSpeed(devices[like], devices[device]))
        ++like;  // what is like nothing (NaN) is not even like itself
      out_.device_class.push_back(like == device ? representatives_.push_back(device) : out_.device_class[like]);
      if (!out_.host && devices[device].host_memory) out_.host = device;
    }
    out_.class_count = representatives_.size();
    out_.links.resize(devices.size() * devices.size());
    for (size_t way = 0; way < out_.links.size(); ++way) out_.ways.push_back(way);
    if (!request_.link) return;
    for (DeviceId from : devices.ids())
      for (DeviceId to : devices.ids()) {
        if (from == to) continue;
        const Link& link = out_.links[out_.LinkIndex(from, to)] = request_.link(from, to);
        // No link leads from a device to itself.
        if (link.sender) out_.ways[out_.LinkIndex(from, to)] = out_.LinkIndex(link.sender, link.sender);
      }
  }
  static bool SameSpeed(const DeviceInfo& a, const DeviceInfo& b) {
    return a.type == b.type && a.flops == b.flops && a.bytes_per_second == b.bytes_per_second &&
           a.launch_seconds == b.launch_seconds && a.host_memory == b.host_memory;
  }

  // What cannot be inferred stays unknown here; the step will say what is wrong.
  void InferShapes() { (void)shapes_.Run(request_.order.list()).ok(); }

  void CountTurns() {
    turns_.assign(request_.order.size(), 1);
    const auto enters = [this](graph::NodeId id) { return request_.graph->node(id).has(TENON_OP_ENTER); };
    if (std::none_of(request_.order.begin(), request_.order.end(), enters)) return;
    const auto loops = graph::LoopAnalysis::Run(*request_.graph, request_.order.list());
    if (!loops.ok()) return;
    for (Position i : request_.order.ids()) {
      // What goes in or out is once for the whole loop.
      int depth = NodeAt(i).has(TENON_OP_ENTER | TENON_OP_EXIT) ? -1 : 0;
      for (graph::FrameId frame = loops->frame_of(request_.order[i]); frame > graph::kStep;
           frame = loops->frame(frame).parent)
        ++depth;
      turns_[i] = std::pow(kGuessedTurns, depth);
    }
  }

  ValueId AddValue(Position producer, Edge edge, double bytes, double repeats, bool stored) {
    const ValueId storage = stored ? out_.values.next_id() : ValueId();
    return out_.values.push_back({producer, edge, {}, bytes, repeats, storage, 0});
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
      const ValueId value = AddValue({}, edge, BytesOfEdge(edge, &guessed), 1, true);
      out_.values[value].home = DeviceAt(request_.feed_devices, i);
      fed_.emplace(edge, value);
    }
  }
  DeviceId DeviceAt(const std::vector<DeviceId>& devices, size_t i) const {
    return devices.empty() || !devices[i] ? out_.host : devices[i];
  }

  void AddValues(Position i) {
    const Node& node = NodeAt(i);
    const bool by_engine = RunsInEngine(node);
    bool guessed = false;
    out_.first_value.push_back(out_.values.next_id());
    for (size_t k = 0; k < node.output_types.size(); ++k) {
      const Edge edge{node.id, static_cast<int32_t>(k)};
      AddValue(i, edge, BytesOfEdge(edge, &guessed), turns_[i], !by_engine && !IsRef(node.output_types[k]));
      AddHostFlags(request_.host_output, node, k, by_engine, &out_.host_outputs, out_.values.last_id());
    }
    AddValue(i, {node.id, -1}, 0, turns_[i], false);
    if (guessed) ++out_.guessed_nodes;
  }

  void AddFetches() {
    std::vector<std::pair<ValueId, DeviceId>> fetched;
    for (size_t i = 0; i < request_.fetches.size(); ++i)
      if (const ValueId value = ValueOf(request_.fetches[i])) {
        fetched.emplace_back(value, DeviceAt(request_.fetch_devices, i));
        CountReader(value);
      }
    std::stable_sort(fetched.begin(), fetched.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [value, to] : fetched) {
      out_.fetched.push_back(value);
      out_.fetched_to.push_back(to);
    }
  }

  // Asked only where the node may go.
  template <typename Question, typename Key>
  void AddHostFlags(const Question& question, const Node& node, size_t index, bool by_engine, std::vector<bool>* flags,
                    Key last) {
    if (!question) return;
    flags->resize(out_.ClassIndex(last.next(), ClassId(0)));
    if (by_engine) return;
    const GroupId group = out_.groups.group_of[position_[node.id]];
    for (ClassId c : QueuedClasses(out_.groups.sets[group]))
      (*flags)[out_.ClassIndex(last, c)] = question(node, representatives_[c], static_cast<int>(index));
  }
  // The classes of a set's devices whose memory is not the host's.
  const std::vector<ClassId>& QueuedClasses(SetId set) {
    if (!queued_classes_.contains(set)) queued_classes_.resize(set.next().index());
    std::optional<std::vector<ClassId>>& classes = queued_classes_[set];
    if (classes) return *classes;
    classes.emplace();
    for (DeviceId device : out_.sets.devices(set)) {
      const ClassId c = out_.device_class[device];
      const bool known = std::find(classes->begin(), classes->end(), c) != classes->end();
      if (!known && !(*request_.devices)[device].host_memory) classes->push_back(c);
    }
    return *classes;
  }

  ValueId ValueOf(const Edge& edge) const {
    if (!edge.node) return {};
    if (!fed_.empty())
      if (const auto found = fed_.find(edge); found != fed_.end()) return found->second;
    const Position from = position_[edge.node];
    return from ? OutputOf(from, edge.index) : ValueId();
  }
  ValueId OutputOf(Position position, size_t index) const {
    return ValueId(out_.first_value[position].index() + index);
  }

  void AddInput(Position i, ValueId value) {
    // A back edge: it comes from what is later.
    if (!value || out_.values[value].producer >= i) return;
    out_.inputs.push_back(value);
    CountReader(value);
  }
  void CountReader(ValueId value) {
    const ValueId storage = out_.values[value].storage;
    if (storage) ++out_.values[storage].readers;
  }

  // What the engine forwards has the memory of where it comes from; a merge's comes from several, and counts again.
  void ShareStorage(Position i) {
    const Node& node = NodeAt(i);
    for (size_t k = 0; k < node.output_types.size(); ++k) {
      ValueId& storage = out_.values[OutputOf(i, k)].storage;
      if (node.has(TENON_OP_MERGE)) storage = OutputOf(i, k);
      const size_t from = node.has(TENON_OP_IDENTITY) ? k : 0;
      if (!node.has(TENON_OP_IDENTITY | TENON_OP_SWITCH | TENON_OP_ENTER | TENON_OP_EXIT | TENON_OP_NEXT_ITERATION) ||
          from >= node.inputs.size())
        continue;
      if (const ValueId source = ValueOf(node.inputs[from])) storage = out_.values[source].storage;
    }
  }

  void AddInputs(Position i) {
    const Node& node = NodeAt(i);
    const bool by_engine = RunsInEngine(node);
    ShareStorage(i);
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const size_t before = out_.inputs.size();
      AddInput(i, ValueOf(node.inputs[k]));
      if (out_.inputs.size() > before)
        AddHostFlags(request_.host_input, node, k, by_engine, &out_.host_inputs, out_.inputs.last_id());
    }
    for (graph::NodeId control : node.controls) {
      if (const Position from = position_[control]) AddInput(i, OutputOf(from, NodeAt(from).output_types.size()));
    }
  }

  Status AddCosts(Position i) {
    const Node& node = NodeAt(i);
    out_.resident_bytes.push_back(ResidentBytes(node));
    out_.by_engine.push_back(RunsInEngine(node));
    out_.seconds.resize(out_.seconds.size() + out_.class_count, 0);
    out_.known.resize(out_.seconds.size(), true);
    if (RunsInEngine(node)) return Status::Ok();
    bool guessed = false;
    TENON_ASSIGN_OR_RETURN(const NodeCost cost, StaticCost(node, shapes_, &guessed));
    std::vector<Shape> inputs;
    if (request_.costs != nullptr)
      for (const Edge& edge : node.inputs) inputs.push_back(shapes_.facts(edge).shape);
    for (ClassId c : representatives_.ids()) {
      const DeviceInfo& device = (*request_.devices)[representatives_[c]];
      if (request_.is_view && request_.is_view(node, representatives_[c])) continue;
      const CostModel::Measured* measured =
          request_.costs == nullptr ? nullptr : request_.costs->Find(node.name, node.op->name, device.type, inputs);
      const double said = measured == nullptr && request_.kernel_seconds
                              ? request_.kernel_seconds(node, representatives_[c], shapes_)
                              : 0;
      const bool is_known = measured != nullptr || said > 0;
      const bool by_host =
          !is_known && out_.host && request_.run_by_host && request_.run_by_host(node, representatives_[c]);
      const double guess = SecondsOn(cost, by_host ? (*request_.devices)[out_.host] : device);
      out_.known[out_.ClassIndex(i, c)] = is_known || by_host;
      out_.seconds[out_.ClassIndex(i, c)] = turns_[i] * (measured != nullptr ? measured->seconds
                                                         : said > 0          ? said
                                                                             : guess);
    }
    return Status::Ok();
  }

  // Of variables, where their handle or reference is made, and of constants.
  double ResidentBytes(const Node& node) const {
    double bytes = 0;
    if (node.has(TENON_OP_CONSTANT)) {
      const graph::AttrValue* value = node.FindAttr("value");
      if (value != nullptr && value->kind() == TENON_ATTR_TENSOR)
        bytes += static_cast<double>(value->tensor().view().byte_size);
    }
    for (DType type : node.input_types)
      if (IsRef(type) || type == TENON_DT_RESOURCE) return bytes;
    for (size_t k = 0; k < node.output_types.size(); ++k) {
      const DType type = node.output_types[k];
      const graph::OutputFacts& facts = shapes_.facts({node.id, static_cast<int32_t>(k)});
      const DType held = IsRef(type)                 ? BaseType(type)
                         : type == TENON_DT_RESOURCE ? facts.handle_type
                                                     : DType{TENON_DT_INVALID};
      bool guessed = false;
      const Shape& shape = IsRef(type) && facts.shape.known_rank() ? facts.shape : facts.handle_shape;
      if (held != TENON_DT_INVALID && shape.known_rank()) bytes += BytesOf(held, GuessShape(shape, &guessed));
    }
    return bytes;
  }

  const Request& request_;
  const Positions& position_;
  Problem& out_;
  graph::ShapeInference shapes_;
  IdVector<ClassId, DeviceId> representatives_;
  IdVector<Position, double> turns_;
  std::map<Edge, ValueId> fed_;
  IdVector<SetId, std::optional<std::vector<ClassId>>> queued_classes_;
};

}  // namespace

Result<Problem> MakeProblem(const Request& request, const Positions& position, Groups groups, DeviceSets sets) {
  Problem problem;
  problem.request = &request;
  problem.devices = request.devices;
  problem.groups = std::move(groups);
  problem.sets = std::move(sets);
  TENON_RETURN_IF_ERROR(Maker(request, position, &problem).Make());
  return problem;
}

}  // namespace tenon::place
