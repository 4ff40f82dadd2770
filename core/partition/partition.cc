// SPDX-License-Identifier: Apache-2.0
#include "core/partition/partition.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "core/partition/deadness.h"
#include "core/partition/part_items.h"
#include "core/partition/sequence.h"
#include "core/tensor/allowance.h"

namespace tenon::partition {

using graph::AttrValue;
using graph::Edge;
using graph::Frame;
using graph::LoopAnalysis;
using graph::Node;

namespace {

constexpr int32_t kNone = -1, kSeveral = -2;

// Whoever reads a value of another part: for errors, and when it has to be there.
struct Reader {
  const Node* node;
  Moment when;
};

class Partitioner {
 public:
  explicit Partitioner(const PartitionRequest& request)
      : request_(request), graph_(*request.graph), items_(graph_), is_fed_([this](Edge edge) { return FeedOf(edge) >= 0; }) {}

  Result<Partitioned> Run() {
    NumberValues();
    FindMarks();
    TENON_RETURN_IF_ERROR(FindParts());
    TENON_RETURN_IF_ERROR(Analyse());
    TENON_RETURN_IF_ERROR(FindRoles());
    TENON_RETURN_IF_ERROR(ShareLoops());
    NoteCrossings();
    for (int32_t id : sequence_->nodes()) TENON_RETURN_IF_ERROR(Connect(graph_.node(id)));
    TENON_RETURN_IF_ERROR(items_.Build(&out_.parts));
    return Finish();
  }

 private:
  // ---- What is known of the whole ----

  void NumberValues() {
    first_value_.resize(static_cast<size_t>(graph_.size()) + 1);
    for (int32_t id = 0; id < graph_.size(); ++id)
      first_value_[static_cast<size_t>(id) + 1] = first_value_[static_cast<size_t>(id)] + static_cast<int64_t>(graph_.node(id).output_types.size()) + 1;
    feed_of_.assign(static_cast<size_t>(first_value_.back()), kNone);
    for (size_t i = 0; i < request_.feeds.size(); ++i) feed_of_[ValueOf(request_.feeds[i])] = static_cast<int32_t>(i);
  }
  // Outputs, the first of which is the control output.
  size_t ValueOf(Edge edge) const { return static_cast<size_t>(first_value_[static_cast<size_t>(edge.node)] + edge.index + 1); }
  int32_t FeedOf(Edge edge) const { return edge.node < 0 || edge.index < 0 ? kNone : feed_of_[ValueOf(edge)]; }
  uint64_t KeyOf(Edge edge, int32_t part) const { return ValueOf(edge) * out_.parts.size() + static_cast<uint64_t>(part); }

  Status FindParts() {
    std::map<std::string, int32_t, std::less<>> parts;
    for (int32_t id : request_.order) {
      const Node& node = graph_.node(id);
      const std::string& device = node.device.empty() ? request_.default_device : node.device;
      if (device.empty()) return InvalidArgument(StrCat(node.Describe(), " has no device, and no default was given"));
      const auto [it, fresh] = parts.emplace(request_.part_of ? request_.part_of(device) : device, static_cast<int32_t>(out_.parts.size()));
      if (fresh) {
        Part& part = out_.parts.emplace_back(&graph_.registry());
        part.device = it->first;
        part.graph.library() = graph_.library();
        part.graph.set_producer(graph_.producer());
      }
      items_[id].part = it->second;
      items_[id].origin = id;
    }
    return Status::Ok();
  }
  int32_t PartOf(int32_t node) { return items_[node].part; }
  const std::string& DeviceOf(int32_t part) const { return out_.parts[static_cast<size_t>(part)].device; }

  // Nodes that only name a feed may have open inputs; they stand aside, before all others.
  Status Analyse() {
    std::vector<int32_t> running;
    for (int32_t id : request_.order) {
      const std::vector<Edge>& inputs = graph_.node(id).inputs;
      if (std::none_of(inputs.begin(), inputs.end(), [](const Edge& edge) { return edge.node < 0; })) running.push_back(id);
      else items_[id].inputs.assign(inputs.size(), {});
    }
    TENON_ASSIGN_OR_RETURN(loops_, LoopAnalysis::Run(graph_, running));
    TENON_ASSIGN_OR_RETURN(sequence_, Sequence::Make(graph_, running, loops_));
    deadness_.emplace(graph_, running, loops_, is_fed_);
    return Status::Ok();
  }
  const Frame& FrameAt(int frame) const { return loops_.frames()[static_cast<size_t>(frame)]; }

