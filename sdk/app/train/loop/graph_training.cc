// SPDX-License-Identifier: Apache-2.0
#include "tenon/train/graph_training.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <unordered_set>

#include "tenon/model/coverage.h"
#include "tenon/bytes/wire.h"
#include "tenon/train/queue_runner.h"

namespace tenon::train {
namespace {

using data::NodeView;

constexpr std::string_view kScope = "tenon_training";
constexpr size_t kMostListed = 10;

bool StartsWithAny(std::string_view text, std::initializer_list<std::string_view> beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [&](std::string_view beginning) { return text.starts_with(beginning); });
}
bool IsAny(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

bool IsVariable(const NodeView& node) { return IsAny(node.op, {"VarHandleOp", "VariableV2", "Variable"}); }
bool IsIterator(const NodeView& node) { return IsAny(node.op, {"IteratorV2", "Iterator"}); }
bool IsAssign(const NodeView& node) { return node.op == "Assign" || node.op == "AssignVariableOp"; }
bool ChangesVariables(const NodeView& node) {
  return StartsWithAny(node.op, {"Assign", "Apply", "SparseApply", "ResourceApply", "ResourceSparseApply", "Scatter",
                                 "ResourceScatter", "CountUpTo", "ResourceCountUpTo"}) &&
         !StartsWithAny(node.op, {"ScatterNd"});
}
bool TakesInput(const NodeView& node) {
  return StartsWithAny(node.op, {"IteratorGetNext", "QueueDequeue", "ReaderRead"});
}
bool IsKnown(const Shape& shape) {
  return shape.has_rank() &&
         std::all_of(shape.dims().begin(), shape.dims().end(), [](int64_t size) { return size >= 0; });
}

// Random numbers that come again in each session.
bool IsSeeded(const NodeView& node) {
  constexpr uint32_t kAttrInt = 3;
  for (const auto& [name, value] : node.attrs) {
    if (name != "seed" && name != "seed2") continue;
    sdk::WireReader reader(value);
    while (reader.Next())
      if (reader.field() == kAttrInt && reader.number() != 0) return true;
  }
  return false;
}
// Whether an integer constant is zero, whichever field holds it.
bool IsZero(const NodeView* node) {
  constexpr uint32_t kAttrTensor = 8, kContent = 4, kInts = 7, kLongs = 10;
  if (node == nullptr || node->op != "Const") return false;
  for (const auto& [name, value] : node->attrs) {
    if (name != "value") continue;
    sdk::WireReader reader(sdk::FindBytes(value, kAttrTensor));
    while (reader.Next()) {
      const bool number = reader.field() == kInts || reader.field() == kLongs;
      if (number && (reader.number() != 0 ||
                     std::any_of(reader.bytes().begin(), reader.bytes().end(), [](char byte) { return byte != 0; })))
        return false;
      if (reader.field() == kContent &&
          std::any_of(reader.bytes().begin(), reader.bytes().end(), [](char byte) { return byte != 0; }))
        return false;
    }
    return true;
  }
  return false;
}

void AddNodesOf(const model::QueueRunner& runner, std::vector<std::string>* nodes) {
  nodes->insert(nodes->end(), runner.enqueue_ops.begin(), runner.enqueue_ops.end());
  for (const std::string& node : {runner.close_op, runner.cancel_op})
    if (!node.empty()) nodes->push_back(node);
}

std::string Listed(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < kMostListed; ++i) text += (i == 0 ? "'" : ", '") + names[i] + "'";
  return names.size() > kMostListed ? text + " and " + std::to_string(names.size() - kMostListed) + " more" : text;
}

}  // namespace

Result<std::unique_ptr<GraphTraining>> GraphTraining::Create(const Runtime& runtime, const model::ModelFile& file,
                                                             GraphTrainingOptions options) {
  TENON_TRY_ASSIGN(model::GraphIndex index, model::GraphIndex::Build(file.graph_def()));
  std::unique_ptr<GraphTraining> training(new GraphTraining(runtime, file, std::move(index), std::move(options)));
  TENON_TRY(training->Build());
  return training;
}

