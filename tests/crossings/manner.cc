// SPDX-License-Identifier: Apache-2.0
#include "tests/crossings/manner.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <random>

#include "tenon/model/load.h"
#include "tenon/model/write_saved_model.h"
#include "tenon/bytes/wire.h"
#include "tests/cluster/local_cluster.h"
#include "tests/cluster/processes.h"

namespace tenon::crossings {
namespace {

using host::Code, host::Feed, host::Name, host::Result, host::Runtime, host::Session, host::SessionOptions,
    host::Status, host::Tensor;

std::chrono::milliseconds the_deadline{20000};  // a step takes milliseconds; one that hangs is told with its program

bool HasStep(const Region& region, Do what) {
  for (const Step& step : region.steps) {
    if (step.what == what) return true;
    for (const auto& part : step.parts)
      if (HasStep(*part, what)) return true;
  }
  return false;
}
bool ChangesState(const Program& program) {
  return program.trains || !TouchedBy(program, program.main).written.empty() || HasStep(program.main, Do::k_queue) ||
         HasStep(program.main, Do::k_dice);
}

// A GraphDef where the function of the greatest depth (lower.cc: "function0_d3") calls itself, and those of less are
// gone.
std::string CallingItself(std::string_view graph) {
  constexpr uint32_t kLibrary = 2, kFunction = 1, kSignature = 1, kName = 1;
  const auto field = [](std::string_view message, uint32_t number) {
    sdk::WireReader reader(message);
    while (reader.Next())
      if (reader.field() == number) return std::string(reader.bytes());
    return std::string();
  };
  const std::string most = "_d" + std::to_string(kMostDepth);
  const auto is_less = [](std::string_view name) {
    return name.size() > 3 && name.substr(name.size() - 3, 2) == "_d" && name.back() < '0' + kMostDepth;
  };
  std::string kept;
  std::vector<std::string> less;
  sdk::WireReader fields(graph);
  while (fields.Next()) {
    if (fields.field() != kLibrary) {
      kept += fields.whole();
      continue;
    }
    std::string functions;
    sdk::WireReader library(fields.bytes());
    while (library.Next()) {
      const std::string name = library.field() == kFunction ? field(field(library.bytes(), kSignature), kName) : "";
      if (is_less(name)) less.push_back(name);
      else functions += library.whole();
    }
    sdk::WireWriter made;
    made.Bytes(kLibrary, functions);
    kept += made.bytes();
  }
  for (const std::string& name : less)
    for (size_t at = 0; (at = kept.find(name, at)) != kept.npos;)
      kept.replace(at, name.size(), name.substr(0, name.size() - 3) + most);
  return kept;
}

// One program in one session.
class Trial {
 public:
  Trial(World& world, const Manner& manner, const Program& program)
      : world_(world),
        manner_(manner),
        program_(program),
        runtime_(world.RuntimeOf(manner.where)),
        feeds_{FeedsOf(program, 0), FeedsOf(program, 1)},
        random_(program.seed + 1) {}

  Outcome Run() {
    const Status status = Go();
    outcome_.status = status;
    if (status.ok()) outcome_.stage.clear();
    if (lowered_ != nullptr) outcome_.refused = lowered_->refused;
    return std::move(outcome_);
  }

 private:
  host::RunOptions Deadline() const {
    host::RunOptions run;
    run.timeout = the_deadline;
    return run;
  }