  Status FindRoles() {
    const std::pair<const char*, const graph::OpDef**> roles[] = {
        {"send", &send_}, {"recv", &recv_}, {"constant", &constant_}, {"identity", &identity_}, {"enter", &enter_},
        {"merge", &merge_}, {"switch", &switch_}, {"next_iteration", &next_}};
    if (out_.parts.size() < 2) return Status::Ok();
    for (const auto& [role, op] : roles) {
      TENON_ASSIGN_OR_RETURN(*op, graph_.registry().FindRole(role));
    }
    return Status::Ok();
  }

  // Names of new nodes have kMark in them; as a rule no other node's name has.
  static constexpr std::string_view kMark = "/_";
  void FindMarks() {
    for (int32_t id = 0; id < graph_.size() && !marked_; ++id) marked_ = graph_.node(id).name.find(kMark) != std::string::npos;
  }
  std::string NewName(const std::string& stem, const char* what, int32_t number) const {
    std::string name = StrCat(stem, kMark, what, "_", number);
    while (marked_ && graph_.Find(name) >= 0) name += "_";
    return name;
  }

  // ---- Loops over several parts ----

  Status ShareLoops() {
    const size_t frames = loops_.frames().size();
    conditions_.assign(frames, kNone);
    std::vector<std::vector<bool>> participants(frames, std::vector<bool>(out_.parts.size()));
    for (int32_t id : sequence_->nodes()) {
      const int frame = loops_.frame_of(id);
      if (frame <= 0) continue;
      participants[static_cast<size_t>(frame)][static_cast<size_t>(PartOf(id))] = true;
      int32_t& condition = conditions_[static_cast<size_t>(frame)];
      if (graph_.node(id).has(TENON_OP_LOOP_CONDITION)) condition = condition == kNone ? id : kSeveral;
    }
    for (size_t frame = frames; frame-- > 1;) {
      std::vector<bool>& around = participants[static_cast<size_t>(FrameAt(static_cast<int>(frame)).parent)];
      for (size_t part = 0; part < around.size(); ++part) around[part] = around[part] || participants[frame][part];
    }
    for (size_t frame = 1; frame < frames; ++frame) {
      if (std::count(participants[frame].begin(), participants[frame].end(), true) < 2) continue;
      for (int32_t part = 0; part < static_cast<int32_t>(out_.parts.size()); ++part) {
        if (!participants[frame][static_cast<size_t>(part)]) continue;
        TENON_RETURN_IF_ERROR(CheckCondition(static_cast<int>(frame)));
        if (PartOf(conditions_[frame]) == part) continue;
        TENON_ASSIGN_OR_RETURN(const Machine machine, MachineOf(part, static_cast<int>(frame)));
        static_cast<void>(machine);
      }
    }
    return Status::Ok();
  }

  Status CheckCondition(int frame) const {
    if (conditions_[static_cast<size_t>(frame)] >= 0) return Status::Ok();
    return Unimplemented(StrCat("loop '", FrameAt(frame).name, "' stands on several devices, but has ",
                                conditions_[static_cast<size_t>(frame)] == kNone ? "no" : "more than one",
                                " loop condition; put its nodes on one device"));
  }

  // What turns a loop in a part, and starts its receives.
  struct Machine {
    int32_t turn = -1;  // runs in every turn
    int32_t body = -1;  // runs in turns for which the condition holds
  };

