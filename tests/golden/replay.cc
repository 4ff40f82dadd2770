// SPDX-License-Identifier: Apache-2.0
#include "tests/device/gpu.h"
#include "tests/golden/replay.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <istream>
#include <map>
#include <optional>
#include <set>

#include "tests/golden/case_graph.h"

namespace tenon::golden {

using host::Code;
using host::DType;
using host::Feed;
using host::Gradient;
using host::Graph;
using host::Name;
using host::Operation;
using host::Output;
using host::Result;
using host::Runtime;
using host::RuntimeOptions;
using host::Session;
using host::SessionOptions;
using host::Shape;
using host::Status;
using host::Tensor;

namespace {

constexpr std::chrono::seconds kPatience{20};

bool Lists(const Json& one, const char* key, size_t number) {
  const auto found = one.find(key);
  return found != one.end() && std::find(found->begin(), found->end(), number) != found->end();
}

std::string CompareAll(const std::string& what, const std::vector<Tensor>& want, const std::vector<Tensor>& got,
                       const Tolerance& tolerance) {
  if (want.size() != got.size())
    return std::to_string(got.size()) + " " + what + "s instead of " + std::to_string(want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    const std::string difference = Compare(want[i], got[i], tolerance);
    if (!difference.empty()) return what + " " + std::to_string(i) + ": " + difference;
  }
  return "";
}

bool OnlyZeros(const Tensor& tensor) {
  auto zeros = Tensor::Zeros(tensor.dtype(), tensor.shape());
  return zeros.ok() && Compare(*zeros, tensor, {.signed_zero = false}).empty();
}

// A case of one op.
class OpCase {
 public:
  OpCase(const Runtime& runtime, const Json& one, const Differences& differences, const Manner& manner, Ran* ran)
      : runtime_(runtime), one_(one), differences_(differences), op_(one["op"].get<std::string>()), ran_(ran) {
    options_.optimize = manner.optimize;
    options_.device = manner.device;
    options_.compile = manner.device.empty();  // a chain is compiled for longer than all cases take
  }

  std::string Run() {
    const std::string difference = Compute();
    if (ran_ != nullptr && session_) Tell();
    return difference;
  }

 private:
  std::string Compute() {
    auto made = MakeCaseGraph(runtime_, one_);
    if (!made.ok()) return "the case is broken: " + made.status().message();
    made_.emplace(*std::move(made));
    const auto outputs = Forward();
    if (one_.contains("error")) return Refused(outputs.ok());
    if (!outputs.ok()) return Excused(outputs.status());
    auto want = TensorsFrom(one_["out"]);
    if (!want.ok()) return "the case is broken: " + want.status().message();
    std::string difference = CompareAll("output", *want, *outputs, differences_.ForValue(op_));
    if (difference.empty() && one_.contains("after")) difference = CompareVariables();
    if (difference.empty() && one_.contains("dx")) difference = CompareGradients();
    return difference;
  }
  void Tell() const {
    *ran_ = session_->Tell(made_->graph);
    ran_->differentiated = one_.contains("dx");
    for (const auto& [name, value] : one_["attrs"].items()) ran_->functions |= value.contains("func");
  }

  std::string Refused(bool computed) const {
    const auto text = one_["error"].get<std::string>();
    if (!computed || differences_.Accepts(op_, text)) return "";
    return "computed, where TensorFlow refuses: " + text;
  }
  std::string Excused(const Status& status) const {
    return differences_.Refuses(op_, status.message()) ? "" : "refused: " + status.message();
  }

  // A session with the variables' values in it, and one run.
  Result<std::vector<Tensor>> Forward() {
    TENON_TRY_ASSIGN(CaseSession session, CaseSession::Create(runtime_, made_->graph, options_, ran_ != nullptr));
    session_.emplace(std::move(session));
    if (!made_->initializers.empty()) TENON_TRY(session_->Run({}, {}, made_->initializers).status());
    const std::vector<Output> outputs = made_->node.outputs();
    return Fetch(std::vector<Name>(outputs.begin(), outputs.end()));
  }

  Result<std::vector<Tensor>> Fetch(const std::vector<Name>& fetches) {
    return session_->Run(made_->feeds, fetches, fetches.empty() ? std::vector<Name>{made_->node} : std::vector<Name>{},
                         {.timeout = kPatience});
  }