Status GraphTraining::Build() {
  if (!options_.data.empty()) {
    std::vector<NamedRows> arrays;
    for (const TrainingFeed& feed : options_.data) arrays.push_back(feed.array);
    TENON_TRY_ASSIGN(batches_,
                     ArrayBatches::Create(std::move(arrays), options_.batch, options_.shuffle, options_.last));
  }
  TENON_TRY(Reach());
  TENON_TRY(CheckThatItTrains());
  TENON_TRY(ChooseScope());
  TENON_TRY(FindInput());
  TENON_TRY(FindInitialisers());
  TENON_TRY(CheckFiles());
  TENON_TRY(Adopt());
  return AddUpdate();
}

std::vector<std::string> GraphTraining::FedTensors() const {
  std::vector<std::string> tensors;
  for (const auto* feeds : {&options_.data, &options_.fixed})
    for (const TrainingFeed& feed : *feeds) tensors.push_back(feed.tensor);
  return tensors;
}

// What a step is asked for.
std::vector<std::string> GraphTraining::StepTargets() const {
  std::vector<std::string> all = options_.targets;
  if (!options_.loss.empty()) all.push_back(options_.loss);
  for (const auto& [name, tensor] : options_.metrics) all.push_back(tensor);
  all.insert(all.end(), options_.summaries.begin(), options_.summaries.end());
  return all;
}

Status GraphTraining::Reach() {
  if (options_.loss.empty()) return Status(Code::kInvalidArgument, "a training needs a loss");
  TENON_TRY_ASSIGN(reached_, index_.Reach(FedTensors(), StepTargets()));
  return Status();
}

Status GraphTraining::CheckThatItTrains() const {
  if (options_.minimize) return Status();
  for (const NodeView* node : model::WithFunctions(index_, reached_))
    if (ChangesVariables(*node)) return Status();
  return Status(Code::kInvalidArgument, "a step changes no variable, so it trains nothing: " +
                                            (options_.targets.empty() ? "it runs no node for its effect"
                                                                      : "it runs " + Listed(options_.targets)));
}

// Random numbers of generators that no checkpoint holds.
bool GraphTraining::DrawsNumbers(const NodeView& node) const {
  const Result<tenon_op_info> op = runtime_.FindOp(node.op);
  return op.ok() && host::Says(*op, "draws");
}

Status GraphTraining::ChooseScope() {
  const auto taken = [this] {
    return std::any_of(index_.graph().nodes.begin(), index_.graph().nodes.end(), [this](const NodeView& node) {
      return node.name == scope_ || node.name.starts_with(scope_ + "/") ||
             node.StringAttr("shared_name").starts_with(scope_ + "/");
    });
  };
  scope_ = kScope;
  for (int i = 1; taken(); ++i) scope_ = std::string(kScope) + "_" + std::to_string(i);
  model_.set_scope(scope_);
  return Status();
}

// ---- The graph's own input ----

Status GraphTraining::FindInput() {
  std::set<const NodeView*> outside(reached_.begin(), reached_.end());
  for (const NodeView* node : model::WithFunctions(index_, reached_)) {
    if (unrepeatable_.empty() && DrawsNumbers(*node))
      unrepeatable_.push_back("the step draws random numbers ('" + std::string(node->name) + "', " +
                              std::string(node->op) + "), which go on from no checkpoint");
    if (!TakesInput(*node)) continue;
    own_input_ = true;
    uses_queues_ = uses_queues_ || !node->op.starts_with("Iterator");
    if (outside.contains(node)) advance_.emplace_back(node->name);
    else
      input_in_functions_ = true;
  }
  std::sort(advance_.begin(), advance_.end());
  if (!uses_queues_) return Status();
  if (options_.passes > 1)
    return Status(Code::kInvalidArgument,
                  "the input comes from queues, which cannot be begun again: how often they go over their files is the "
                  "graph's (num_epochs)");
  for (const model::QueueRunner& runner : file_.meta().queue_runners) {
    if (runner.enqueue_ops.size() > 1)
      unrepeatable_.push_back("the queue '" + runner.queue + "' is filled by " +
                              std::to_string(runner.enqueue_ops.size()) + " threads, whose order is anything");
  }
  for (const NodeView& node : index_.graph().nodes) {
    if (StartsWithAny(node.op, {"RandomShuffleQueue"}))
      unrepeatable_.push_back("the queue '" + std::string(node.name) + "' gives its elements in a random order");
  }
  return Status();
}