  Result<Machine> MachineOf(int32_t part, int frame) {
    const uint64_t key = static_cast<uint64_t>(frame) * out_.parts.size() + static_cast<uint64_t>(part);
    if (const auto it = machines_.find(key); it != machines_.end()) return it->second;
    TENON_RETURN_IF_ERROR(CheckCondition(frame));
    const Frame& loop = FrameAt(frame);
    const int32_t condition = conditions_[static_cast<size_t>(frame)];
    const int32_t begin = sequence_->begin(frame);
    std::vector<int32_t> around;
    if (loop.parent != 0) {
      const Frame& parent = FrameAt(loop.parent);
      const bool of_body = parent.structured && std::any_of(loop.enters.begin(), loop.enters.end(), [&](int32_t id) { return parent.body.contains(id); });
      TENON_ASSIGN_OR_RETURN(const int32_t pivot, PivotOf(part, loop.parent, of_body));
      around.push_back(pivot);
    }
    const auto make = [&](const graph::OpDef* op, const char* what, Moment when, std::vector<Handle> inputs) {
      return items_.Add({part, when, -1, false, op, NewName(graph_.node(condition).name, what, part), {}, std::move(inputs), {}, -1, -1});
    };
    const int32_t start = make(constant_, "start", {begin, Moment::kBeforeLoop, 0}, {});
    items_[start].attrs = {{"dtype", AttrValue::Type(TENON_DT_BOOL)}, {"value", AttrValue::OfTensor(NoTensor(TENON_DT_BOOL, {}))}};
    items_[start].controls = std::move(around);
    const int32_t enter = make(enter_, "enter", {begin, Moment::kLoopBegins, 0}, {{start, 0}});
    const AttrValue* parallel = graph_.node(loop.enters[0]).FindAttr("parallel_iterations");
    items_[enter].attrs = {{"frame_name", AttrValue::String(loop.name)}, {"is_constant", AttrValue::Bool(false)}};
    if (parallel != nullptr) items_[enter].attrs.emplace("parallel_iterations", *parallel);
    Machine machine;
    machine.turn = make(merge_, "turn", {begin, Moment::kLoopBegins, 1}, {{enter, 0}, {}});
    const Moment after{sequence_->position(condition), Moment::kAfterCondition, 0};
    const int32_t goes_on = make(switch_, "switch", after, {{machine.turn, 0}, {}});
    machine.body = make(identity_, "body", after, {{goes_on, 1}});
    const int32_t next = make(next_, "next", {sequence_->end(frame) - 1, Moment::kTurnEnds, 0}, {{machine.body, 0}});
    items_[machine.turn].inputs[1] = {next, 0};
    machines_.emplace(key, machine);  // before the condition is received, which starts from here
    TENON_ASSIGN_OR_RETURN(items_[goes_on].inputs[1], Local({condition, 0}, part, {&graph_.node(condition), after}));
    return machine;
  }

  // What starts a receive in that frame; -1: nothing has to.
  Result<int32_t> PivotOf(int32_t part, int frame, bool of_body) {
    if (frame == 0) return kNone;
    TENON_ASSIGN_OR_RETURN(const Machine machine, MachineOf(part, frame));
    return of_body ? machine.body : machine.turn;
  }

  // ---- Edges ----

  // Which nodes a part reads an output of, so that control edges from them need no channel of their own.
  void NoteCrossings() {
    for (int32_t id : sequence_->nodes())
      for (const Edge& edge : graph_.node(id).inputs) {
        if (FeedOf(edge) >= 0 || PartOf(edge.node) == PartOf(id)) continue;
        const auto [it, fresh] = crossing_.emplace(KeyOf({edge.node, -1}, PartOf(id)), edge.index);
        if (!fresh) it->second = std::min(it->second, edge.index);
      }
  }

  Status Connect(const Node& node) {
    const int32_t part = PartOf(node.id), position = sequence_->position(node.id);
    items_[node.id].when = {position, Moment::kNode, 0};
    Reader reader{&node, {position, Moment::kBeforeNode, 0}};
    if (node.has(TENON_OP_ENTER)) reader.when = {sequence_->begin(loops_.frame_of(node.id)), Moment::kBeforeLoop, 0};
    return ConnectTo(node, part, node.id, reader);
  }

  // The inputs of a node, for its item in a part.
  Status ConnectTo(const Node& node, int32_t part, int32_t item, const Reader& reader) {
    std::vector<Handle> inputs;
    std::vector<int32_t> controls;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      TENON_RETURN_IF_ERROR(CheckCrossing(node, i, part));
      TENON_ASSIGN_OR_RETURN(const Handle input, Local(node.inputs[i], part, reader));
      inputs.push_back(input);
    }
    for (int32_t control : node.controls) {
      TENON_ASSIGN_OR_RETURN(const int32_t local, LocalControl(control, part, reader));
      controls.push_back(local);
    }
    items_[item].inputs = std::move(inputs);
    items_[item].controls = std::move(controls);
    return Status::Ok();
  }

