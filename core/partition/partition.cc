// SPDX-License-Identifier: Apache-2.0
#include "core/partition/partition.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "core/graph/function/function_library.h"
#include "core/graph/graph.h"
#include "core/graph/op_registry.h"
#include "core/partition/crossing_order.h"
#include "core/partition/deadness.h"
#include "core/partition/part_items.h"
#include "core/partition/sequence.h"
#include "core/tensor/allowance.h"

namespace tenon::partition {

using graph::AttrValue;
using graph::Edge;
using graph::Frame;
using graph::FrameId;
using graph::LoopAnalysis;
using graph::Node;

namespace {

constexpr int32_t kNone = -1;

// Whoever reads a value of another part: for errors, and when it has to be there.
struct Reader {
  const Node* node;
  Moment when;
};

class Partitioner {
 public:
  explicit Partitioner(const PartitionRequest& request)
      : request_(request),
        graph_(*request.graph),
        items_(graph_),
        is_fed_([this](Edge edge) { return FeedOf(edge) >= 0; }) {}

  Result<Partitioned> Run() {
    NumberValues();
    FindMarks();
    FindAside();
    TENON_RETURN_IF_ERROR(FindParts());
    TENON_RETURN_IF_ERROR(Analyse());
    TENON_RETURN_IF_ERROR(FindRoles());
    TENON_RETURN_IF_ERROR(ShareLoops());
    NoteCrossings();
    for (graph::NodeId id : sequence_->nodes()) TENON_RETURN_IF_ERROR(Connect(graph_.node(id)));
    for (const Edge& fetch : request_.fetches)
      if (aside_[fetch.node]) Fed(FeedOf(fetch), fetch, fetched_at_[fetch.node]);
    TENON_RETURN_IF_ERROR(items_.Build(&out_.parts));
    return Finish();
  }

 private:
  // ---- What is known of the whole ----

  void NumberValues() {
    first_value_.resize(graph_.size() + 1);
    for (const graph::NodeId id : graph_.ids())
      first_value_[id.index() + 1] =
          first_value_[id.index()] + static_cast<int64_t>(graph_.node(id).output_types.size()) + 1;
    feed_of_.assign(first_value_.back(), kNone);
    for (size_t i = 0; i < request_.feeds.size(); ++i) feed_of_[ValueOf(request_.feeds[i])] = static_cast<int32_t>(i);
  }
  // Outputs, the first of which is the control output.
  size_t ValueOf(Edge edge) const { return first_value_[edge.node.index()] + edge.index + 1; }
  int32_t FeedOf(Edge edge) const { return !edge.node || edge.index < 0 ? kNone : feed_of_[ValueOf(edge)]; }
  uint64_t KeyOf(Edge edge, int32_t part) const {
    return ValueOf(edge) * out_.parts.size() + static_cast<uint64_t>(part);
  }

  // Nodes that only name what is fed: nobody reads another output of them, or waits for them. They do not run, their
  // inputs may be open, and they are in no part: who reads the value receives it from the caller. One without inputs
  // stays, as the feed that it is.
  void FindAside() {
    graph::NodeMap<bool> wanted(graph_.size(), false), fed(graph_.size(), false);
    for (const Edge& feed : request_.feeds) fed[feed.node] = true;
    const auto want = [&](Edge edge) {
      if (edge.node && FeedOf(edge) < 0) wanted[edge.node] = true;
    };
    for (const Edge& fetch : request_.fetches) want(fetch);
    for (const graph::NodeId target : request_.targets) wanted[target] = true;
    // Of a loop's node, what reads it may come earlier.
    for (const graph::NodeId id : request_.order)
      if (graph_.node(id).has(TENON_OP_MERGE))
        for (const Edge& edge : graph_.node(id).inputs) want(edge);
    aside_.assign(graph_.size(), false);
    for (size_t i = request_.order.size(); i-- > 0;) {
      const Node& node = graph_.node(request_.order[i]);
      // Whoever waits for one with open inputs waits for its feed.
      const bool open =
          std::any_of(node.inputs.begin(), node.inputs.end(), [](const Edge& edge) { return !edge.node; });
      aside_[node.id] = fed[node.id] && (open || !wanted[node.id]) && !node.inputs.empty();
      if (aside_[node.id]) continue;
      for (const Edge& edge : node.inputs) want(edge);
      for (const graph::NodeId control : node.controls) wanted[control] = true;
    }
    fetched_aside_.assign(graph_.size(), false);
    for (const Edge& fetch : request_.fetches) fetched_aside_[fetch.node] = aside_[fetch.node];
  }

