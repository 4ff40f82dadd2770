// SPDX-License-Identifier: Apache-2.0
#include "core/graph/graphdef/convert.h"

#include <google/protobuf/arena.h>
#include <google/protobuf/stubs/logging.h>

#include <cstdlib>
#include <new>
#include <queue>

#include "core/graph/function/function_def.h"
#include "core/graph/function/function_library.h"
#include "core/graph/graph.h"
#include "core/graph/graphdef/function_proto.h"
#include "core/graph/graphdef/graph.pb.h"
#include "core/graph/graphdef/tensor_proto.h"
#include "core/graph/graphdef/wire.h"
#include "core/graph/node_name.h"
#include "core/graph/op_registry.h"

namespace tenon::graph {
namespace {

constexpr int64_t kConstantBudget = int64_t{1} << 30;
// The producer version that graphs of ours say: that of TensorFlow 2.16, whose semantics they have.
constexpr int32_t kProducer = 1766;
constexpr int32_t kMinConsumer = 12;
// As a consumer we are what we are as a producer.
Status CheckVersions(const tensorflow::VersionDef& versions) {
  if (versions.min_consumer() > kProducer)
    return Unimplemented(StrCat("the graph, of version ", versions.producer(), ", needs a consumer of version ",
                                versions.min_consumer(), "; this is one of version ", kProducer));
  for (const int32_t bad : versions.bad_consumers())
    if (bad == kProducer)
      return Unimplemented(
          StrCat("the graph says that consumers of version ", kProducer, ", as this is, compute it wrongly"));
  return Status::Ok();
}

struct InputName {
  std::string_view node;
  int32_t index = 0;
  bool control = false;
};

bool ParseInput(std::string_view text, InputName* out) {
  out->control = !text.empty() && text[0] == '^';
  if (out->control) {
    out->node = text.substr(1);
    return !out->node.empty();
  }
  return SplitTensorName(text, &out->node, &out->index);
}

// Adds the nodes of one GraphDef in an order in which inputs come first; merges wait for no next-iteration.
class Importer {
 public:
  Importer(const tensorflow::GraphDef& def, Graph* graph, Unknown unknown, Of of)
      : def_(def), graph_(graph), unknown_(unknown), of_(of) {}

  Status Run() {
    const size_t count = def_.node_size();
    for (size_t i = 0; i < count; ++i) {
      TENON_RETURN_IF_ERROR(CheckAllowance());
      const std::string& name = Def(i).name();
      if (graph_->Find(name) || graph_->IsMissing(name))
        return AlreadyExists(StrCat("the graph already has a node '", name, "'"));
      if (!by_name_.emplace(name, i).second) return InvalidArgument(StrCat("two nodes have the name '", name, "'"));
    }
    pending_.assign(count, 0);
    users_.resize(count);
    for (size_t i = 0; i < count; ++i) TENON_RETURN_IF_ERROR(CountInputs(i));
    if (of_ == Of::kWhole) TENON_RETURN_IF_ERROR(CheckColocations());
    if (unknown_ == Unknown::kLeaveOut) TENON_RETURN_IF_ERROR(FindMissing());
    std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
    for (size_t i = 0; i < count; ++i)
      if (pending_[i] == 0) ready.push(i);
    size_t added = 0;
    while (!ready.empty()) {
      TENON_RETURN_IF_ERROR(CheckAllowance());
      const size_t i = ready.top();
      ready.pop();
      if (Status status = missing_.contains(i) ? Status::Ok() : AddNode(i); !status.ok()) return status;
      ++added;
      for (size_t user : users_[i])
        if (--pending_[user] == 0) ready.push(user);
    }
    if (added != count) return Cycle();
    TENON_RETURN_IF_ERROR(CloseLoops());
    for (auto& [i, why] : missing_) graph_->SetMissing(Def(i).name(), std::move(why));
    return Status::Ok();
  }

 private:
  const tensorflow::NodeDef& Def(size_t i) const { return def_.node(static_cast<int>(i)); }

  bool HasTrait(size_t i, uint64_t trait) const {
    const OpDef* op = graph_->registry().FindOrNull(Def(i).op());
    return op != nullptr && op->has(trait);
  }