  Status Build() {
    outcome_.stage = "building";
    Form form = manner_.form;
    if (const auto devices = world_.DevicesOf(manner_.where); !devices.empty())
      form.placer = [devices](uint32_t draw) { return devices[draw % devices.size()]; };
    if (manner_.how == How::kPieces) {
      TENON_TRY(Open(nullptr));
      form.after_step = [this](host::Graph& graph) {
        if (steps_++ % 3 == 0 && pieces_.ok()) pieces_ = session_->Extend(graph);
      };
    }
    // Nobody changes a graph that has no devices of its own and does not come in pieces.
    lowered_ = form.placer || form.after_step ? Lower(runtime_, program_, form, feeds_[0])
                                              : world_.GraphOf(runtime_, program_, form, feeds_[0]);
    TENON_TRY(lowered_->graph.status());
    return pieces_;
  }
  Status Open(const host::Graph* graph) {
    SessionOptions options = manner_.options;
    options.master = world_.MasterOf(manner_.where);
    options.seed = 5;
    options.isolate = !options.master.empty();
    auto session = graph == nullptr ? Session::Create(runtime_, options) : Session::Create(runtime_, *graph, options);
    TENON_TRY(session.status());
    session_ = std::make_unique<Session>(std::move(*session));
    return Status();
  }
  // A session with the graph, and variables with their first values.
  Status Begin() {
    outcome_.stage = "opening";
    switch (manner_.how) {
      case How::kPieces: TENON_TRY(session_->Extend(lowered_->graph)); break;
      case How::kBytes: case How::kImported: case How::kSelf: {
        TENON_TRY_ASSIGN(std::string bytes, lowered_->graph.Export());
        if (manner_.how == How::kSelf) bytes = CallingItself(bytes);
        if (manner_.how == How::kBytes) {
          TENON_TRY(Open(nullptr));
          TENON_TRY(session_->Extend(std::string_view(bytes)));
        } else {
          TENON_TRY_ASSIGN(const host::Graph graph, host::Graph::Import(runtime_, bytes));
          TENON_TRY(Open(&graph));
        }
        break;
      }
      default: TENON_TRY(Open(&lowered_->graph));
    }
    outcome_.stage = "initial";
    std::vector<Feed> feeds;
    for (size_t i = program_.main.parameters.size(); i < lowered_->feeds.size(); ++i)
      feeds.push_back({lowered_->feeds[i], feeds_[0][i]});
    return session_->Run(feeds, {}, {lowered_->initial}, Deadline()).status();
  }
  std::vector<Feed> FeedsOfStep(size_t feeding) const {
    std::vector<Feed> feeds;
    for (size_t i = 0; i < program_.main.parameters.size(); ++i)
      if (!lowered_->feeds[i].empty()) feeds.push_back({lowered_->feeds[i], feeds_[feeding][i]});
    return feeds;
  }
  static std::vector<Name> Names(const std::vector<std::string>& texts) { return {texts.begin(), texts.end()}; }

  void Keep(const std::string& step, const std::vector<Tensor>& values, const std::string& note = "") {
    for (size_t i = 0; i < lowered_->labels.size(); ++i)
      outcome_.items.push_back({step + ": " + lowered_->labels[i], note, values[i], {}});
  }
  Status Step(const std::string& step, size_t feeding) {
    outcome_.stage = step;
    TENON_TRY_ASSIGN(const std::vector<Tensor> values, session_->Run(FeedsOfStep(feeding), Names(lowered_->fetches),
                                                                     Names(lowered_->targets), Deadline()));
    Keep(step, values);
    return Status();
  }

  Status Go() {
    TENON_TRY(Build());
    switch (manner_.how) {
      case How::kSaved: return Saved();
      case How::kFed: return FedInner();
      case How::kOther: return FedOthers();
      default: break;
    }
    TENON_TRY(Begin());
    switch (manner_.how) {
      case How::kPartial: return Partial();
      case How::kAlone: return Alone();
      case How::kInner: return Inner();
      case How::kInside: return Inside();
      case How::kFrozen: TENON_TRY(session_->Freeze()); break;
      default: break;
    }
    return Steps();
  }
  Status Steps() {
    TENON_TRY(Step("step 1", 0));
    TENON_TRY(Step("step 2", 0));
    outcome_.stage = "variables";
    if (!lowered_->variables.empty()) {
      TENON_TRY_ASSIGN(const std::vector<Tensor> variables,
                       session_->Run({}, Names(lowered_->variables), {}, Deadline()));
      for (size_t i = 0; i < variables.size(); ++i)
        outcome_.items.push_back({"variable" + std::to_string(i), "", variables[i], {}});
    }
    return manner_.form.constants ? Status() : Step("step 3", 1);
  }