// What begins an iterator that no --init begins.
Status GraphTraining::FindIterator(const NodeView& iterator) {
  std::vector<std::string> makers;
  for (const NodeView& node : index_.graph().nodes) {
    if (node.op == "MakeIterator" && node.inputs.size() > 1 && data::NodeOfInput(node.inputs[1]) == iterator.name)
      makers.emplace_back(node.name);
  }
  if (makers.size() == 1) {
    iterator_initialisers_.push_back(makers[0]);
    return Status();
  }
  const std::string which = makers.empty() ? "no node of the graph begins it (MakeIterator)"
                                           : "choose which of its initialisers begins it: " + Listed(makers);
  return Status(Code::kInvalidArgument,
                "the step reads the iterator '" + std::string(iterator.name) + "', and " + which);
}

const NodeView* GraphTraining::InitialiserOf(const NodeView& variable) const {
  for (const auto& [collection, variables] : file_.meta().variables) {
    for (const model::CollectedVariable& each : variables) {
      if (each.variable == variable.name && !each.initializer.empty()) return index_.FindNode(each.initializer);
    }
  }
  const auto assigns = [&](const NodeView& node) {
    return IsAssign(node) && !node.inputs.empty() && data::NodeOfInput(node.inputs[0]) == variable.name;
  };
  const NodeView* named = index_.FindNode(std::string(variable.name) + "/Assign");
  if (named != nullptr && assigns(*named)) return named;
  const NodeView* only = nullptr;
  for (const NodeView& node : index_.graph().nodes) {
    if (!assigns(node) || std::find(reached_.begin(), reached_.end(), &node) != reached_.end()) continue;
    if (only != nullptr) return nullptr;
    only = &node;
  }
  return only;
}

Status GraphTraining::FindInitialisers() {
  TENON_TRY_ASSIGN(const std::vector<const NodeView*> by_hand, index_.Reach({}, options_.init));
  const std::set<const NodeView*> begun(by_hand.begin(), by_hand.end());
  std::set<std::string_view> given;  // what --init gives a value
  for (const NodeView* node : by_hand) {
    const bool gives = IsAssign(*node) || StartsWithAny(node->op, {"InitializeTable", "LookupTableImport"});
    if (gives && !node->inputs.empty()) given.insert(data::NodeOfInput(node->inputs[0]));
    if (node->op != "MakeIterator" || node->inputs.size() < 2) continue;
    given.insert(data::NodeOfInput(node->inputs[1]));
    iterator_initialisers_.emplace_back(node->name);
  }
  for (const NodeView* node : reached_) {
    if (IsIterator(*node) && !given.contains(node->name)) TENON_TRY(FindIterator(*node));
  }
  if (own_input_ && options_.passes > 1 && !uses_queues_ && iterator_initialisers_.empty())
    return Status(Code::kInvalidArgument,
                  "the input cannot be begun again for more passes: its iterator has no initialiser (MakeIterator)");

  // All that is run at some time.
  std::vector<std::string> runs = options_.init;
  for (const std::string& node : iterator_initialisers_) runs.push_back(node);
  for (const model::QueueRunner& runner : file_.meta().queue_runners)
    runs.insert(runs.end(), runner.enqueue_ops.begin(), runner.enqueue_ops.end());
  TENON_TRY_ASSIGN(std::vector<const NodeView*> run, index_.Reach({}, runs));
  for (const NodeView* node : run) {
    const bool unseeded = node->op.starts_with("Shuffle") && node->inputs.size() > 3 &&
                          IsZero(index_.FindNode(data::NodeOfInput(node->inputs[2]))) &&
                          IsZero(index_.FindNode(data::NodeOfInput(node->inputs[3])));
    if (unseeded)
      unseeded_.push_back("the dataset '" + std::string(node->name) + "' (" + std::string(node->op) +
                          ") is shuffled without a seed");
  }
  run.insert(run.end(), reached_.begin(), reached_.end());
  if (!file_.meta().saver.restore_op.empty() && file_.form() == model::Form::kMetaGraph) {
    TENON_TRY_ASSIGN(const std::vector<const NodeView*> saved, index_.Reach({}, {file_.meta().saver.restore_op}));
    run.insert(run.end(), saved.begin(), saved.end());
  }
  const std::set<const NodeView*> all(run.begin(), run.end());
  for (const NodeView& node : index_.graph().nodes) {
    const bool fills = StartsWithAny(node.op, {"InitializeTable"}) && !node.inputs.empty();
    const NodeView* table = fills ? index_.FindNode(data::NodeOfInput(node.inputs[0])) : nullptr;
    if (table != nullptr && all.contains(table) && !given.contains(table->name) &&
        file_.form() != model::Form::kSavedModel)
      table_initialisers_.emplace_back(node.name);
    if (!IsVariable(node) || !all.contains(&node) || given.contains(node.name) ||
        file_.form() == model::Form::kSavedModel)
      continue;
    if (const NodeView* initialiser = InitialiserOf(node)) {
      variable_initialisers_.emplace_back(initialiser->name);
    } else if (file_.checkpoint().empty()) {
      return Status(Code::kInvalidArgument, "the variable '" + std::string(node.name) +
                                                "' gets no first value: the graph has no '" + std::string(node.name) +
                                                "/Assign', and no single other node that gives it one; name the node "
                                                "that initialises the graph (--init)");
    }
  }
  return Status();
}