  Status CountInputs(size_t i) {
    bool control_seen = false;
    for (const std::string& text : Def(i).input()) {
      TENON_RETURN_IF_ERROR(CheckAllowance());
      InputName input;
      if (!ParseInput(text, &input)) return Bad(i, StrCat("input '", text, "' is malformed"));
      if (control_seen && !input.control)
        return Bad(i, StrCat("the data input '", text, "' stands after a control input"));
      control_seen = control_seen || input.control;
      const auto it = by_name_.find(input.node);
      if (it == by_name_.end()) {
        if (graph_->Find(input.node)) continue;
        if (graph_->IsMissing(input.node)) {
          Status why = graph_->Get(input.node).status();
          if (unknown_ == Unknown::kRefuse)
            return std::move(why).Annotate(StrCat("node '", Def(i).name(), "' cannot be added"));
          missing_.emplace(i, std::move(why));
          continue;
        }
        return Bad(i, StrCat("input '", text, "' names a node that does not exist"));
      }
      if (!input.control && HasTrait(i, TENON_OP_MERGE) && HasTrait(it->second, TENON_OP_NEXT_ITERATION)) continue;
      ++pending_[i];
      users_[it->second].push_back(i);
    }
    return Status::Ok();
  }

  // Attribute _class: "loc:@NAME" wants to be where the node NAME is.
  Status CheckColocations() const {
    constexpr std::string_view kWith = "loc:@";
    for (size_t i = 0; i < pending_.size(); ++i) {
      TENON_RETURN_IF_ERROR(CheckAllowance());
      const auto it = Def(i).attr().find("_class");
      if (it == Def(i).attr().end()) continue;
      for (const std::string_view name : it->second.list().s()) {
        if (!name.starts_with(kWith)) continue;
        const std::string_view with = name.substr(kWith.size());
        if (!by_name_.contains(with) && !graph_->Find(with) && !graph_->IsMissing(with))
          return Bad(i, StrCat("it is to be colocated with the node '", with, "', which does not exist"));
      }
    }
    return Status::Ok();
  }

  // Why a node cannot be made whatever it reads: nobody here knows its op as the file has it.
  Status WhyUnknown(size_t i) {
    const auto op = FindOp(i);
    if (!op.ok()) return Status(op.status()).Annotate(StrCat("node '", Def(i).name(), "'"));
    if ((*op)->deprecated_at != 0 && graph_->producer() >= (*op)->deprecated_at) return Deprecated(i, **op);
    if (const auto version = Def(i).attr().find(std::string(kVersionAttr)); version != Def(i).attr().end())
      if (Status status = CheckVersion(**op, AttrValue::Int(version->second.i())); !status.ok())
        return std::move(status).Annotate(StrCat("node '", Def(i).name(), "' (", (*op)->name, ")"));
    for (const auto& [name, value] : Def(i).attr())
      if (!name.empty() && name[0] != '_' && (*op)->FindAttr(name) == nullptr)
        return Bad(i, StrCat("the op has no attribute '", name, "'; the graph may be of a newer version"));
    return Status::Ok();
  }

  // Such nodes, and all that read them, also around a loop.
  Status FindMissing() {
    for (size_t i = 0; i < pending_.size(); ++i) {
      TENON_RETURN_IF_ERROR(CheckAllowance());
      if (Status why = WhyUnknown(i); !why.ok()) missing_.insert_or_assign(i, std::move(why));
    }
    if (missing_.empty()) return Status::Ok();
    std::vector<std::vector<size_t>> users = users_;
    for (size_t i = 0; i < pending_.size(); ++i) {
      if (!HasTrait(i, TENON_OP_MERGE)) continue;
      for (const std::string& text : Def(i).input()) {
        InputName input;
        (void)ParseInput(text, &input);
        if (const auto it = by_name_.find(input.node); it != by_name_.end()) users[it->second].push_back(i);
      }
    }
    std::vector<size_t> left;
    for (const auto& [i, why] : missing_) left.push_back(i);
    while (!left.empty()) {
      const size_t i = left.back();
      left.pop_back();
      TENON_RETURN_IF_ERROR(CheckAllowance());
      for (size_t user : users[i])
        if (missing_.emplace(user, missing_.at(i)).second) left.push_back(user);
    }
    return Status::Ok();
  }