  Status CheckCrossing(const Node& node, size_t input, int32_t part) {
    const Edge edge = node.inputs[input];
    if (FeedOf(edge) >= 0) return Status::Ok();
    if (PartOf(edge.node) < 0) return Internal(StrCat(node.Describe(), ": input ", input, " has no producer in the order"));
    if (PartOf(edge.node) == part) return Status::Ok();
    const bool reference = IsRef(node.input_types[input]);
    if (!reference && graph_.TypeOf(edge) != TENON_DT_RESOURCE) return Status::Ok();
    return InvalidArgument(StrCat(node.Describe(), " on ", DeviceOf(part), " takes ", reference ? "a reference" : "a resource handle", " of ",
                                  graph_.node(edge.node).Describe(), " on ", DeviceOf(PartOf(edge.node)), "; they must be on one device"));
  }

  // The value in a part.
  Result<Handle> Local(Edge edge, int32_t part, const Reader& reader) {
    if (const int32_t feed = FeedOf(edge); feed >= 0) return Fed(feed, edge, part);
    if (PartOf(edge.node) == part) return Handle{edge.node, edge.index};
    if (MayRepeat(edge.node)) {
      TENON_ASSIGN_OR_RETURN(const int32_t item, Repeat(graph_.node(edge.node), part, reader));
      return Handle{item, edge.index};
    }
    TENON_ASSIGN_OR_RETURN(const int32_t item, Receive(edge, part, reader));
    return Handle{item, 0};
  }

  Result<int32_t> LocalControl(int32_t node, int32_t part, const Reader& reader) {
    if (PartOf(node) == part) return node;
    if (PartOf(node) < 0) return Internal(StrCat(reader.node->Describe(), " waits for a node that is not in the order"));
    if (MayRepeat(node)) return Repeat(graph_.node(node), part, reader);
    const auto data = crossing_.find(KeyOf({node, -1}, part));
    if (data != crossing_.end() && !graph_.node(node).has(TENON_OP_SWITCH)) return Receive({node, data->second}, part, reader);
    return Receive({node, -1}, part, reader);
  }

  // A fed value, in another part than its node's: as a receive from the caller.
  Handle Fed(int32_t feed, Edge edge, int32_t part) {
    if (PartOf(edge.node) == part) return {edge.node, edge.index};
    int32_t& item = feeds_[{feed, part}];
    if (item != 0) return {item, 0};
    const Node& node = graph_.node(edge.node);
    item = items_.Add({part, {}, -1, false, recv_, NewName(node.name, "feed", feed), {}, {}, {}, -1, -1});
    items_[item].attrs = AttrsOf(StrCat("feed_", feed, "_", node.name), part, part, true);
    items_[item].attrs.emplace("tensor_type", AttrValue::Type(BaseType(graph_.TypeOf(edge))));
    return {item, 0};
  }

  // Whether a node stands in each part that reads it, instead of being sent.
  bool MayRepeat(int32_t id) const {
    const Node& node = graph_.node(id);
    if (node.has(TENON_OP_LOOP_CONDITION)) return conditions_[static_cast<size_t>(loops_.frame_of(id))] == id;
    if (node.has(TENON_OP_NEXT_ITERATION | TENON_OP_ENTER)) return !IsRef(node.output_types[0]);
    if (!node.has(TENON_OP_CONSTANT)) return false;
    const AttrValue* value = node.FindAttr("value");
    const bool small = value != nullptr && value->kind() == TENON_ATTR_TENSOR && value->tensor().byte_size() <= request_.repeat_bytes;
    return small && (node.controls.empty() || !deadness_->MayBeDead({id, 0}));
  }