// A stranger's model touches no file, unless it may.
Status GraphTraining::CheckFiles() const {
  if (options_.files == model::FileAccess::kAny) return Status();
  std::vector<std::string> runs = StepTargets();
  runs.insert(runs.end(), options_.init.begin(), options_.init.end());
  runs.insert(runs.end(), iterator_initialisers_.begin(), iterator_initialisers_.end());
  for (const model::QueueRunner& runner : Runners()) AddNodesOf(runner, &runs);
  return model::CheckRun(runtime_, file_, FedTensors(), options_.chosen_feeds, runs);
}

// ---- What is added to the graph ----

Result<Output> GraphTraining::Find(const std::string& tensor) const {
  const std::string name(data::NodeOfInput(tensor));
  TENON_TRY_ASSIGN(const Operation node, graph_.Find(name));
  int32_t index = 0;
  if (tensor.size() > name.size())
    std::from_chars(tensor.data() + name.size() + 1, tensor.data() + tensor.size(), index);
  if (index < 0 || index >= node.output_count())
    return Status(Code::kNotFound, "there is no tensor '" + tensor + "': '" + name + "' (" + node.op() + ") has " +
                                       std::to_string(node.output_count()) + " outputs");
  return node.output(index);
}

std::vector<model::QueueRunner> GraphTraining::Runners() const {
  return uses_queues_ ? file_.meta().queue_runners : std::vector<model::QueueRunner>();
}

// Besides those of a step, all that is run at some time. The session gets this and no more: gradients may write calls
// out that others of the file's nodes read.
std::vector<std::string> GraphTraining::NeededNodes() const {
  std::vector<std::string> nodes = FedTensors();
  for (const auto* more : {&options_.init, &variable_initialisers_, &table_initialisers_, &iterator_initialisers_})
    nodes.insert(nodes.end(), more->begin(), more->end());
  for (const model::QueueRunner& runner : Runners()) AddNodesOf(runner, &nodes);
  const model::MetaGraph& meta = file_.meta();
  if (!file_.checkpoint().empty()) nodes.insert(nodes.end(), {meta.saver.restore_op, meta.saver.filename_tensor});
  nodes.push_back(meta.main_op);
  for (const model::Asset& asset : meta.assets) nodes.push_back(asset.tensor);
  std::erase_if(nodes, [this](const std::string& node) {
    return index_.FindNode(data::NodeOfInput(node)) == nullptr;
  });  // who runs them says it
  return nodes;
}

bool GraphTraining::IsTrainable(const model::PartVariable& variable,
                                const std::optional<std::unordered_set<std::string_view>>& collected) const {
  if (!options_.only.empty())
    return std::any_of(options_.only.begin(), options_.only.end(),
                       [&](const std::string& beginning) { return variable.name.starts_with(beginning); });
  return collected ? collected->contains(variable.name) : variable.dtype == DType::kFloat;
}