  Result<const OpDef*> FindOp(size_t i) {
    const std::string& name = Def(i).op();
    if (graph_->library().contains(name)) return graph_->FunctionOp(name);
    return graph_->registry().Find(name);
  }

  Status AddNode(size_t i) {
    const tensorflow::NodeDef& def = Def(i);
    NodeSpec spec;
    spec.name = def.name();
    spec.device = def.device();
    auto op = FindOp(i);
    if (!op.ok()) return Status(op.status()).Annotate(StrCat("node '", def.name(), "'"));
    spec.op = *op;
    if (spec.op->deprecated_at != 0 && graph_->producer() >= spec.op->deprecated_at) return Deprecated(i, *spec.op);
    for (const auto& [name, value] : def.attr()) {
      if (name.empty()) return Bad(i, "an attribute has no name");
      auto attr = AttrFromProto(value, &budget_);
      if (!attr.ok())
        return Status(attr.status().code(),
                      std::string(Bad(i, StrCat("attribute '", name, "': ", attr.status().message())).message()));
      spec.attrs.emplace(name, *std::move(attr));
    }
    for (const std::string& text : def.input()) {
      InputName input;
      (void)ParseInput(text, &input);
      const NodeId source = graph_->Find(input.node);
      if (input.control) spec.controls.push_back(source);
      else if (!source)
        open_.push_back({i, static_cast<int32_t>(spec.inputs.size()), input}), spec.inputs.push_back(Edge());
      else spec.inputs.push_back({source, input.index});
    }
    return graph_->Add(std::move(spec)).status();
  }

  Status CloseLoops() {
    for (const Open& open : open_) {
      TENON_RETURN_IF_ERROR(CheckAllowance());
      const NodeId node = graph_->Find(Def(open.node).name());
      const NodeId source = graph_->Find(open.input.node);
      if (open.input.index != 0)
        return Bad(open.node, StrCat("'", open.input.node, "' has no output ", open.input.index));
      TENON_RETURN_IF_ERROR(graph_->SetInput(node, open.index, {source, 0}));
    }
    return Status::Ok();
  }

  Status Cycle() const {
    std::string names;
    int shown = 0;
    for (size_t i = 0; i < pending_.size() && shown < 5; ++i)
      if (pending_[i] > 0) names += StrCat(shown++ == 0 ? "" : ", ", "'", Def(i).name(), "' (", Def(i).op(), ")");
    return InvalidArgument(StrCat("the graph has a cycle that is no loop; nodes on or after it: ", names));
  }

  Status Deprecated(size_t i, const OpDef& op) const {
    return Bad(i, StrCat("the op is deprecated since version ", op.deprecated_at, ": ", op.deprecation));
  }

  Status Bad(size_t i, std::string_view text) const {
    return InvalidArgument(StrCat("node '", Def(i).name(), "' (", Def(i).op(), "): ", text));
  }