  // Feeds come one by one; after each, whatever can be had is.
  Status Partial() {
    outcome_.stage = "partial run";
    const std::vector<Feed> feeds = FeedsOfStep(0);
    std::vector<Name> names;
    for (const Feed& feed : feeds) names.push_back(feed.name);
    std::vector<std::string> fetches = lowered_->fetches;
    std::sort(fetches.begin(), fetches.end());
    fetches.erase(std::unique(fetches.begin(), fetches.end()), fetches.end());
    TENON_TRY_ASSIGN(const host::PartialRun run,
                     host::PartialRun::Setup(*session_, names, Names(fetches), Names(lowered_->targets)));
    std::map<std::string, Tensor> found;
    for (size_t fed = 0; fed <= feeds.size(); ++fed) {
      if (fed > 0) TENON_TRY(run.Run({feeds[fed - 1]}, {}, Deadline()).status());
      for (const std::string& fetch : fetches) {
        if (found.contains(fetch)) continue;
        auto value = run.Run({}, {fetch}, Deadline());
        if (value.ok()) found[fetch] = (*value)[0];
        else if (value.status().code() != Code::kFailedPrecondition || fed == feeds.size()) return value.status();
      }
    }
    std::vector<Tensor> values;
    for (const std::string& fetch : lowered_->fetches) values.push_back(found.at(fetch));
    Keep("step 1", values);
    return Status();
  }

  // Each fetch by itself, with both feedings, after steps that fetched others.
  Status Alone() {
    for (const size_t feeding : {1, 0}) {
      for (size_t i = lowered_->fetches.size(); i-- > 0;) {
        outcome_.stage = lowered_->labels[i];
        TENON_TRY_ASSIGN(const std::vector<Tensor> values,
                         session_->Run(FeedsOfStep(feeding), {lowered_->fetches[i]}, {}, Deadline()));
        outcome_.items.push_back(
            {(feeding == 0 ? "step 1: " : "step 3: ") + lowered_->labels[i], "alone", values[0], {}});
      }
    }
    return Status();
  }

  std::vector<std::string> Sample(std::vector<std::string> of, size_t count) {
    std::shuffle(of.begin(), of.end(), random_);
    if (of.size() > count) of.resize(count);
    return of;
  }
  Status Inner() {
    outcome_.stage = "step 1, inner edges";
    const std::vector<std::string> inner = Sample(lowered_->inner, 8);
    std::vector<std::string> fetches = lowered_->fetches;
    fetches.insert(fetches.end(), inner.begin(), inner.end());
    TENON_TRY_ASSIGN(const std::vector<Tensor> values,
                     session_->Run(FeedsOfStep(0), Names(fetches), Names(lowered_->targets), Deadline()));
    Keep("step 1", values, "with inner edges");
    for (size_t i = 0; i < inner.size(); ++i)
      outcome_.items.push_back({"edge " + inner[i], "", values[lowered_->fetches.size() + i], {}});
    return Status();
  }
  Status FedInner() {
    std::vector<std::string> free;
    for (const std::string& edge : lowered_->free)
      if (std::find(lowered_->targets.begin(), lowered_->targets.end(), edge.substr(0, edge.find(':'))) ==
          lowered_->targets.end())
        free.push_back(edge);
    free = Sample(free, 4);
    if (free.empty()) return Status();
    TENON_TRY(Begin());
    outcome_.stage = "what inner edges are";
    TENON_TRY_ASSIGN(const std::vector<Tensor> values, session_->Run(FeedsOfStep(0), Names(free), {}, Deadline()));
    // Each alone, then all.
    for (size_t trial = 0; trial <= free.size(); ++trial) {
      std::vector<Feed> feeds = FeedsOfStep(0);
      std::string note = "fed with";
      for (size_t i = 0; i < free.size(); ++i) {
        if (trial < free.size() && trial != i) continue;
        feeds.push_back({free[i], values[i]});
        note += " " + free[i];
      }
      TENON_TRY(Begin());
      outcome_.stage = "step 1, " + note;
      TENON_TRY_ASSIGN(const std::vector<Tensor> found,
                       session_->Run(feeds, Names(lowered_->fetches), Names(lowered_->targets), Deadline()));
      Keep("step 1", found, note);
    }
    return Status();
  }
  // Something else than the value was, within the bounds that a program keeps.
  Tensor Other(const Tensor& value) const {
    const auto number = [&](int64_t i) -> double {
      const auto at = static_cast<size_t>(i);
      switch (value.dtype()) {
        case DType::kFloat: return static_cast<double>(value.data<float>()[at]);
        case DType::kDouble: return value.data<double>()[at];
        case DType::kInt32: return value.data<int32_t>()[at];
        default: return static_cast<double>(value.data<int64_t>()[at]);
      }
    };
    std::vector<double> others;
    for (int64_t i = 0; i < value.element_count(); ++i)
      others.push_back(program_.smooth && IsFloating(value.dtype()) ? 0.25 - number(i) / 2
                       : number(i) >= 30                            ? number(i) - 7
                                                                    : number(i) + 1);
    return TensorOf(value.dtype(), value.shape().dims(), others);
  }
  Status FedOthers() {
    std::vector<std::string> numbers;
    for (const auto& [number, edge] : lowered_->values) numbers.push_back(number);
    numbers = Sample(numbers, 3);
    if (numbers.empty()) return Status();
    const std::map<std::string, std::string> edges(lowered_->values.begin(), lowered_->values.end());
    std::vector<std::string> fed;
    for (const std::string& number : numbers) fed.push_back(edges.at(number));
    TENON_TRY(Begin());
    outcome_.stage = "what values are";
    TENON_TRY_ASSIGN(const std::vector<Tensor> values, session_->Run(FeedsOfStep(0), Names(fed), {}, Deadline()));
    // One, then all.
    for (const size_t count : std::set<size_t>{1, fed.size()}) {
      std::vector<Feed> feeds = FeedsOfStep(0);
      std::string what = "fed with others";
      for (size_t i = 0; i < count; ++i) {
        if (manner_.form.plant != "fed") feeds.push_back({fed[i], Other(values[i])});
        what += " " + numbers[i];
      }
      TENON_TRY(Begin());
      outcome_.stage = what;
      TENON_TRY_ASSIGN(const std::vector<Tensor> found,
                       session_->Run(feeds, Names(lowered_->fetches), Names(lowered_->targets), Deadline()));
      Keep(what, found);
    }
    return Status();
  }
  Status Inside() {
    for (const std::string& edge : Sample(lowered_->inside, 4)) {
      auto value = session_->Run(FeedsOfStep(0), {edge}, {}, Deadline());
      outcome_.items.push_back({"inside " + edge, "", value.ok() ? (*value)[0] : Tensor(), value.status()});
    }
    return Status();
  }