  std::string CompareVariables() {
    auto want = TensorsFrom(one_["after"]);
    if (!want.ok()) return "the case is broken: " + want.status().message();
    made_->feeds.clear();
    const auto got = Fetch(std::vector<Name>(made_->readers.begin(), made_->readers.end()));
    if (!got.ok()) return Excused(got.status());
    return CompareAll("variable", *want, *got, differences_.ForValue(op_));
  }

  std::string CompareGradients() {
    std::vector<Output> ys, dys, xs;
    std::vector<size_t> places;
    for (size_t i = 0; i < one_["dy"].size(); ++i) {
      if (one_["dy"][i].is_null()) continue;
      auto dy = TensorFrom(one_["dy"][i]);
      if (!dy.ok()) return "the case is broken: " + dy.status().message();
      ys.push_back(made_->node.output(static_cast<int32_t>(i)));
      const std::string name = "dy" + std::to_string(i);
      dys.push_back(
          made_->graph.Placeholder(name, dy->dtype(), one_.value("blind", false) ? Shape::Unknown() : dy->shape()));
      made_->feeds.push_back({name, *dy});
    }
    for (size_t i = 0; i < made_->values.size(); ++i) {
      if (Lists(one_, "asked", i)) {
        auto x = made_->graph.Find("input" + std::to_string(i));
        if (!x.ok()) return x.status().message();
        xs.emplace_back(*x);
        places.push_back(i);
      }
    }
    const std::vector<Gradient> gradients = made_->graph.Gradients(ys, xs, dys);
    if (!made_->graph.status().ok()) return ExcusedGradient(made_->graph.status());
    if (const Status extended = session_->Extend(made_->graph); !extended.ok()) return ExcusedGradient(extended);
    for (size_t k = 0; k < xs.size(); ++k) {
      const std::string difference = CompareGradient(gradients[k], places[k], one_["dx"][k]);
      if (!difference.empty()) return "gradient of input " + std::to_string(places[k]) + ": " + difference;
    }
    return "";
  }
  std::string ExcusedGradient(const Status& status) const {
    return differences_.Refuses(op_, status.message()) ? "" : "gradients are refused: " + status.message();
  }

  std::string CompareGradient(const Gradient& gradient, size_t input, const Json& want) {
    if (want.is_null()) {
      const bool more = gradient.kind != Gradient::Kind::kNone && !differences_.Accepts(op_, "no gradient");
      return more ? "there is one, where TensorFlow has none" : "";
    }
    auto expected = TensorFrom(want);
    if (!expected.ok()) return "the case is broken: " + expected.status().message();
    // A gradient of zeros needs no nodes: none says the same.
    if (gradient.kind == Gradient::Kind::kNone)
      return OnlyZeros(*expected) ? "" : "there is none, where TensorFlow has one";
    const auto got = Fetch({Dense(gradient, made_->values[input])});
    if (!got.ok()) return ExcusedGradient(got.status());
    return Compare(*expected, (*got)[0], differences_.ForGradient(op_));
  }

  // Slices added up, as TensorFlow makes a tensor of them.
  Name Dense(const Gradient& gradient, const Tensor& x) {
    if (gradient.kind == Gradient::Kind::kDense) return gradient.dense;
    const Output dense =
        made_->graph.Op("UnsortedSegmentSum",
                        {gradient.dense, gradient.indices, made_->graph.Const(static_cast<int32_t>(x.shape()[0]))});
    const Status extended = session_->Extend(made_->graph);
    return extended.ok() ? Name(dense) : Name(extended.message());  // which no node is called, so that the text is seen
  }

  const Runtime& runtime_;
  const Json& one_;
  const Differences& differences_;
  SessionOptions options_;
  const std::string op_;
  Ran* const ran_;
  std::optional<CaseGraph> made_;
  std::optional<CaseSession> session_;
};

// A case that is a graph as TensorFlow wrote it, and what its runs give, one after another in one session.
class GraphCase {
 public:
  GraphCase(const Runtime& runtime, const Json& one, const Differences& differences, const Manner& manner, Ran* ran)
      : runtime_(runtime), one_(one), differences_(differences), op_(one["op"].get<std::string>()), ran_(ran) {
    options_.optimize = manner.optimize;
    options_.device = manner.device;
    options_.compile = manner.device.empty();  // a chain is compiled for longer than all cases take
    resume_ = manner.resume;
    damage_ = manner.damage;
  }
  ~GraphCase() {
    std::error_code ignored;
    if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
  }
  GraphCase(const GraphCase&) = delete;
  GraphCase& operator=(const GraphCase&) = delete;