  struct Open {
    size_t node;
    int32_t index;
    InputName input;
  };
  const tensorflow::GraphDef& def_;
  Graph* graph_;
  const Unknown unknown_;
  const Of of_;
  std::unordered_map<std::string_view, size_t> by_name_;
  std::vector<int> pending_;
  std::vector<std::vector<size_t>> users_;
  std::vector<Open> open_;
  std::map<size_t, Status> missing_;
  int64_t budget_ = kConstantBudget;
};

// The bytes of the members of that number of a GraphDef's library: its functions, say.
std::vector<std::string_view> OfLibrary(std::string_view graph_def, int number) {
  std::vector<std::string_view> members;
  for (const std::string_view library : MembersOf(graph_def, tensorflow::GraphDef::kLibraryFieldNumber))
    for (const std::string_view member : MembersOf(library, number)) members.push_back(member);
  return members;
}

// file_bytes: of each of its functions.
Status ImportLibrary(const tensorflow::FunctionDefLibrary& proto, const std::vector<std::string_view>& file_bytes,
                     Graph* graph, int64_t* budget) {
  FunctionLibrary& library = graph->library();
  for (int i = 0; i < proto.function_size(); ++i) {
    TENON_RETURN_IF_ERROR(CheckAllowance());
    TENON_ASSIGN_OR_RETURN(FunctionDef function, FunctionFromProto(proto.function(i), budget));
    if (function.name.empty()) return InvalidArgument("a function has no name");
    if (Status status = CheckFunctionName(graph->registry(), function.name); !status.ok())
      return std::move(status).Annotate("the graph's library");
    function.file_bytes = file_bytes[static_cast<size_t>(i)];
    TENON_RETURN_IF_ERROR(AddFunction(&library, std::make_shared<const FunctionDef>(std::move(function))));
  }
  for (const auto& each : proto.gradient())
    if (Status status = SetGradient(&library, each.function_name(), each.gradient_func()); !status.ok())
      return std::move(status).Annotate(
          StrCat("'", each.gradient_func(), "' as the gradient of function '", each.function_name(), "'"));
  return Status::Ok();
}

// A FunctionDefLibrary.
bool WriteLibrary(const FunctionLibrary& library, std::string* out) {
  tensorflow::FunctionDefLibrary gradients;
  for (const auto& [name, function] : library) {
    std::string bytes;
    if (!WriteFunction(*function, &bytes) || out->size() + bytes.size() > INT32_MAX - 64) return false;
    AddMember(tensorflow::FunctionDefLibrary::kFunctionFieldNumber, bytes, out);
    if (function->gradient.empty()) continue;
    auto* gradient = gradients.add_gradient();
    gradient->set_function_name(name);
    gradient->set_gradient_func(function->gradient);
  }
  std::string bytes;
  if (!WriteInOrder(gradients, &bytes)) return false;
  out->append(bytes);
  for (const std::string& gradient : library.registered_gradients) {
    if (out->size() + gradient.size() > INT32_MAX - 64) return false;
    AddMember(tensorflow::FunctionDefLibrary::kRegisteredGradientsFieldNumber, gradient, out);
  }
  return true;
}

// A parsed message whose memory is charged to the allowance as it grows, and whose parsing ends with it: two bytes of a
// file can make an object of a hundred.
class ChargedGraphDef {
 public:
  ChargedGraphDef() : arena_(Options()) {}

  Status Parse(std::string_view bytes) {
    TENON_RETURN_IF_ERROR(charge_.Add(bytes.size()));  // texts and tensors, which lie outside the arena
    ChargedGraphDef* const outer = std::exchange(current_, this);
    Status read = Guarded([&] { return Read(bytes); });
    current_ = outer;
    return refused_.ok() ? std::move(read)
                         : std::move(refused_).Annotate("reading a GraphDef of ", bytes.size(), " bytes");
  }
  const tensorflow::GraphDef& def() const { return *def_; }