  Status FindParts() {
    std::map<std::string, int32_t, std::less<>> parts;
    for (graph::NodeId id : request_.order) {
      if (aside_[id] && !fetched_aside_[id]) continue;
      const Node& node = graph_.node(id);
      const std::string& device = node.device.empty() ? request_.default_device : node.device;
      if (device.empty()) return InvalidArgument(StrCat(node.Describe(), " has no device, and no default was given"));
      const auto [it, fresh] =
          parts.emplace(request_.part_of ? request_.part_of(device) : device, static_cast<int32_t>(out_.parts.size()));
      if (fresh) {
        Part& part = out_.parts.emplace_back(&graph_.registry());
        part.device = it->first;
        part.graph.set_producer(graph_.producer());
      }
      if (aside_[id]) {
        fetched_at_[id] = it->second;
        continue;
      }
      items_[id].part = it->second;
      items_[id].origin = id;
    }
    return Status::Ok();
  }
  int32_t PartOf(graph::NodeId node) { return items_[node].part; }
  const std::string& DeviceOf(int32_t part) const { return out_.parts[part].device; }

  Status Analyse() {
    std::vector<graph::NodeId> running;
    for (graph::NodeId id : request_.order) {
      if (aside_[id]) continue;
      const std::vector<Edge>& inputs = graph_.node(id).inputs;
      if (const auto open = std::find_if(inputs.begin(), inputs.end(), [](const Edge& edge) { return !edge.node; });
          open != inputs.end())
        return InvalidArgument(StrCat(graph_.node(id).Describe(), ": input ", open - inputs.begin(), " is open"));
      running.push_back(id);
    }
    if (out_.parts.size() > 1)
      running = CrossingOrder(graph_, running, [this](graph::NodeId from, graph::NodeId to) {
        return PartOf(from) != PartOf(to) && !graph_.node(from).has(TENON_OP_CONSTANT);  // those are repeated
      });
    TENON_ASSIGN_OR_RETURN(loops_, LoopAnalysis::Run(graph_, running));
    TENON_ASSIGN_OR_RETURN(sequence_, Sequence::Make(graph_, running, loops_));
    deadness_.emplace(graph_, running, loops_, is_fed_);
    return Status::Ok();
  }
  const Frame& FrameAt(FrameId frame) const { return loops_.frame(frame); }

  Status FindRoles() {
    const std::pair<const char*, const graph::OpDef**> roles[] = {
        {"send", &send_}, {"recv", &recv_}, {"constant", &constant_}, {"identity", &identity_}, {"enter", &enter_},
        {"merge", &merge_}, {"switch", &switch_}, {"next_iteration", &next_}};
    const bool receives = std::any_of(aside_.begin(), aside_.end(), [](bool aside) { return aside; });
    if (out_.parts.size() < 2 && !receives) return Status::Ok();
    for (const auto& [role, op] : roles) {
      TENON_ASSIGN_OR_RETURN(*op, graph_.registry().FindRole(role));
    }
    return Status::Ok();
  }

  // Names of new nodes have kMark in them; as a rule no other node's name has.
  static constexpr std::string_view kMark = "/_";
  void FindMarks() {
    for (const graph::NodeId id : graph_.ids())
      marked_ = marked_ || graph_.node(id).name.find(kMark) != std::string::npos;
  }
  std::string NewName(const std::string& stem, const char* what, int32_t number) const {
    std::string name = StrCat(stem, kMark, what, "_", number);
    while (marked_ && graph_.Find(name)) name += "_";
    return name;
  }

  // ---- Loops over several parts ----

  Status ShareLoops() {
    const size_t frames = loops_.frames().size();
    conditions_.resize(frames);
    condition_counts_.resize(frames);
    IdVector<FrameId, std::vector<bool>> participants(frames, std::vector<bool>(out_.parts.size()));
    for (graph::NodeId id : sequence_->nodes()) {
      const FrameId frame = loops_.frame_of(id);
      if (!frame || frame == graph::kStep) continue;
      participants[frame][PartOf(id)] = true;
      if (graph_.node(id).has(TENON_OP_LOOP_CONDITION))
        conditions_[frame] = ++condition_counts_[frame] == 1 ? id : graph::NodeId();
    }
    for (size_t at = frames; at-- > 1;) {
      const FrameId frame(at);
      std::vector<bool>& around = participants[FrameAt(frame).parent];
      for (size_t part = 0; part < around.size(); ++part) around[part] = around[part] || participants[frame][part];
    }
    for (const FrameId frame : IdRange(graph::kStep.next(), participants.next_id())) {
      if (std::count(participants[frame].begin(), participants[frame].end(), true) < 2) continue;
      for (int32_t part = 0; part < static_cast<int32_t>(out_.parts.size()); ++part) {
        if (!participants[frame][part]) continue;
        TENON_RETURN_IF_ERROR(CheckCondition(frame));
        if (PartOf(conditions_[frame]) == part) continue;
        TENON_ASSIGN_OR_RETURN(const Machine machine, MachineOf(part, frame));
        static_cast<void>(machine);
      }
    }
    return Status::Ok();
  }