  std::string Run() {
    const std::string graph_def = FromBase64(one_["graph"].get<std::string>());
    auto graph = Graph::Import(runtime_, graph_def);
    if (!graph.ok()) return Excused(graph.status());
    std::vector<Gradient> gradients;
    if (one_.contains("gradients")) {
      const Json& asked = one_["gradients"];
      gradients = graph->Gradients(Outputs(*graph, asked["ys"]), Outputs(*graph, asked["xs"]));
      if (!graph->status().ok()) return Excused(graph->status());
    }
    if (resume_ && !AddStateNodes(&*graph)) return "";
    auto session = CaseSession::Create(runtime_, *graph, options_, ran_ != nullptr);
    if (!session.ok()) return Excused(session.status());
    const std::string difference = AllRuns(*graph, &*session, gradients);
    if (ran_ != nullptr) {
      *ran_ = session->Tell(*graph);
      ran_->differentiated = one_.contains("gradients");
      ran_->functions = AddFunctionOps(graph_def, &ran_->ops);
    }
    return difference;
  }

 private:
  std::string AllRuns(const Graph& graph, CaseSession* session, const std::vector<Gradient>& gradients) {
    size_t number = 0;
    for (const Json& run : one_["runs"]) {
      std::string difference = resume_ && number >= begin_.size() ? MoveOn(graph, session) : "";
      if (difference.empty()) difference = Step(*session, run, gradients);
      if (!difference.empty()) return "run " + std::to_string(number) + ": " + difference;
      ++number;
    }
    return "";
  }
  // An empty one, of this case alone.
  const std::string& Folder() {
    if (folder_.empty()) {
      folder_ = (std::filesystem::temp_directory_path() / "golden_case_XXXXXX").string();
      if (mkdtemp(folder_.data()) == nullptr) folder_.clear();
    }
    return folder_;
  }
  static std::vector<Output> Outputs(Graph& graph, const Json& names) {
    std::vector<Output> outputs;
    for (const Json& name : names) {
      auto found = graph.Find(name.get<std::string>());
      if (!found.ok()) graph.Fail(found.status());
      if (found.ok()) outputs.emplace_back(*found);
    }
    return outputs;
  }
  // Nodes that give and take the state of the graph's one iterator, which the runs without fetches begin that are the
  // first ones; false where that is not so.
  bool AddStateNodes(Graph* graph) {
    std::vector<Operation> iterators;
    for (int64_t i = 0, count = tenon_graph_node_count(graph->get()); i < count; ++i)
      if (const Operation node(graph->get(), i); node.op() == "IteratorV2") iterators.push_back(node);
      else if (node.op() == "SerializeIterator") return false;  // it does so itself
    for (const Json& run : one_["runs"]) {
      if (!run["fetch"].empty()) break;
      if (run.contains("error")) return false;
      begin_.push_back(run);
    }
    if (iterators.size() != 1 || begin_.empty()) return false;
    const auto words = [graph](const std::string& word) {
      return graph->Op("Const", {}, {{"dtype", DType::kString}, {"value", *Tensor::Strings({word})}});
    };
    const Output prefix = graph->StringConst("memory://state"), names = words("state"), whole = words("");
    const Output state = graph->Op("SerializeIterator", {iterators[0].output(0)});
    const std::vector<DType> variant = {DType::kVariant};
    save_ = graph->AddNode("SaveV2", {prefix, names, whole, state}, {{"dtypes", variant}});
    const Output stored = graph->Op("RestoreV2", {prefix, names, whole}, {{"dtypes", variant}});
    restore_ = graph->AddNode("DeserializeIterator", {iterators[0].output(0), stored});
    if (damage_ > 0) {
      seed_ = graph->Placeholder("seed", DType::kInt64, Shape());
      restore_damaged_ =
          graph->AddNode("DeserializeIterator", {iterators[0].output(0), graph->Op("TestDamage", {state, seed_})});
    }
    return graph->status().ok();
  }
  // To a new session, in which the pipeline begins anew and then goes on where it stood.
  std::string MoveOn(const Graph& graph, CaseSession* session) {
    const auto saved = session->Run({}, {}, {save_}, {.timeout = kPatience});
    const bool beyond = saved.status().code() == Code::kUnimplemented &&
                        saved.status().message().find("whose elements are not in memory") != std::string::npos;
    if (beyond) return "";  // the shards of a saved dataset, one of which is open: the pass goes on where it is
    if (!saved.ok()) return "its state: " + saved.status().message();
    auto next = CaseSession::Create(runtime_, graph, options_, false);
    if (!next.ok()) return "another session: " + next.status().message();
    const std::string difference = Step(*next, begin_.back(), {});  // the files that those before it wrote are there
    if (!difference.empty()) return "begun anew: " + difference;
    for (int i = 0; i < damage_; ++i) TakeDamaged(*next, i);
    const auto restored = next->Run({}, {}, {restore_}, {.timeout = kPatience});
    if (!restored.ok()) return "with its state: " + restored.status().message();
    *session = *std::move(next);
    return "";
  }
  // What it gives, if it is taken for a state, is nobody's business; but it may not end the process, nor take what the
  // session has not.
  void TakeDamaged(CaseSession& session, int number) const {
    constexpr std::chrono::milliseconds kSoon{200};
    const auto seed = static_cast<int64_t>(std::hash<std::string>{}(one_["graph"].get_ref<const std::string&>()) +
                                           static_cast<uint64_t>(number));
    const auto taken = session.Run({{seed_, *Tensor::Scalar(seed)}}, {}, {restore_damaged_}, {.timeout = kSoon});
    if (!taken.ok()) return;
    std::vector<Name> fetches;
    for (const Json& name : one_["runs"].back()["fetch"]) fetches.emplace_back(name.get<std::string>());
    for (int i = 0; i < 3; ++i) (void)session.Run({}, fetches, {}, {.timeout = kSoon});
  }
  // Any of the graph's ops may be the one that refuses.
  std::string Excused(const Status& status) const {
    const Json ops = one_.value("ops", Json::array({op_}));
    const bool said = std::ranges::any_of(
        ops, [&](const Json& op) { return differences_.Refuses(op.get<std::string>(), status.message()); });
    return said ? "" : "refused: " + status.message();
  }