  Result<int32_t> Repeat(const Node& node, int32_t part, const Reader& reader) {
    const auto [it, fresh] = local_.emplace(KeyOf({node.id, -1}, part), kNone);
    if (!fresh) {
      if (node.has(TENON_OP_CONSTANT)) items_[it->second].when = std::min(items_[it->second].when, reader.when);
      return it->second;
    }
    const int32_t position = sequence_->position(node.id), frame = loops_.frame_of(node.id);
    const int32_t item = it->second = items_.Add({part, {position, Moment::kNode, 0}, node.id, true, nullptr, {}, {}, {}, {}, -1, -1});
    if (node.has(TENON_OP_CONSTANT)) {
      items_[item].when = reader.when;
      TENON_ASSIGN_OR_RETURN(const int32_t pivot, PivotOf(part, frame, deadness_->IsOfBody({node.id, 0})));
      if (pivot >= 0) items_[item].controls.push_back(pivot);
    } else if (node.has(TENON_OP_LOOP_CONDITION)) {
      TENON_ASSIGN_OR_RETURN(const int32_t received, Receive({node.id, 0}, part, {&node, {position, Moment::kBeforeNode, 0}}));
      items_[item].inputs.push_back({received, 0});
    } else {
      Reader own{&node, {position, Moment::kBeforeNode, 0}};
      if (node.has(TENON_OP_ENTER)) {
        own.when = {sequence_->begin(frame), Moment::kBeforeLoop, 0};
        items_[item].when = {sequence_->begin(frame), Moment::kLoopBegins, 0};
      }
      TENON_RETURN_IF_ERROR(ConnectTo(node, part, item, own));
    }
    return item;
  }

  // ---- Channels ----

  // The receive of a value in a part.
  Result<int32_t> Receive(Edge edge, int32_t part, const Reader& reader) {
    const auto [it, fresh] = received_.emplace(KeyOf(edge, part), kNone);
    if (!fresh) {
      items_[it->second].when = std::min(items_[it->second].when, reader.when);
      return it->second;
    }
    const auto number = static_cast<int32_t>(out_.channels.size());
    const Node& node = graph_.node(edge.node);
    const int frame = deadness_->FrameOf(edge);
    Channel channel{StrCat("edge_", number, "_", node.name), edge, PartOf(node.id), part, -1, -1, sequence_->depth(frame), deadness_->MayBeDead(edge)};
    if (channel.depth > kMaxDepth)
      return Unimplemented(StrCat(node.Describe(), " on ", DeviceOf(channel.from), " is read on ", DeviceOf(part), " in ", channel.depth,
                                  " loops; at most ", kMaxDepth, " may stand around a value that crosses devices"));
    graph::AttrMap attrs = AttrsOf(channel.name, channel.from, part, false);
    const int32_t receive = items_.Add({part, reader.when, -1, false, recv_, NewName(node.name, "recv", number), attrs, {}, {}, number, -1});
    it->second = receive;
    const DType type = edge.index < 0 ? DType{TENON_DT_FLOAT} : BaseType(graph_.TypeOf(edge));
    items_[receive].attrs.emplace("tensor_type", AttrValue::Type(type));
    Moment after{sequence_->position(node.id), Moment::kSend, 0};
    if (node.has(TENON_OP_EXIT)) after = {sequence_->end(loops_.frame_of(node.id)) - 1, Moment::kAfterLoop, -sequence_->depth(frame)};
    Item send{channel.from, after, -1, false, send_, NewName(node.name, "send", number), std::move(attrs), {{edge.node, edge.index}}, {}, number, -1};
    if (edge.index < 0) {
      send.inputs[0] = {Nothing(node, channel.from, after, number), 0};
      send.controls = {node.id};
    }
    out_.channels.push_back(std::move(channel));
    sends_.push_back(items_.Add(std::move(send)));
    receives_.push_back(receive);
    TENON_ASSIGN_OR_RETURN(const int32_t pivot, PivotOf(part, frame, deadness_->IsOfBody(edge)));
    if (pivot >= 0) items_[receive].controls.push_back(pivot);
    return receive;
  }

  // What a control edge carries.
  int32_t Nothing(const Node& node, int32_t part, Moment when, int32_t number) {
    const int32_t item = items_.Add({part, when, -1, false, constant_, NewName(node.name, "done", number), {}, {}, {node.id}, -1, -1});
    items_[item].attrs = {{"dtype", AttrValue::Type(TENON_DT_FLOAT)}, {"value", AttrValue::OfTensor(NoTensor(TENON_DT_FLOAT, {0}))}};
    return item;
  }