  Status Saved() {
    TENON_TRY(Begin());
    outcome_.stage = "saving";
    const std::filesystem::path folder =
        std::filesystem::temp_directory_path() / ("tenon_crossings_" + std::to_string(getpid()));
    std::filesystem::remove_all(folder);
    model::SignatureSpec signature;
    for (size_t i = 0; i < program_.main.parameters.size(); ++i)
      if (!lowered_->feeds[i].empty()) signature.inputs.emplace_back("x" + std::to_string(i), lowered_->feeds[i]);
    for (size_t i = 0; i < lowered_->fetches.size(); ++i)
      signature.outputs.emplace_back("y" + std::to_string(i), lowered_->fetches[i]);
    TENON_TRY_ASSIGN(const std::string bytes, lowered_->graph.Export());
    const Status written =
        model::WriteSavedModel(runtime_, *session_, bytes, folder.string(), {.signatures = {signature}});
    const Status said = written.ok() ? Reloaded(folder.string()) : written;
    std::filesystem::remove_all(folder);
    return said;
  }
  Status Reloaded(const std::string& folder) {
    outcome_.stage = "loading";
    TENON_TRY_ASSIGN(const model::ModelFile file, model::ModelFile::Open(folder));
    TENON_TRY_ASSIGN(const model::Model model, model::Model::Load(runtime_, file));
    for (const size_t feeding : {0, 1}) {
      outcome_.stage = "signature";
      model::NamedTensors inputs;
      for (size_t i = 0; i < program_.main.parameters.size(); ++i)
        if (!lowered_->feeds[i].empty()) inputs.emplace_back("x" + std::to_string(i), feeds_[feeding][i]);
      TENON_TRY_ASSIGN(const model::NamedTensors outputs, model.Run(model::kDefaultSignature, inputs, Deadline()));
      std::vector<Tensor> values(lowered_->fetches.size());
      for (const auto& [key, value] : outputs) values[static_cast<size_t>(std::stoi(key.substr(1)))] = value;
      Keep(feeding == 0 ? "step 1" : "step 3", values);
    }
    return Status();
  }