  std::string Step(CaseSession& session, const Json& run, const std::vector<Gradient>& gradients) {
    std::vector<Feed> feeds;
    for (const auto& [name, value] : run["feeds"].items()) {
      auto tensor = value == "folder" ? Tensor::String(Folder()) : TensorFrom(value);
      if (!tensor.ok()) return "the case is broken: " + tensor.status().message();
      feeds.push_back({name, *std::move(tensor)});
    }
    std::vector<Name> fetches, targets;
    for (const Json& name : run["fetch"]) fetches.emplace_back(name.get<std::string>());
    for (const Json& name : run["targets"]) targets.emplace_back(name.get<std::string>());
    const bool differentiates = run.contains("dx");
    for (const Gradient& gradient : gradients) {
      if (!differentiates) continue;
      if (gradient.kind != Gradient::Kind::kDense) return "a gradient is not dense";
      fetches.emplace_back(gradient.dense);
    }
    auto got = session.Run(feeds, fetches, targets, {.timeout = kPatience});
    for (int more = run.value("repeat", 1) - 1; more > 0 && got.ok(); --more)
      got = session.Run(feeds, fetches, targets, {.timeout = kPatience});
    if (run.contains("error")) {
      const auto text = run["error"].get<std::string>();
      return !got.ok() || differences_.Accepts(op_, text) ? "" : "computed, where TensorFlow refuses: " + text;
    }
    if (!got.ok()) return Excused(got.status());
    Json expected = run["out"];
    if (differentiates) expected.insert(expected.end(), run["dx"].begin(), run["dx"].end());
    auto want = TensorsFrom(expected);
    if (!want.ok()) return "the case is broken: " + want.status().message();
    return CompareAll("fetch", *want, *got,
                      differentiates ? differences_.ForGradient(op_) : differences_.ForValue(op_));
  }