  Status CheckCondition(FrameId frame) const {
    if (conditions_[frame]) return Status::Ok();
    return Unimplemented(StrCat("loop '", FrameAt(frame).name, "' stands on several devices, but has ",
                                condition_counts_[frame] == 0 ? "no" : "more than one",
                                " loop condition; put its nodes on one device"));
  }

  // What turns a loop in a part, and starts its receives.
  struct Machine {
    ItemId turn;  // runs in every turn
    ItemId body;  // runs in turns for which the condition holds
  };

  Result<Machine> MachineOf(int32_t part, FrameId frame) {
    const uint64_t key = frame.index() * out_.parts.size() + static_cast<uint64_t>(part);
    if (const auto it = machines_.find(key); it != machines_.end()) return it->second;
    TENON_RETURN_IF_ERROR(CheckCondition(frame));
    const Frame& loop = FrameAt(frame);
    const graph::NodeId condition = conditions_[frame];
    const int32_t begin = sequence_->begin(frame);
    std::vector<ItemId> around;
    if (loop.parent != graph::kStep) {
      const Frame& parent = FrameAt(loop.parent);
      const bool of_body = parent.structured && std::any_of(loop.enters.begin(), loop.enters.end(),
                                                            [&](graph::NodeId id) { return parent.body.contains(id); });
      TENON_ASSIGN_OR_RETURN(const ItemId pivot, PivotOf(part, loop.parent, of_body));
      around.push_back(pivot);
    }
    const auto make = [&](const graph::OpDef* op, const char* what, Moment when, std::vector<Handle> inputs) {
      return items_.Add({part,
                         when,
                         {},
                         false,
                         op,
                         NewName(graph_.node(condition).name, what, part),
                         {},
                         std::move(inputs),
                         {},
                         {},
                         {}});
    };
    const ItemId start = make(constant_, "start", {begin, Moment::kBeforeLoop, 0}, {});
    items_[start].attrs = {{"dtype", AttrValue::Type(TENON_DT_BOOL)},
                           {"value", AttrValue::OfTensor(NoTensor(TENON_DT_BOOL, {}))}};
    items_[start].controls = std::move(around);
    const ItemId enter = make(enter_, "enter", {begin, Moment::kLoopBegins, 0}, {{start, 0}});
    const AttrValue* parallel = graph_.node(loop.enters[0]).FindAttr("parallel_iterations");
    items_[enter].attrs = {{"frame_name", AttrValue::String(loop.name)}, {"is_constant", AttrValue::Bool(false)}};
    if (parallel != nullptr) items_[enter].attrs.emplace("parallel_iterations", *parallel);
    Machine machine;
    machine.turn = make(merge_, "turn", {begin, Moment::kLoopBegins, 1}, {{enter, 0}, {}});
    const Moment after{sequence_->position(condition), Moment::kAfterCondition, 0};
    const ItemId goes_on = make(switch_, "switch", after, {{machine.turn, 0}, {}});
    machine.body = make(identity_, "body", after, {{goes_on, 1}});
    const ItemId next = make(next_, "next", {sequence_->end(frame) - 1, Moment::kTurnEnds, 0}, {{machine.body, 0}});
    items_[machine.turn].inputs[1] = {next, 0};
    machines_.emplace(key, machine);  // before the condition is received, which starts from here
    TENON_ASSIGN_OR_RETURN(items_[goes_on].inputs[1], Local({condition, 0}, part, {&graph_.node(condition), after}));
    return machine;
  }

  // What starts a receive in that frame; -1: nothing has to.
  Result<ItemId> PivotOf(int32_t part, FrameId frame, bool of_body) {
    if (frame == graph::kStep) return ItemId();
    TENON_ASSIGN_OR_RETURN(const Machine machine, MachineOf(part, frame));
    return of_body ? machine.body : machine.turn;
  }