  World& world_;
  const Manner& manner_;
  const Program& program_;
  const Runtime& runtime_;
  const std::vector<Tensor> feeds_[2];
  std::mt19937 random_;
  std::shared_ptr<const Lowered> lowered_;
  std::unique_ptr<Session> session_;  // ends before the graph
  Status pieces_;
  int steps_ = 0;
  Outcome outcome_;
};

std::vector<double> Doubles(const Tensor& tensor) {
  const auto data = tensor.data<double>();
  return {data.begin(), data.end()};
}

}  // namespace

const std::vector<Manner>& AllManners() {
  static const std::vector<Manner> all = [] {
    using Control = Form::Control;
    std::vector<Manner> manners{{"plain", {}, {}}};
    const auto add = [&](const std::string& name) -> Manner& {
      Manner& manner = manners.emplace_back(manners[0]);
      manner.name = name;
      return manner;
    };
    add("constants").form.constants = true;
    add("blind").form.blind = true;
    add("dynamic").options.executor = TENON_EXECUTOR_DYNAMIC;
    Manner& order = add("dynamic, another order");
    order.options.executor = TENON_EXECUTOR_DYNAMIC;
    order.options.debug.schedule_seed = 3;
    add("unoptimized").options.optimize = false;
    add("not compiled").options.compile = false;
    add("not captured").options.capture = false;
    add("without passes").options.no_pass = "known-axes,recurrent-loops";
    Manner& bare = add("dynamic, unoptimized, not compiled");
    bare.options.executor = TENON_EXECUTOR_DYNAMIC;
    bare.options.optimize = bare.options.compile = false;
    add("one thread").where = Where::kOneThread;
    add("four threads").where = Where::kFourThreads;
    Manner& four = add("four threads, dynamic");
    four.where = Where::kFourThreads;
    four.options.executor = TENON_EXECUTOR_DYNAMIC;
    add("tpus").where = Where::kTpus;
    Manner& parted = add("tpus, parted");
    parted.where = Where::kTpus;
    parted.options.debug.partition = true;
    Manner& tpus = add("tpus, dynamic, functions");
    tpus.where = Where::kTpus;
    tpus.options.executor = TENON_EXECUTOR_DYNAMIC;
    tpus.form.control = Control::kFunctions;
    for (const Where where : {Where::kOneTask, Where::kTwoTasks, Where::kThreeTasks}) {
      const std::string name = where == Where::kOneTask    ? "one task"
                               : where == Where::kTwoTasks ? "two tasks"
                                                           : "three tasks";
      add(name).where = where;
      Manner& functions = add(name + ", functions");
      functions.where = where;
      functions.form.control = Control::kFunctions;
      Manner& fed = add(name + ", inner edges fed");
      fed.where = where;
      fed.how = How::kFed;
    }
    Manner& partial = add("two tasks, partial runs");
    partial.where = Where::kTwoTasks;
    partial.how = How::kPartial;
    add("partial runs").how = How::kPartial;
    Manner& late = add("partial runs, functions");
    late.how = How::kPartial;
    late.form.control = Control::kFunctions;
    add("pieces").how = How::kPieces;
    add("bytes").how = How::kBytes;
    add("imported").how = How::kImported;
    add("frozen").how = How::kFrozen;
    add("saved").how = How::kSaved;
    add("alone").how = How::kAlone;
    add("by value").form.by_value = true;
    add("references").form.references = true;
    Manner& references = add("references by value");
    references.form.references = references.form.by_value = true;
    Manner& dynamic_references = add("references, dynamic");
    dynamic_references.form.references = true;
    dynamic_references.options.executor = TENON_EXECUTOR_DYNAMIC;
    add("inlined").form.inlined = true;
    add("effects fetched").form.fetched = true;
    Manner& fetched = add("effects fetched, functions");
    fetched.form.fetched = true;
    fetched.form.control = Control::kFunctions;
    Manner& mixed_fetched = add("effects fetched, mixed, dynamic");
    mixed_fetched.form.fetched = true;
    mixed_fetched.form.control = Control::kMixed;
    mixed_fetched.options.executor = TENON_EXECUTOR_DYNAMIC;
    add("shards").form.shards = true;
    Manner& dynamic_shards = add("shards, dynamic, functions");
    dynamic_shards.form.shards = true;
    dynamic_shards.form.control = Control::kFunctions;
    dynamic_shards.options.executor = TENON_EXECUTOR_DYNAMIC;
    Manner& shards_by_value = add("shards by value");
    shards_by_value.form.shards = shards_by_value.form.by_value = true;
    Manner& saved_shards = add("shards, saved");
    saved_shards.form.shards = true;
    saved_shards.how = How::kSaved;
    Manner& fed_shards = add("shards, inner edges fed");
    fed_shards.form.shards = true;
    fed_shards.how = How::kFed;
    Manner& partial_shards = add("shards, partial runs");
    partial_shards.form.shards = true;
    partial_shards.how = How::kPartial;
    for (const Where where : {Where::kTwoTasks, Where::kTpus}) {
      Manner& apart = add(where == Where::kTpus ? "shards, tpus" : "shards, two tasks");
      apart.form.shards = true;
      apart.where = where;
    }
    Manner& functions = add("functions");
    functions.form.control = Control::kFunctions;
    Manner& mixed = add("mixed");
    mixed.form.control = Control::kMixed;
    Manner& constant_functions = add("functions, constants");
    constant_functions.form.control = Control::kFunctions;
    constant_functions.form.constants = true;
    Manner& values = add("functions by value");
    values.form.control = Control::kFunctions;
    values.form.by_value = true;
    Manner& dynamic = add("functions, dynamic");
    dynamic.form.control = Control::kFunctions;
    dynamic.options.executor = TENON_EXECUTOR_DYNAMIC;
    Manner& saved = add("functions, saved");
    saved.form.control = Control::kFunctions;
    saved.how = How::kSaved;
    Manner& bytes = add("functions, imported");
    bytes.form.control = Control::kFunctions;
    bytes.how = How::kImported;
    for (const bool functional : {false, true}) {
      const std::string of = functional ? "functions, " : "";
      Manner& inner = add(of + "inner edges");
      inner.how = How::kInner;
      if (functional) inner.form.control = Control::kFunctions;
      Manner& other = add(of + "inner edges, dynamic");
      other.how = How::kInner;
      other.form = inner.form;
      other.options.executor = TENON_EXECUTOR_DYNAMIC;
      other.against = of + "inner edges";
      Manner& fed = add(of + "inner edges fed");
      fed.how = How::kFed;
      fed.form = other.form;
      Manner& dynamic_fed = add(of + "inner edges fed, dynamic");
      dynamic_fed.how = How::kFed;
      dynamic_fed.form = fed.form;
      dynamic_fed.options.executor = TENON_EXECUTOR_DYNAMIC;
    }
    add("others fed").how = How::kOther;
    const auto others = [&](const std::string& name) -> Manner& {
      Manner& manner = add("others fed, " + name);
      manner.how = How::kOther;
      manner.against = "others fed";
      return manner;
    };
    others("dynamic").options.executor = TENON_EXECUTOR_DYNAMIC;
    others("unoptimized").options.optimize = false;
    others("functions").form.control = Control::kFunctions;
    others("two tasks").where = Where::kTwoTasks;
    Manner& others_mixed = others("mixed, references, dynamic");
    others_mixed.form.control = Control::kMixed;
    others_mixed.form.references = true;
    others_mixed.options.executor = TENON_EXECUTOR_DYNAMIC;
    Manner& inner_tasks = add("inner edges, two tasks");
    inner_tasks.how = How::kInner;
    inner_tasks.where = Where::kTwoTasks;
    inner_tasks.against = "inner edges";
    Manner& itself = add("functions that call themselves");
    itself.how = How::kSelf;
    itself.form.control = Control::kFunctions;
    add("inside loops").how = How::kInside;
    Manner& inside = add("inside loops, dynamic");
    inside.how = How::kInside;
    inside.options.executor = TENON_EXECUTOR_DYNAMIC;
    inside.against = "inside loops";
    Manner& shm = add("two processes, shm");
    shm.where = Where::kShm;
    Manner& grpc = add("two processes, grpc");
    grpc.where = Where::kGrpc;
    return manners;
  }();
  return all;
}

const Manner& ByName(const std::string& name) {
  for (const Manner& manner : AllManners())
    if (manner.name == name) return manner;
  return AllManners()[0];
}

bool Fits(const Manner& manner, const Program& program) {
  const bool changes = ChangesState(program), variables = !program.variables.empty();
  const auto is = [](Variable::Holder holder) {
    return [holder](const Variable& variable) { return variable.holder == holder; };
  };
  if (manner.how == How::kSelf && std::none_of(program.functions.begin(), program.functions.end(),
                                               [](const auto& function) { return function->recurs; }))
    return false;
  const bool tensors = std::all_of(program.variables.begin(), program.variables.end(), is(Variable::Holder::kTensor));
  const auto has_rows = [](const Variable& variable) {
    return variable.holder == Variable::Holder::kTensor && !variable.dims.empty();
  };
  if (manner.form.shards && std::none_of(program.variables.begin(), program.variables.end(), has_rows)) return false;
  switch (manner.how) {
    case How::kFrozen: return !changes && variables && tensors;
    case How::kSaved: if (changes || !tensors) return false; break;  // queues and iterators are not saved
    case How::kAlone: if (changes) return false; break;
    default: break;
  }
  if ((manner.form.references || manner.form.by_value) && !variables) return false;
  return !manner.form.inlined || !program.functions.empty();
}

void SetDeadline(std::chrono::milliseconds deadline) { the_deadline = deadline; }

World::World() = default;
World::~World() {
  processes_.clear();
  clusters_.clear();
}

std::shared_ptr<const Lowered> World::GraphOf(const Runtime& runtime, const Program& program, const Form& form,
                                              const std::vector<Tensor>& values) {
  auto& graph = graphs_[{&runtime, form.name() + form.plant}];
  if (graph == nullptr) graph = Lower(runtime, program, form, values);
  return graph;
}

const Runtime& World::RuntimeOf(Where where) {
  if (where != Where::kOneThread && where != Where::kFourThreads && where != Where::kTpus) where = Where::kHere;
  auto& runtime = runtimes_[where];
  if (runtime != nullptr) return *runtime;
  host::RuntimeOptions options;
  options.log_level = TENON_LOG_ERROR + 1;
  options.threads = where == Where::kOneThread ? 1 : where == Where::kFourThreads ? 4 : 2;
  if (where == Where::kTpus)
    options.plugin_options = {{"tenon.tpu_sim", "devices", "2"},
                              {"tenon.tpu_sim", "precision", "exact"},
                              {"tenon.tpu_sim", "guard", "true"},
                              {"tenon.tpu_sim", "cores", "2"}};
  auto made = Runtime::Create(options);
  if (!made.ok()) {
    std::fprintf(stderr, "crossings: no runtime: %s\n", made.status().message().c_str());
    std::abort();  // NOLINT: nothing can be tested without one
  }
  runtime = std::make_unique<Runtime>(std::move(*made));
  return *runtime;
}

std::string World::MasterOf(Where where) {
  const int tasks = where == Where::kOneTask ? 1 : where == Where::kTwoTasks ? 2 : where == Where::kThreeTasks ? 3 : 0;
  if (tasks > 0) {
    auto& cluster = clusters_[where];
    if (cluster == nullptr)
      cluster = std::make_unique<engine::LocalCluster>("loopback://crossings" + std::to_string(tasks),
                                                       std::vector<std::pair<std::string, int>>{{"worker", tasks}});
    return cluster->address();
  }
  if (where != Where::kShm && where != Where::kGrpc) return "";
  auto& processes = processes_[where];
  if (processes == nullptr)
    processes = std::make_unique<engine::Processes>(where == Where::kShm ? "shm" : "grpc",
                                                    std::vector<std::pair<std::string, int>>{{"worker", 2}});
  return processes->address(0);
}

std::vector<std::string> World::DevicesOf(Where where) const {
  switch (where) {
    case Where::kTpus: return {"/device:CPU:0", "/device:TPU:0", "/device:TPU:1", "", "/device:TPU:*"};
    case Where::kTwoTasks: case Where::kShm: case Where::kGrpc: return {"/job:worker/task:0", "/job:worker/task:1", ""};
    case Where::kThreeTasks: return {"/job:worker/task:0", "/job:worker/task:1", "/job:worker/task:2", ""};
    default: return {};
  }
}

Outcome Run(World& world, const Manner& manner, const Program& program) { return Trial(world, manner, program).Run(); }

std::string CheckDifferences(World& world, const Manner& manner, const Program& program) {
  constexpr double kStep = 1e-5, kBound = 1e-5;
  // What comes out of these depends on what went in, and they have no gradient.
  if (Contains(program, {Do::k_stop, Do::k_queue, Do::k_enqueue, Do::k_exchange, Do::k_begin})) return "";
  if (!program.smooth || program.losses.empty() || program.main.type(program.losses[0]).dtype != DType::kDouble)
    return "";
  const Runtime& runtime = world.RuntimeOf(manner.where);
  const std::vector<Tensor> at = FeedsOf(program, 0);
  const std::shared_ptr<const Lowered> lowered = world.GraphOf(runtime, program, manner.form, at);
  if (!lowered->graph.status().ok() || lowered->first == SIZE_MAX) return "";
  std::mt19937 random(program.seed + 2);
  std::map<size_t, std::vector<double>> direction;
  for (const size_t feed : lowered->by)
    for (size_t i = 0; i < Doubles(at[feed]).size(); ++i)
      direction[feed].push_back((static_cast<double>(random() % 200) - 100) / 100);
  // A fresh session for each: dice are thrown anew.
  const auto run = [&](double step) -> Result<std::vector<std::vector<double>>> {
    std::vector<Tensor> values = at;
    for (const auto& [feed, along] : direction) {
      std::vector<double> moved = Doubles(at[feed]);
      for (size_t i = 0; i < moved.size(); ++i) moved[i] += step * along[i];
      values[feed] = *Tensor::From(moved, at[feed].shape());
    }
    SessionOptions options = manner.options;
    options.seed = 5;
    TENON_TRY_ASSIGN(const Session session, Session::Create(runtime, lowered->graph, options));
    std::vector<Feed> first, feeds;
    for (size_t i = 0; i < values.size(); ++i)
      (i < program.main.parameters.size() ? feeds : first).push_back({lowered->feeds[i], values[i]});
    host::RunOptions deadline;
    deadline.timeout = the_deadline;
    TENON_TRY(session.Run(first, {}, {lowered->initial}, deadline).status());
    const std::vector<Name> fetches(lowered->fetches.begin() + static_cast<ptrdiff_t>(lowered->loss),
                                    lowered->fetches.end());
    TENON_TRY_ASSIGN(const std::vector<Tensor> found, session.Run(feeds, fetches, {}, deadline));
    std::vector<std::vector<double>> all;
    for (const Tensor& tensor : found) all.push_back(Doubles(tensor));
    return all;
  };
  const auto before = run(-kStep), now = run(0), after = run(kStep);
  for (const auto* each : {&before, &now, &after})
    if (!each->ok()) return each->status().code() == Code::kInternal ? "INTERNAL: " + each->status().message() : "";
  const auto along = [&](const std::vector<std::vector<double>>& values, size_t first) {
    double sum = 0;
    for (size_t k = 0; k < lowered->gradients; ++k)
      for (size_t i = 0; i < values[first + k].size(); ++i) sum += values[first + k][i] * direction[lowered->by[k]][i];
    return sum;
  };
  const auto total = [&](const std::vector<std::vector<double>>& values) {
    double sum = 0;
    for (size_t k = 0; k < lowered->gradients; ++k)
      for (size_t i = 0; i < values[1 + k].size(); ++i)
        sum += values[1 + k][i] * PatternOf(8, static_cast<int64_t>(i), true, DType::kDouble);
    return sum;
  };
  const auto differs = [&](const char* what, double found, double right) -> std::string {
    if (std::fabs(found - right) <= kBound * (1 + std::fabs(right))) return "";
    return std::string(what) + " is " + std::to_string(found) + " along a direction, by differences " +
           std::to_string(right);
  };
  std::string why = differs("the first gradient", along(*now, 1), ((*after)[0][0] - (*before)[0][0]) / (2 * kStep));
  if (why.empty() && lowered->second != SIZE_MAX)
    why = differs("the second gradient", along(*now, 1 + lowered->gradients),
                  (total(*after) - total(*before)) / (2 * kStep));
  return why;
}

}  // namespace tenon::crossings