 private:
  static google::protobuf::ArenaOptions Options() {
    google::protobuf::ArenaOptions options;
    options.block_alloc = &Allocate;
    options.block_dealloc = &Free;
    return options;
  }
  Status Read(std::string_view bytes) {
    // What is wrong is said by our status, not by lines on stderr.
    const google::protobuf::LogSilencer silence;
    def_ = google::protobuf::Arena::CreateMessage<tensorflow::GraphDef>(&arena_);
    if (def_->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return Status::Ok();
    return InvalidArgument(
        StrCat("the ", bytes.size(), " bytes are no GraphDef: truncated, damaged, or another format (text?)"));
  }
  // The arena has no argument for who asks. Parsing keeps to its thread.
  static void* Allocate(size_t bytes) {
    if (current_ != nullptr && current_->refused_.ok()) current_->refused_ = CheckAllowance();
    if (current_ != nullptr && current_->refused_.ok()) current_->refused_ = current_->charge_.Add(bytes);
    void* const block = current_ != nullptr && !current_->refused_.ok() ? nullptr : std::malloc(bytes);
    if (block == nullptr) throw std::bad_alloc();
    return block;
  }
  static void Free(void* block, size_t) { std::free(block); }

  static thread_local ChargedGraphDef* current_;
  MemoryCharge charge_;  // goes after the arena
  Status refused_;
  google::protobuf::Arena arena_;
  tensorflow::GraphDef* def_ = nullptr;
};
thread_local ChargedGraphDef* ChargedGraphDef::current_ = nullptr;

// Of what a library's functions are made of here: names, body nodes, attributes; tensors have been charged.
uint64_t BytesOf(const tensorflow::FunctionDefLibrary& library) {
  constexpr uint64_t kFunction = 1024, kNode = 512, kGradient = 128;
  uint64_t bytes = 2 * library.ByteSizeLong();  // what is read, and the functions' bytes in the file
  bytes += kGradient * static_cast<uint64_t>(library.registered_gradients_size());
  for (const auto& function : library.function())
    bytes += kFunction + kNode * static_cast<uint64_t>(function.node_def_size());
  return bytes;
}

}  // namespace

Status ImportGraphDef(std::string_view bytes, Graph* graph, Unknown unknown, Of of) {
  if (bytes.size() > INT32_MAX)
    return ResourceExhausted(StrCat("a GraphDef of ", bytes.size(), " bytes; protobuf's limit is 2 GiB"));
  ChargedGraphDef read;
  TENON_RETURN_IF_ERROR(read.Parse(bytes));
  const tensorflow::GraphDef& def = read.def();
  TENON_RETURN_IF_ERROR(CheckVersions(def.versions()));
  const std::vector<std::string_view> functions =
      OfLibrary(bytes, tensorflow::FunctionDefLibrary::kFunctionFieldNumber);
  if (functions.size() != static_cast<size_t>(def.library().function_size()))
    return Internal(
        StrCat("a GraphDef of ", def.library().function_size(), " functions has the bytes of ", functions.size()));
  const uint64_t library_bytes = BytesOf(def.library());
  TENON_RETURN_IF_ERROR(graph->charge().Add(library_bytes));
  const int32_t size = graph->size();
  const int32_t producer = graph->producer();
  FunctionLibrary library = graph->library();
  int64_t budget = kConstantBudget;
  if (size == 0) graph->set_producer(def.versions().producer());
  Status status = ImportLibrary(def.library(), functions, graph, &budget);
  const std::vector<std::string_view> gradients =
      OfLibrary(bytes, tensorflow::FunctionDefLibrary::kRegisteredGradientsFieldNumber);
  AddRegisteredGradients({gradients.begin(), gradients.end()}, &graph->library());
  if (status.ok()) status = Importer(def, graph, unknown, of).Run();
  if (!status.ok()) {
    graph->Truncate(size);
    graph->library() = std::move(library);
    graph->set_producer(producer);
    graph->charge().Remove(library_bytes);
  }
  return status;
}

Result<std::string> ExportGraphDef(const Graph& graph) {
  TENON_ASSIGN_OR_RETURN(const std::vector<NodeId> order, graph.TopologicalOrder());
  tensorflow::GraphDef def, versions;
  versions.mutable_versions()->set_producer(graph.producer() != 0 ? graph.producer() : kProducer);
  versions.mutable_versions()->set_min_consumer(kMinConsumer);
  for (NodeId id : order) {
    const Node& node = graph.node(id);
    auto* out = def.add_node();
    out->set_name(node.name);
    out->set_op(node.op->name);
    out->set_device(node.device);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Edge& edge = node.inputs[i];
      if (!edge.node)
        return FailedPrecondition(
            StrCat(node.Describe(), ": input ", i, " is open, and a GraphDef cannot say so; give it a value first"));
      out->add_input(edge.index == 0 ? graph.node(edge.node).name : graph.EdgeName(edge));
    }
    for (NodeId control : node.controls) out->add_input("^" + graph.node(control).name);
    for (const auto& [name, value] : node.attrs) AttrToProto(value, &(*out->mutable_attr())[name]);
  }
  // The same graph gives the same bytes; members stand in the order of their numbers.
  std::string bytes, library, end;
  const bool written = def.ByteSizeLong() <= INT32_MAX && WriteInOrder(def, &bytes) &&
                       WriteLibrary(graph.library(), &library) && WriteInOrder(versions, &end);
  if (!written || bytes.size() + library.size() + end.size() > INT32_MAX - 16)
    return ResourceExhausted("the graph is larger than protobuf's 2 GiB; keep weights in a checkpoint");
  if (!library.empty()) AddMember(tensorflow::GraphDef::kLibraryFieldNumber, library, &bytes);
  bytes.append(end);
  return bytes;
}

}  // namespace tenon::graph