  static Tensor NoTensor(DType type, Shape shape) {
    auto tensor = Tensor::Allocate(KeptPool(), type, std::move(shape));
    if (!tensor.ok()) return Tensor();  // the constant is refused
    if (tensor->byte_size() > 0) *tensor->as<uint8_t>() = 0;
    return *std::move(tensor);
  }

  graph::AttrMap AttrsOf(const std::string& name, int32_t from, int32_t to, bool client) {
    graph::AttrMap& shared = attrs_[{from, to, client}];
    if (shared.empty()) {
      const std::string& sender = DeviceOf(from);
      shared = {{"send_device", AttrValue::String(sender)},
                {"send_device_incarnation", AttrValue::Int(request_.incarnation ? request_.incarnation(sender) : 1)},
                {"recv_device", AttrValue::String(DeviceOf(to))},
                {"client_terminated", AttrValue::Bool(client)}};
    }
    graph::AttrMap own = shared;
    own.emplace("tensor_name", AttrValue::String(name));
    return own;
  }

  // ---- The result ----

  Result<Partitioned> Finish() {
    const auto part_at = [this](int32_t item) -> Part& { return out_.parts[static_cast<size_t>(items_[item].part)]; };
    for (size_t i = 0; i < out_.channels.size(); ++i) {
      out_.channels[i].send = items_[sends_[i]].node;
      out_.channels[i].recv = items_[receives_[i]].node;
      part_at(sends_[i]).targets.push_back(out_.channels[i].send);
    }
    for (Part& part : out_.parts)
      for (int32_t origin : part.origins) part.may_be_dead.push_back(origin < 0 || deadness_->MayBeDead({origin, -1}));
    const auto feed = [&](int32_t item, int32_t output, int32_t number) {
      part_at(item).feeds.push_back({items_[item].node, output});
      part_at(item).feed_numbers.push_back(number);
    };
    for (size_t i = 0; i < request_.feeds.size(); ++i) {
      const Edge edge = request_.feeds[i];
      if (PartOf(edge.node) < 0) return Internal(StrCat("feed '", graph_.EdgeName(edge), "' is not in the order"));
      feed(edge.node, edge.index, static_cast<int32_t>(i));
    }
    for (const auto& [key, item] : feeds_) feed(item, 0, key.first);
    for (size_t i = 0; i < request_.fetches.size(); ++i) {
      const Edge edge = request_.fetches[i];
      if (PartOf(edge.node) < 0) return Internal(StrCat("fetch '", graph_.EdgeName(edge), "' is not in the order"));
      part_at(edge.node).fetches.push_back({items_[edge.node].node, edge.index});
      part_at(edge.node).fetch_numbers.push_back(static_cast<int32_t>(i));
    }
    for (int32_t target : request_.targets) part_at(target).targets.push_back(items_[target].node);
    out_.feeds = request_.feeds;
    out_.fetches = request_.fetches;
    return std::move(out_);
  }

  const PartitionRequest& request_;
  const graph::Graph& graph_;
  ItemList items_;
  Partitioned out_;
  const graph::BranchAnalysis::IsFed is_fed_;
  std::vector<int64_t> first_value_;  // by node
  std::vector<int32_t> feed_of_;      // by value
  LoopAnalysis loops_;
  std::optional<Sequence> sequence_;
  std::optional<Deadness> deadness_;
  std::vector<int32_t> conditions_;   // by frame: its loop condition
  const graph::OpDef *send_ = nullptr, *recv_ = nullptr, *constant_ = nullptr, *identity_ = nullptr, *enter_ = nullptr,
                     *merge_ = nullptr, *switch_ = nullptr, *next_ = nullptr;
  std::unordered_map<uint64_t, Machine> machines_;           // by frame and part
  std::unordered_map<uint64_t, int32_t> crossing_;           // by node and part: the first output that it reads
  std::unordered_map<uint64_t, int32_t> local_, received_;   // by node, or value, and part: items
  std::map<std::pair<int32_t, int32_t>, int32_t> feeds_;     // by feed and part
  std::map<std::tuple<int32_t, int32_t, bool>, graph::AttrMap> attrs_;  // of sends and receives, by parts, but for names
  bool marked_ = false;
  std::vector<int32_t> sends_, receives_;                    // by channel: items
};

}  // namespace

Result<Partitioned> Partition(const PartitionRequest& request) { return Partitioner(request).Run(); }

}  // namespace tenon::partition