Status GraphTraining::Adopt() {
  TENON_TRY_ASSIGN(model::GraphPart step, model::CutGraph(index_, StepTargets(), model::Devices::kKept));
  variables_ = std::move(step.variables);
  std::vector<std::string> targets = StepTargets();
  const std::vector<std::string> more = NeededNodes();
  targets.insert(targets.end(), more.begin(), more.end());
  TENON_TRY_ASSIGN(const model::GraphPart all, model::CutGraph(index_, targets, model::Devices::kKept));
  TENON_TRY(graph_.ImportMore(all.graph_def));
  TENON_TRY_ASSIGN(const std::vector<const NodeView*> reached, index_.Reach(FedTensors(), {options_.loss}));
  const std::unordered_set<const NodeView*> of_loss(reached.begin(), reached.end());
  std::optional<std::unordered_set<std::string_view>>
      collected;  // what trainable_variables names, where there is such a collection
  if (const auto collection = file_.meta().variables.find("trainable_variables");
      collection != file_.meta().variables.end()) {
    collected.emplace();
    for (const model::CollectedVariable& each : collection->second) collected->insert(each.variable);
  }
  for (const model::PartVariable& variable : variables_) {
    const bool trainable = of_loss.contains(index_.FindNode(variable.name)) && IsTrainable(variable, collected);
    if (options_.minimize && trainable && variable.dtype != DType::kFloat)
      return Status(Code::kUnimplemented, "the variable '" + variable.name + "' is " + host::DTypeName(variable.dtype) +
                                              "; the optimizers here change float variables");
    TENON_TRY_ASSIGN(const Operation node, graph_.Find(variable.name));
    const auto scope = graph_.Scope(scope_);
    model_.Adopt(node, variable.dtype, variable.shape, trainable, variable.device);
  }
  return graph_.status();
}

Status GraphTraining::CheckTrainable() const {
  const std::string name = options_.loss_name.empty() ? options_.loss : options_.loss_name;
  std::vector<std::string> names;
  for (const model::PartVariable& variable : variables_) names.push_back(variable.name);
  for (const std::string& beginning : options_.only) {
    if (std::any_of(names.begin(), names.end(),
                    [&](const std::string& variable) { return variable.starts_with(beginning); }))
      continue;
    return Status(Code::kNotFound, "no variable that the loss '" + name + "' depends on begins with '" + beginning +
                                       "'; there are: " + Listed(names));
  }
  if (model_.trainable().empty())
    return Status(Code::kInvalidArgument,
                  "the loss '" + name + "' depends on no trainable variable, so there is nothing to minimise it by");
  for (const Variable* variable : model_.trainable()) {
    if (!IsKnown(variable->shape))
      return Status(Code::kUnimplemented,
                    "the variable '" + variable->name + "' has no known shape, which an optimizer needs");
  }
  return Status();
}

Status GraphTraining::AddUpdate() {
  TENON_TRY_ASSIGN(const Output loss, Find(options_.loss));
  const std::string name = options_.loss_name.empty() ? options_.loss : options_.loss_name;
  const bool floats = IsAny(host::DTypeName(loss.dtype()), {"float", "double", "half", "bfloat16"});
  if (!floats)
    return Status(Code::kInvalidArgument,
                  "the loss '" + name + "' is " + host::DTypeName(loss.dtype()) + "; a loss is a floating number");
  const Shape shape = loss.shape();
  if (std::any_of(shape.dims().begin(), shape.dims().end(), [](int64_t size) { return size >= 0 && size != 1; }))
    return Status(Code::kInvalidArgument,
                  "the loss '" + name + "' has the shape " + shape.ToString() + "; it must be one number");
  std::vector<Operation> all;
  for (const std::string& target : options_.targets) {
    TENON_TRY_ASSIGN(const Operation node, graph_.Find(data::NodeOfInput(target)));
    all.push_back(node);
  }
  const auto scope = graph_.Scope(scope_);
  if (options_.minimize) {
    TENON_TRY(CheckTrainable());
    all.push_back(Minimize(model_, loss, graph_.Const(options_.learning_rate, "learning_rate"), options_.optimizer));
    TENON_TRY(Status(graph_.status()).Annotate("minimising '" + name + "'"));
  }
  update_ = Group(graph_, all, "step");
  TENON_TRY(AddInputState());
  return graph_.status();
}