  // ---- Edges ----

  // Which nodes a part reads an output of, so that control edges from them need no channel of their own.
  void NoteCrossings() {
    for (graph::NodeId id : sequence_->nodes())
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
    return ConnectTo(node, part, ItemList::Of(node.id), reader);
  }

  // The inputs of a node, for its item in a part.
  Status ConnectTo(const Node& node, int32_t part, ItemId item, const Reader& reader) {
    std::vector<Handle> inputs;
    std::vector<ItemId> controls;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      TENON_RETURN_IF_ERROR(CheckCrossing(node, i, part));
      TENON_ASSIGN_OR_RETURN(const Handle input, Local(node.inputs[i], part, reader));
      inputs.push_back(input);
    }
    for (graph::NodeId control : node.controls) {
      if (aside_[control]) continue;  // its feed is there
      TENON_ASSIGN_OR_RETURN(const ItemId local, LocalControl(control, part, reader));
      controls.push_back(local);
    }
    items_[item].inputs = std::move(inputs);
    items_[item].controls = std::move(controls);
    return Status::Ok();
  }

  Status CheckCrossing(const Node& node, size_t input, int32_t part) {
    const Edge edge = node.inputs[input];
    if (FeedOf(edge) >= 0) return Status::Ok();
    if (PartOf(edge.node) < 0)
      return Internal(StrCat(node.Describe(), ": input ", input, " has no producer in the order"));
    if (PartOf(edge.node) == part) return Status::Ok();
    const bool reference = IsRef(node.input_types[input]);
    if (!reference && graph_.TypeOf(edge) != TENON_DT_RESOURCE) return Status::Ok();
    return InvalidArgument(StrCat(
        node.Describe(), " on ", DeviceOf(part), " takes ", reference ? "a reference" : "a resource handle", " of ",
        graph_.node(edge.node).Describe(), " on ", DeviceOf(PartOf(edge.node)), "; they must be on one device"));
  }

  // The value in a part.
  Result<Handle> Local(Edge edge, int32_t part, const Reader& reader) {
    if (const int32_t feed = FeedOf(edge); feed >= 0) return Fed(feed, edge, part);
    if (PartOf(edge.node) == part) return Handle{ItemList::Of(edge.node), edge.index};
    if (MayRepeat(edge.node)) {
      TENON_ASSIGN_OR_RETURN(const ItemId item, Repeat(graph_.node(edge.node), part, reader));
      return Handle{item, edge.index};
    }
    TENON_ASSIGN_OR_RETURN(const ItemId item, Receive(edge, part, reader));
    return Handle{item, 0};
  }

  Result<ItemId> LocalControl(graph::NodeId node, int32_t part, const Reader& reader) {
    if (PartOf(node) == part) return ItemList::Of(node);
    if (PartOf(node) < 0)
      return Internal(StrCat(reader.node->Describe(), " waits for a node that is not in the order"));
    if (MayRepeat(node)) return Repeat(graph_.node(node), part, reader);
    const auto data = crossing_.find(KeyOf({node, -1}, part));
    if (data != crossing_.end() && !graph_.node(node).has(TENON_OP_SWITCH))
      return Receive({node, data->second}, part, reader);
    return Receive({node, -1}, part, reader);
  }

  // A fed value, where its node is not: as a receive from the caller.
  Handle Fed(int32_t feed, Edge edge, int32_t part) {
    if (PartOf(edge.node) == part) return {ItemList::Of(edge.node), edge.index};
    ItemId& item = feeds_[{feed, part}];
    if (item) return {item, 0};
    const Node& node = graph_.node(edge.node);
    item = items_.Add({part, {}, {}, false, recv_, NewName(node.name, "feed", feed), {}, {}, {}, {}, {}});
    items_[item].attrs = AttrsOf(StrCat("feed_", feed, "_", node.name), part, part, true);
    items_[item].attrs.emplace("tensor_type", AttrValue::Type(BaseType(graph_.TypeOf(edge))));
    return {item, 0};
  }