  const Runtime& runtime_;
  const Json& one_;
  const Differences& differences_;
  SessionOptions options_;
  const std::string op_;
  Ran* const ran_;
  bool resume_ = false;
  int damage_ = 0;
  Operation save_, restore_, restore_damaged_;
  Output seed_;
  std::vector<Json> begin_;
  std::string folder_;
};

// Of devices/cpu.
const std::set<std::string> kPlainKernels = {"tenon_cpu.so",        "tenon_cpu_layers.so",  "tenon_cpu_images.so",
                                             "tenon_cpu_rows.so",   "tenon_cpu_numbers.so", "tenon_cpu_quantized.so",
                                             "tenon_cpu_updates.so"};

RuntimeOptions OptionsFor(Kernels kernels) {
  RuntimeOptions options;
  if (kernels == Kernels::kGpu) {
    options = device_test::GpuOptions();
    if (device_test::GpuIsEmulated()) kernels = Kernels::kPlain;
  }
  if (kernels == Kernels::kOneDnnAlways) options.plugin_options.push_back({"tenon.cpu_onednn", "always", "true"});
  options.plugins.push_back(TENON_TEST_VARIANT_PLUGIN);
  if (kernels != Kernels::kPlain) return options;
  options.search = false;
  for (const auto& entry : std::filesystem::directory_iterator(TENON_TEST_BUILD_DIR "/lib/tenon/plugins")) {
    const std::string name = entry.path().filename();
    if (name.starts_with("tenon_ops_") || kPlainKernels.contains(name) || name == "tenon_files_memory.so")
      options.plugins.push_back(entry.path());
  }
  return options;
}

}  // namespace

Result<Runtime> MakeRuntime(Kernels kernels) { return Runtime::Create(OptionsFor(kernels)); }

std::string Replay(const Runtime& runtime, const Json& one, const Differences& differences, const Manner& manner,
                   Ran* ran) {
  if (one.contains("graph")) return GraphCase(runtime, one, differences, manner, ran).Run();
  return OpCase(runtime, one, differences, manner, ran).Run();
}

std::string Describe(const Json& one) {
  std::string text = one["op"].get<std::string>();
  if (one.contains("about")) text += " (" + one["about"].get<std::string>() + ")";
  if (one.contains("graph")) return text;
  for (const auto& [name, value] : one["attrs"].items()) text += " " + name + "=" + value.begin()->dump().substr(0, 80);
  const char* separator = " of ";
  for (const Json& input : one["in"]) {
    text += separator + input[0].get<std::string>() + input[1].dump();
    separator = ", ";
  }
  for (const char* flag : {"const", "vars", "blind"})
    if (one.contains(flag)) text += std::string("; ") + flag + " " + one[flag].dump();
  return text;
}

namespace {

char case_at_hand[400];

void SayCase(int signal_number) {
  static_cast<void>(!write(STDERR_FILENO, case_at_hand, std::strlen(case_at_hand)));
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

}  // namespace

void SayCaseOnCrash() {
  for (const int number : {SIGSEGV, SIGABRT, SIGFPE, SIGILL, SIGBUS}) signal(number, SayCase);
}

Tally ReplayAll(const Runtime& runtime, std::istream& text, const Differences& differences, const Manner& manner,
                const Choice& choice) {
  Tally tally;
  for (std::string line; std::getline(text, line);) {
    const size_t number = tally.cases++;
    if (choice.leaves_out && choice.leaves_out(number)) {
      ++tally.left_out;
      continue;
    }
    const Json one = Json::parse(line);
    const std::string description = "line " + std::to_string(tally.cases) + ": " + Describe(one);
    const std::string at_hand = "died in " + description + "\n";
    std::strncpy(case_at_hand, at_hand.c_str(), sizeof(case_at_hand) - 1);
    tally.refused += one.contains("error") ? 1 : 0;
    tally.gradients += one.contains("dx") ? 1 : 0;
    Ran ran;
    std::string difference = Replay(runtime, one, differences, manner, choice.judge ? &ran : nullptr);
    const std::string judged = choice.judge ? choice.judge(number, ran) : "";
    if (difference.empty()) difference = judged;
    if (!difference.empty()) tally.failures.push_back(description + "\n    " + difference);
  }
  return tally;
}

}  // namespace tenon::golden