// What the datasets' functions hold that is in no iterator's state, and that running them forward brings to where it
// was: "" where there is none.
Result<std::string> GraphTraining::StateOfFunctions() const {
  TENON_TRY_ASSIGN(std::vector<const NodeView*> nodes, index_.Reach({}, iterator_initialisers_));
  for (const NodeView* node : reached_)
    if (node->op == "OneShotIterator") nodes.push_back(node);
  for (const NodeView* node : model::WithFunctions(index_, nodes)) {
    const bool seeded = IsSeeded(*node) && DrawsNumbers(*node);
    const bool by_variable =
        ChangesVariables(*node) || StartsWithAny(node->op, {"Stateful", "RngSkip", "RngReadAndSkip"});
    const bool takes = StartsWithAny(node->op, {"QueueDequeue", "ReaderRead"});
    if (seeded || by_variable || takes) return "'" + std::string(node->name) + "' (" + std::string(node->op) + ")";
  }
  return std::string();
}

// Nodes that give the states of the iterators that a step reads, and take them.
Status GraphTraining::AddInputState() {
  if (!own_input_ || uses_queues_ || input_in_functions_) return Status();
  TENON_TRY_ASSIGN(function_state_, StateOfFunctions());
  if (!function_state_.empty()) return Status();
  std::vector<Output> handles;
  std::set<std::string_view> read_from;
  for (const std::string& taker : advance_) {
    const NodeView* node = index_.FindNode(taker);
    const NodeView* iterator =
        node == nullptr || node->inputs.empty() ? nullptr : index_.FindNode(data::NodeOfInput(node->inputs[0]));
    if (iterator == nullptr || !(IsIterator(*iterator) || iterator->op == "OneShotIterator"))
      return Status();  // its handle comes from elsewhere
    if (!read_from.insert(iterator->name).second) continue;
    one_shot_ = one_shot_ || iterator->op == "OneShotIterator";
    const Result<Output> handle = Find(std::string(iterator->name));
    TENON_TRY(handle.status());
    handles.push_back(*handle);
  }
  if (handles.empty()) return Status();
  const auto within = graph_.Scope("input");
  state_prefix_ = graph_.Placeholder("checkpoint", DType::kString, Shape());
  passes_value_ = graph_.Placeholder("passes", DType::kInt64, Shape());
  input_values_.push_back({scope_ + "/input/passes", passes_value_});
  for (const Output& handle : handles)
    input_values_.push_back(
        {scope_ + "/input/" + handle.name(), graph_.Op("SerializeIterator", {handle}, {}, "state")});
  std::vector<std::string> names;
  std::vector<DType> dtypes;
  for (const SavedValue& one : input_values_) {
    names.push_back(one.name);
    dtypes.push_back(one.value.dtype());
  }
  const Operation read = graph_.AddNode("RestoreV2",
                                        {state_prefix_, graph_.StringConst(names, "names"),
                                         graph_.StringConst(std::vector<std::string>(names.size()), "slices")},
                                        {{"dtypes", dtypes}});
  restored_passes_ = read.output(0);
  std::vector<Operation> given;
  for (size_t i = 0; i < handles.size(); ++i)
    given.push_back(graph_.AddNode("DeserializeIterator", {handles[i], read.output(static_cast<int32_t>(i) + 1)}));
  restore_input_ = Group(graph_, given, "restore").name();
  return Status();
}

InputState GraphTraining::StateOfInput() {
  InputState state;
  state.values = input_values_;
  if (input_values_.empty()) return state;
  state.feeds = [this] {
    std::vector<host::Feed> feeds;
    if (Result<Tensor> passes = Tensor::Scalar(passes_done_); passes.ok())
      feeds.push_back({passes_value_, std::move(*passes)});
    return feeds;
  };
  state.left_out = [this](const std::string& why) {
    if (!std::exchange(said_left_out_, true))
      Say("the checkpoint has no state of the input, over which a resume runs forward: " + why);
  };
  state.restore = [this](const Session& session, const std::string& checkpoint) {
    return RestoreInput(session, checkpoint);
  };
  return state;
}