  // Whether a node stands in each part that reads it, instead of being sent.
  bool MayRepeat(graph::NodeId id) const {
    const Node& node = graph_.node(id);
    if (node.has(TENON_OP_LOOP_CONDITION)) return conditions_[loops_.frame_of(id)] == id;
    if (node.has(TENON_OP_NEXT_ITERATION | TENON_OP_ENTER)) return !IsRef(node.output_types[0]);
    if (!node.has(TENON_OP_CONSTANT)) return false;
    const AttrValue* value = node.FindAttr("value");
    const bool small =
        value != nullptr && value->kind() == TENON_ATTR_TENSOR && value->tensor().byte_size() <= request_.repeat_bytes;
    return small && (node.controls.empty() || !deadness_->MayBeDead({id, 0}));
  }

  Result<ItemId> Repeat(const Node& node, int32_t part, const Reader& reader) {
    const auto [it, fresh] = local_.emplace(KeyOf({node.id, -1}, part), ItemId());
    if (!fresh) {
      if (node.has(TENON_OP_CONSTANT)) items_[it->second].when = std::min(items_[it->second].when, reader.when);
      return it->second;
    }
    const int32_t position = sequence_->position(node.id);
    const FrameId frame = loops_.frame_of(node.id);
    const ItemId item = it->second =
        items_.Add({part, {position, Moment::kNode, 0}, node.id, true, nullptr, {}, {}, {}, {}, {}, {}});
    if (node.has(TENON_OP_CONSTANT)) {
      items_[item].when = reader.when;
      TENON_ASSIGN_OR_RETURN(const ItemId pivot, PivotOf(part, frame, deadness_->IsOfBody({node.id, 0})));
      if (pivot) items_[item].controls.push_back(pivot);
    } else if (node.has(TENON_OP_LOOP_CONDITION)) {
      TENON_ASSIGN_OR_RETURN(const ItemId received,
                             Receive({node.id, 0}, part, {&node, {position, Moment::kBeforeNode, 0}}));
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
  Result<ItemId> Receive(Edge edge, int32_t part, const Reader& reader) {
    const auto [it, fresh] = received_.emplace(KeyOf(edge, part), ItemId());
    if (!fresh) {
      items_[it->second].when = std::min(items_[it->second].when, reader.when);
      return it->second;
    }
    const ChannelId channel_id = out_.channels.next_id();
    const int32_t number = channel_id.number();
    const Node& node = graph_.node(edge.node);
    const FrameId frame = deadness_->FrameOf(edge);
    Channel channel{StrCat("edge_", number, "_", node.name),
                    edge,
                    PartOf(node.id),
                    part,
                    {},
                    {},
                    sequence_->depth(frame),
                    deadness_->MayBeDead(edge)};
    if (channel.depth > kMaxDepth)
      return Unimplemented(StrCat(node.Describe(), " on ", DeviceOf(channel.from), " is read on ", DeviceOf(part),
                                  " in ", channel.depth, " loops; at most ", kMaxDepth,
                                  " may stand around a value that crosses devices"));
    graph::AttrMap attrs = AttrsOf(channel.name, channel.from, part, false);
    const ItemId receive = items_.Add(
        {part, reader.when, {}, false, recv_, NewName(node.name, "recv", number), attrs, {}, {}, channel_id, {}});
    it->second = receive;
    const DType type = edge.index < 0 ? DType{TENON_DT_FLOAT} : BaseType(graph_.TypeOf(edge));
    items_[receive].attrs.emplace("tensor_type", AttrValue::Type(type));
    Moment after{sequence_->position(node.id), Moment::kSend, 0};
    if (node.has(TENON_OP_EXIT))
      after = {sequence_->end(loops_.frame_of(node.id)) - 1, Moment::kAfterLoop, -sequence_->depth(frame)};
    Item send{channel.from,
              after,
              {},
              false,
              send_,
              NewName(node.name, "send", number),
              std::move(attrs),
              {{ItemList::Of(edge.node), edge.index}},
              {},
              channel_id,
              {}};
    if (edge.index < 0) {
      send.inputs[0] = {Nothing(node, channel.from, after, number), 0};
      send.controls = {ItemList::Of(node.id)};
    }
    out_.channels.push_back(std::move(channel));
    sends_.push_back(items_.Add(std::move(send)));
    receives_.push_back(receive);
    TENON_ASSIGN_OR_RETURN(const ItemId pivot, PivotOf(part, frame, deadness_->IsOfBody(edge)));
    if (pivot) items_[receive].controls.push_back(pivot);
    return receive;
  }

  // What a control edge carries.
  ItemId Nothing(const Node& node, int32_t part, Moment when, int32_t number) {
    const ItemId item = items_.Add({part,
                                    when,
                                    {},
                                    false,
                                    constant_,
                                    NewName(node.name, "done", number),
                                    {},
                                    {},
                                    {ItemList::Of(node.id)},
                                    {},
                                    {}});
    items_[item].attrs = {{"dtype", AttrValue::Type(TENON_DT_FLOAT)},
                          {"value", AttrValue::OfTensor(NoTensor(TENON_DT_FLOAT, {0}))}};
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
    const auto part_at = [this](ItemId item) -> Part& { return out_.parts[items_[item].part]; };
    for (const ChannelId i : out_.channels.ids()) {
      out_.channels[i].send = items_[sends_[i]].node;
      out_.channels[i].recv = items_[receives_[i]].node;
      part_at(sends_[i]).targets.push_back(out_.channels[i].send);
    }
    for (Part& part : out_.parts)
      for (const graph::NodeId origin : part.origins)
        part.may_be_dead.push_back(!origin || deadness_->MayBeDead({origin, -1}));
    const auto feed = [&](ItemId item, int32_t output, int32_t number) {
      part_at(item).feeds.push_back({items_[item].node, output});
      part_at(item).feed_numbers.push_back(number);
    };
    for (size_t i = 0; i < request_.feeds.size(); ++i) {
      const Edge edge = request_.feeds[i];
      if (aside_[edge.node]) continue;  // who reads it is fed
      if (PartOf(edge.node) < 0) return Internal(StrCat("feed '", graph_.EdgeName(edge), "' is not in the order"));
      feed(ItemList::Of(edge.node), edge.index, static_cast<int32_t>(i));
    }
    for (const auto& [key, item] : feeds_) feed(item, 0, key.first);
    for (size_t i = 0; i < request_.fetches.size(); ++i) {
      const Edge edge = request_.fetches[i];
      if (PartOf(edge.node) < 0 && !aside_[edge.node])
        return Internal(StrCat("fetch '", graph_.EdgeName(edge), "' is not in the order"));
      const Handle at = aside_[edge.node] ? Fed(FeedOf(edge), edge, fetched_at_[edge.node])
                                          : Handle{ItemList::Of(edge.node), edge.index};
      part_at(at.item).fetches.push_back({items_[at.item].node, at.output});
      part_at(at.item).fetch_numbers.push_back(static_cast<int32_t>(i));
    }
    for (graph::NodeId target : request_.targets) part_at(ItemList::Of(target)).targets.push_back(items_[target].node);
    for (Part& part : out_.parts)
      TENON_RETURN_IF_ERROR(graph::CopyCalled(part.graph, graph_.library(), &part.graph.library()));
    out_.feeds = request_.feeds;
    out_.fetches = request_.fetches;
    return std::move(out_);
  }

  const PartitionRequest& request_;
  const graph::Graph& graph_;
  ItemList items_;
  Partitioned out_;
  const graph::BranchAnalysis::IsFed is_fed_;
  std::vector<int64_t> first_value_;  // by number of the node
  std::vector<int32_t> feed_of_;      // by value
  graph::NodeMap<bool> aside_, fetched_aside_;  // nodes that only name feeds; those of them that are fetched
  std::map<graph::NodeId, int32_t> fetched_at_;  // the parts of these
  LoopAnalysis loops_;
  std::optional<Sequence> sequence_;
  std::optional<Deadness> deadness_;
  IdVector<FrameId, graph::NodeId> conditions_;      // the loop condition of each; none: it has none, or several
  IdVector<FrameId, int> condition_counts_;
  const graph::OpDef *send_ = nullptr, *recv_ = nullptr, *constant_ = nullptr, *identity_ = nullptr, *enter_ = nullptr,
                     *merge_ = nullptr, *switch_ = nullptr, *next_ = nullptr;
  std::unordered_map<uint64_t, Machine> machines_;           // by frame and part
  std::unordered_map<uint64_t, int32_t> crossing_;           // by node and part: the first output that it reads
  std::unordered_map<uint64_t, ItemId> local_, received_;   // by node, or value, and part: items
  std::map<std::pair<int32_t, int32_t>, ItemId> feeds_;     // by feed and part
  std::map<std::tuple<int32_t, int32_t, bool>, graph::AttrMap>
      attrs_;  // of sends and receives, by parts, but for names
  bool marked_ = false;
  IdVector<ChannelId, ItemId> sends_, receives_;
};

}  // namespace

Result<Partitioned> Partition(const PartitionRequest& request) { return Partitioner(request).Run(); }

}  // namespace tenon::partition