int64_t GraphTraining::parameter_count() const {
  int64_t count = 0;
  for (const model::PartVariable& variable : variables_) {
    if (IsKnown(variable.shape)) count += variable.shape.element_count();
  }
  return count;
}

TrainingStep GraphTraining::Step() {
  TrainingStep step;
  const auto take = [this](const std::string& tensor) {
    const Result<Output> found = Find(tensor);
    if (!found.ok()) graph_.Fail(found.status());
    return found.ok() ? *found : Output();
  };
  step.loss = take(options_.loss);
  step.loss_name = options_.loss_name;
  for (const auto& [name, tensor] : options_.metrics) step.metrics.emplace_back(name, take(tensor));
  for (const std::string& summary : options_.summaries) step.summaries.push_back(take(summary));
  step.update = update_;
  for (const std::string& fed : FedTensors()) step.feeds.push_back(take(fed));
  if (!step.feeds.empty()) step.feed = [this](int64_t number) { return Feed(number); };
  step.begin = [this](const Session& session, int64_t number) { return BeginInput(session, number); };
  step.input_state = StateOfInput();
  if (own_input_) step.ended = [this](const Session& session) { return BeginAgain(session); };
  step.examples = batches_ ? std::min(options_.batch, batches_->examples()) : 0;
  return step;
}

std::unique_ptr<Trainer> GraphTraining::MakeTrainer(TrainingOptions options) {
  TrainingStep step = Step();
  const auto scope = graph_.Scope(scope_);
  return std::make_unique<Trainer>(model_, std::move(step), std::move(options));
}

// ---- In a session ----

Result<std::vector<View>> GraphTraining::Feed(int64_t step) {
  std::vector<View> views;
  if (batches_) {
    TENON_TRY_ASSIGN(views, batches_->At(step));
  }
  for (const TrainingFeed& feed : options_.fixed) views.emplace_back(feed.array.rows);
  return views;
}

Status GraphTraining::RunOnce(const Session& session, const std::vector<std::string>& nodes, const char* what) const {
  if (nodes.empty()) return Status();
  return session.RunTargets(std::vector<Name>(nodes.begin(), nodes.end())).Annotate(what);
}

Status GraphTraining::Load(Session& session, model::Values values) {
  TENON_TRY(session.Extend(graph_));
  TENON_TRY(RunOnce(session, variable_initialisers_, "the variables' first values"));
  TENON_TRY(model::Restore(runtime_, file_, session, {}, values));
  TENON_TRY(RunOnce(session, table_initialisers_, "filling the tables"));
  std::vector<host::Feed> feeds;
  for (const TrainingFeed& feed : options_.fixed) feeds.push_back({feed.tensor, View(feed.array.rows)});
  for (const std::string& node : options_.init)
    TENON_TRY(session.Run(feeds, {}, {Name(node)}).status().Annotate("'" + node + "'"));
  std::vector<std::string> own;  // that --init has not begun
  TENON_TRY_ASSIGN(const std::vector<const NodeView*> by_hand, index_.Reach({}, options_.init));
  for (const std::string& node : iterator_initialisers_) {
    if (std::find(by_hand.begin(), by_hand.end(), index_.FindNode(node)) == by_hand.end()) own.push_back(node);
  }
  return RunOnce(session, own, "the iterators' beginning");
}

// Leaves the iterators at their beginning where the checkpoint has no state that fits them.
Status GraphTraining::RestoreInput(const Session& session, const std::string& checkpoint) {
  TENON_TRY_ASSIGN(const Tensor prefix, Tensor::String(checkpoint));
  const Result<std::vector<Tensor>> passes =
      session.Run({{state_prefix_, prefix}}, {restored_passes_}, {Name(restore_input_)});
  if (passes.ok()) {
    passes_done_ = (*passes)[0].scalar<int64_t>(0);
    input_restored_ = true;
    return Status();
  }
  const Code code = passes.status().code();
  if (code == Code::kCancelled || code == Code::kDeadlineExceeded || code == Code::kUnavailable ||
      code == Code::kAborted || code == Code::kResourceExhausted)
    return passes.status();
  const bool missing = code == Code::kNotFound;
  if (!missing && one_shot_)
    return Status(code,
                  "the checkpoint's state does not fit the iterator, which cannot be begun again to run it forward: " +
                      passes.status().message() + ". Train without resuming, or into another folder");
  Say(missing ? std::string("the checkpoint has no state of the input")
              : "warning: the state of the input in the checkpoint does not fit, so that the input is run forward: " +
                    passes.status().message());
  // One iterator of several may stand elsewhere already.
  return missing ? Status() : RunOnce(session, iterator_initialisers_, "the iterators' beginning");
}

Status GraphTraining::BeginInput(const Session& session, int64_t step) {
  const bool restored = std::exchange(input_restored_, false);
  if (step > 0) {
    if (!restored) {
      for (const std::string& why : unseeded_)
        Say("warning: " + why + ", so this run goes on otherwise than an unbroken one would have");
    }
    for (const std::string& why : unrepeatable_)
      Say("warning: " + why + ", so this run goes on otherwise than an unbroken one would have");
  }
  if (!own_input_) return Status();
  if (restored) {
    Say("the graph's own input goes on where the checkpoint was taken");
    return Status();
  }
  passes_done_ = 0;
  if (uses_queues_ && Runners().empty())
    Say("warning: the step takes from a queue, and the file names no queue runner that would fill it (a MetaGraph "
        "may): a step may wait for ever");
  if (!Runners().empty()) {
    TENON_TRY(StopInput());
    runners_.emplace();
    TENON_TRY(StartQueueRunners(session, Runners(), &*runners_));
  }
  return step > 0 ? RunForward(session, step) : Status();
}

// What the steps before this one took.
Status GraphTraining::RunForward(const Session& session, int64_t step) {
  if (input_in_functions_) {
    Say("warning: the graph takes its input within functions, where it cannot be run forward: it begins anew, so this "
        "run goes on otherwise than an unbroken one would have");
    return Status();
  }
  TENON_TRY_ASSIGN(const std::vector<const NodeView*> reached, index_.Reach({}, advance_));
  bool fed = false;
  std::vector<Name> names;
  for (const std::string& tensor : FedTensors()) {
    names.emplace_back(tensor);
    fed = fed || std::find(reached.begin(), reached.end(), index_.FindNode(data::NodeOfInput(tensor))) != reached.end();
  }
  if (!fed) names.clear();
  TENON_TRY_ASSIGN(const host::Callable next,
                   session.Prepare(names, {}, std::vector<Name>(advance_.begin(), advance_.end())));
  int64_t taken = 0, began_again = -1;
  while (taken < step) {
    if (options_.stop != nullptr && options_.stop->load())
      return Status(Code::kCancelled,
                    "stopped while the input was run forward; the same command goes on from the last checkpoint");
    std::vector<View> feeds;
    if (fed) {
      TENON_TRY_ASSIGN(feeds, Feed(taken));
    }
    const Status took = next.Run(feeds).status();
    if (took.code() == Code::kOutOfRange) {
      TENON_TRY_ASSIGN(const bool again, BeginAgain(session));
      if (!again || began_again == taken) break;  // the step says what there is to say
      began_again = taken;
      continue;
    }
    TENON_TRY(took);
    ++taken;
  }
  Say("the graph's own input was run forward over what " + std::to_string(taken) + " steps took" +
      (function_state_.empty() ? std::string()
                               : "; its own state would not do: a function of it has another, in " + function_state_));
  return Status();
}

// Where a step found no more input since a runner failed, that is the reason.
Result<bool> GraphTraining::BeginAgain(const Session& session) {
  if (runners_ && runners_->should_stop()) TENON_TRY(StopInput());
  if (++passes_done_ >= options_.passes) return false;
  TENON_TRY(RunOnce(session, iterator_initialisers_, "the next pass"));
  return true;
}

Status GraphTraining::StopInput() {
  if (!runners_) return Status();
  const Status ended = runners_->Stop();
  runners_.reset();
  return ended;
}

}  // namespace tenon::train
