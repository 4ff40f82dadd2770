// SPDX-License-Identifier: Apache-2.0
// `tenon compare`: one step of a graph in two ways, value by value: where do they part by more than rounding explains?
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "sdk/app/cli/command.h"
#include "sdk/app/cli/compare/deviation.h"
#include "sdk/app/cli/describe.h"
#include "sdk/app/cli/flags.h"
#include "sdk/app/cli/json.h"
#include "sdk/app/cli/line/printable.h"
#include "sdk/app/cli/line/values.h"
#include "sdk/app/cli/line/wrong_flag.h"
#include "sdk/app/cli/model_flags.h"
#include "sdk/app/cli/run/feeds.h"
#include "sdk/app/cli/run/results.h"
#include "sdk/app/cli/table.h"
#include "sdk/app/cli/tensor_names.h"
#include "tenon/data/graph_def.h"
#include "tenon/data/npz.h"
#include "tenon/model/load.h"

namespace tenon::cli {
namespace {

using host::Code;
using host::Name;
using host::Result;
using host::Runtime;
using host::Session;
using host::Status;
using host::Tensor;
using host::View;

struct CompareArguments {
  ModelFlags model;
  std::vector<std::string> feeds, fetches, targets, init;
  std::string against;
  std::string keep = "4GiB";
  double slack = 8;
  bool all = false, json = false, allow_files = false;
  RuntimeFlags runtime;
  SessionFlags session;
};

// A value by its short name, "node" or "node:k"; of one that a loop makes more than once, each time.
using Values = std::map<std::string, std::vector<Tensor>, std::less<>>;

std::string ValueName(std::string_view node, int output) {
  return output == 0 ? std::string(node) : fmt::format("{}:{}", node, output);
}

// With the bytes of its texts.
uint64_t BytesOfValue(const tenon_tensor_view& value) {
  uint64_t bytes = value.byte_size;
  if (value.dtype != TENON_DT_STRING) return bytes;
  const auto* const cells =
      reinterpret_cast<const tenon_string_cell*>(static_cast<const char*>(value.dl.data) + value.dl.byte_offset);
  for (uint64_t i = 0; i < value.byte_size / sizeof(tenon_string_cell); ++i) bytes += cells[i].size;
  return bytes;
}

// What the other run made, against the reference; the worst time of one that was made more than once.
struct Row {
  std::string value, op, device, type;
  int64_t times = 0;
  Deviation deviation;
  double predicted = 0;
  enum class Verdict { kEqual, kExplained, kParts } verdict = Verdict::kEqual;
};

class Comparison {
 public:
  explicit Comparison(const CompareArguments& arguments) : arguments_(arguments) {}

  Status Run() {
    TENON_TRY_ASSIGN(most_kept_, ParseSize(arguments_.keep));
    TENON_TRY_ASSIGN(runtime_, arguments_.runtime.Create());
    TENON_TRY_ASSIGN(data::ReadLimit limit, arguments_.session.Files());
    TENON_TRY_ASSIGN(model_, arguments_.model.Open(limit.left()));
    TENON_TRY_ASSIGN(signature_, arguments_.model.Choose(*model_));
    TENON_TRY_ASSIGN(names_, TensorNames::Of(*model_, signature_));
    TENON_TRY(ChooseFetches());
    TENON_TRY_ASSIGN(feeds_, ReadFeeds(arguments_.feeds, *names_, limit));
    TENON_TRY_ASSIGN(options_, arguments_.session.Options());
    options_.watch = true;
    options_.optimize = false;  // every node is there to be looked at
    if (options_.seed == 0) options_.seed = 1;  // both draw the same numbers
    if (whole_signature_) {
      CheckInputs(arguments_.model.graph, *signature_, feeds_);
      TENON_TRY(AddDefaults(*runtime_, *signature_, &feeds_));
    }
    const std::string graph = "graph '" + arguments_.model.graph + "'";
    TENON_TRY(RunBoth(limit).Annotate(graph));
    Judge();
    if (rows_.empty())
      return Status(
          Code::kNotFound,
          graph + ": nothing could be compared: " +
              (made_.empty() ? "no kernel ran" : "no value has the name of one in '" + arguments_.against + "'"));
    if (arguments_.json) PrintJson(AsJson());
    else Print();
    const auto parts =
        std::find_if(rows_.begin(), rows_.end(), [](const Row& row) { return row.verdict == Row::Verdict::kParts; });
    if (parts == rows_.end()) return Status();
    return Status(Code::kFailedPrecondition, fmt::format("{}: the runs part first at '{}' ({}): {}", graph,
                                                         parts->value, parts->op, Describe(*parts)));
  }

 private:
  Status ChooseFetches() {
    whole_signature_ = arguments_.fetches.empty() && arguments_.targets.empty();
    for (const std::string& target : arguments_.targets) names_->CheckNode("--target", target);
    for (const std::string& node : arguments_.init) names_->CheckNode("--init", node);
    if (whole_signature_ && signature_ == nullptr)
      WrongFlag("--fetch", "nothing to run: give --fetch NAME or --target NODE; `tenon inspect " +
                               arguments_.model.graph + "` lists the graph's outputs");
    TENON_TRY_ASSIGN(fetches_, whole_signature_ ? FetchesOf(*signature_) : ReadFetches(arguments_.fetches, *names_));
    return Status();
  }

  // The reference, and what is held against it.
  Status RunBoth(data::ReadLimit& limit) {
    const std::string& against = arguments_.against;
    if (against.ends_with(".npz")) {
      TENON_TRY_ASSIGN(const data::NpzArchive archive, data::NpzArchive::Open(against, limit));
      TENON_TRY_ASSIGN(data::NamedTensors tensors, archive.ReadAll(limit));
      for (auto& [name, tensor] : tensors) reference_[std::string(ShortTensor(name))].push_back(std::move(tensor));
      return RunOnce(*runtime_, options_, [this](const host::Watched& made) { return Hold(made); });
    }
    TENON_TRY(RunOnce(*runtime_, options_, [this](const host::Watched& made) {
                return Keep(made);
              }).Annotate("the reference"));
    const auto hold = [this](const host::Watched& made) { return Hold(made); };
    if (against.ends_with(".so")) {
      RuntimeFlags flags = arguments_.runtime;
      flags.plugins.push_back(against);
      TENON_TRY_ASSIGN(const Runtime with_plugin, flags.Create());
      return RunOnce(with_plugin, options_, hold).Annotate("with '" + against + "'");
    }
    host::SessionOptions options = options_;
    options.device = against;
    return RunOnce(*runtime_, options, hold).Annotate("on '" + against + "'");
  }

  Status RunOnce(const Runtime& runtime, const host::SessionOptions& options,
                 std::function<Status(const host::Watched&)> watch) {
    TENON_TRY_ASSIGN(Session session, Session::Create(runtime, options));
    host::RunOptions run;
    TENON_TRY_ASSIGN(run.timeout, arguments_.session.Deadline());
    TENON_TRY(model::LoadInto(runtime, *model_, session, {.run = run}));
    std::vector<host::Feed> init_feeds;
    std::vector<Name> feed_names, fetch_names, target_names(arguments_.targets.begin(), arguments_.targets.end());
    std::vector<View> views;
    std::vector<std::string> runs = arguments_.targets;
    runs.insert(runs.end(), arguments_.init.begin(), arguments_.init.end());
    for (const Feed& feed : feeds_) {
      init_feeds.push_back({feed.tensor, View(feed.value)});
      feed_names.emplace_back(feed.tensor);
      views.emplace_back(feed.value);
    }
    for (const Fetch& fetch : fetches_) {
      fetch_names.emplace_back(fetch.tensor);
      runs.push_back(fetch.tensor);
    }
    if (!arguments_.allow_files) TENON_TRY(CheckFiles(runtime, *model_, signature_, feeds_, runs));
    for (const std::string& node : arguments_.init)
      TENON_TRY(session.Run(init_feeds, {}, {node}, run).status().Annotate("--init '" + node + "'"));
    TENON_TRY_ASSIGN(const host::Callable callable,
                     session.Prepare(feed_names, fetch_names, target_names, {}, {}, run));
    run.watch = std::move(watch);
    TENON_TRY(callable.Run(views, run).status());
    TENON_TRY_ASSIGN(const std::string explanation, callable.Explain());
    inputs_.clear();
    for (const Json& node : Json::parse(explanation))
      for (const Json& input : node["inputs"])
        inputs_[node["name"].get<std::string>()].emplace_back(ShortTensor(input.get<std::string>()));
    return Status();
  }

  Status Keep(const host::Watched& made) {
    const std::lock_guard lock(mutex_);
    kept_ += BytesOfValue(made.value);
    if (kept_ > most_kept_)
      return Status(Code::kResourceExhausted, "the reference's values take more than " + arguments_.keep +
                                                  "; give fewer examples, or --keep SIZE if the memory is there");
    TENON_TRY_ASSIGN(Tensor copy, Tensor::Copy(made.value));
    reference_[ValueName(made.node, made.output)].push_back(std::move(copy));
    return Status();
  }

  Status Hold(const host::Watched& made) {
    const std::lock_guard lock(mutex_);
    const std::string name = ValueName(made.node, made.output);
    const auto [at, is_new] = made_.try_emplace(name, rows_.size());
    const auto wanted = reference_.find(name);
    if (is_new && wanted == reference_.end()) {
      at->second = SIZE_MAX;
      return Status();
    }
    if (at->second == SIZE_MAX) return Status();
    if (is_new) rows_.push_back({name, std::string(made.op), std::string(made.device), {}, 0, {}});
    Row& row = rows_[at->second];
    const auto time = static_cast<size_t>(row.times++);
    if (time >= wanted->second.size()) {
      row.deviation.misfit =
          fmt::format("it is made more often than the {} times of the reference", wanted->second.size());
      return Status();
    }
    TENON_TRY_ASSIGN(const Tensor value, Tensor::Copy(made.value));
    row.type = TensorText(value.dtype(), value.shape());
    const Deviation found = Compare(wanted->second[time], value);
    wanted->second[time] = Tensor();  // its memory is free again
    const Deviation& worst = row.deviation;
    if (time == 0 || (worst.misfit.empty() && (!found.misfit.empty() || found.relative > worst.relative ||
                                               (found.worst >= 0 && worst.worst < 0))))
      row.deviation = found;
    return Status();
  }

  // What stands for an input: of what only passes values on, what came in there.
  const Row* SourceOf(std::string_view name) const {
    for (int hops = 0; hops < 64; ++hops) {
      if (const auto found = made_.find(name); found != made_.end() && found->second != SIZE_MAX)
        return &rows_[found->second];
      const auto inputs = inputs_.find(data::NodeOfInput(name));
      if (inputs == inputs_.end() || inputs->second.empty()) return nullptr;
      name = inputs->second[0];
    }
    return nullptr;
  }

  void Judge() {
    constexpr double kPolicies[] = {0, 0x1p-11, 0x1p-8, 0x1p-11, 0x1p-7};  // strict, TF32, bfloat16, float16, int8
    const double policy = kPolicies[std::min<size_t>(4, static_cast<size_t>(options_.precision))];
    for (Row& row : rows_) {
      std::vector<const Deviation*> inputs;
      bool follows = false;  // an input differs
      const auto named = inputs_.find(data::NodeOfInput(row.value));
      for (const std::string& input : named == inputs_.end() ? std::vector<std::string>() : named->second) {
        const Row* const source = SourceOf(input);
        if (source == nullptr || source == &row) continue;
        inputs.push_back(&source->deviation);
        follows = follows || source->deviation.different > 0 || !source->deviation.misfit.empty();
      }
      const Deviation& found = row.deviation;
      if (found.rounds) row.predicted = PredictedDeviation(found, inputs, policy, arguments_.slack);
      const bool explained = found.rounds ? found.relative <= row.predicted && found.misfit.empty() : follows;
      if (found.different == 0 && found.misfit.empty()) row.verdict = Row::Verdict::kEqual;
      else row.verdict = explained ? Row::Verdict::kExplained : Row::Verdict::kParts;
    }
  }

  static std::string Describe(const Row& row) {
    const Deviation& found = row.deviation;
    if (!found.misfit.empty()) return found.misfit;
    if (!found.rounds)
      return fmt::format("{} of {} elements differ, the first is number {}", found.different, found.elements,
                         found.worst);
    return fmt::format("{:.2g} of its largest element ({:.3g}) at element {}, where {:.2g} is explained",
                       found.relative, found.magnitude, found.worst, row.predicted);
  }

  size_t Count(Row::Verdict verdict) const {
    return static_cast<size_t>(
        std::count_if(rows_.begin(), rows_.end(), [&](const Row& row) { return row.verdict == verdict; }));
  }
  size_t Unmatched() const {
    return static_cast<size_t>(
        std::count_if(made_.begin(), made_.end(), [](const auto& made) { return made.second == SIZE_MAX; }));
  }

  void Print() const {
    Table table({"VALUE", "OP", "TYPE", "DEVICE", "DIFFERS BY", "EXPLAINED", ""});
    constexpr const char* kVerdicts[] = {"equal", "", "PARTS"};
    size_t shown = 0;
    for (const Row& row : rows_) {
      if (!arguments_.all && row.verdict != Row::Verdict::kParts) continue;
      ++shown;
      const Deviation& found = row.deviation;
      const size_t device = row.device.rfind("/device:");
      table.Add({row.value, row.op, row.type, device == std::string::npos ? row.device : row.device.substr(device + 8),
                 !found.misfit.empty() ? found.misfit
                 : found.rounds        ? fmt::format("{:.2g}", found.relative)
                                       : fmt::format("{} elements", found.different),
                 found.rounds ? fmt::format("{:.2g}", row.predicted) : "",
                 kVerdicts[static_cast<size_t>(row.verdict)]});
    }
    if (shown > 0) table.Print();
    fmt::print("{}{} values: {} equal, {} differ as rounding explains, {} part\n", shown > 0 ? "\n" : "", rows_.size(),
               Count(Row::Verdict::kEqual), Count(Row::Verdict::kExplained), Count(Row::Verdict::kParts));
    if (Unmatched() > 0) fmt::print("{} values have nothing of their name to be compared with\n", Unmatched());
  }

  Json AsJson() const {
    constexpr const char* kVerdicts[] = {"equal", "explained", "parts"};
    Json values = Json::array();
    for (const Row& row : rows_) {
      const Deviation& found = row.deviation;
      Json value = {{"value", row.value},
                    {"op", row.op},
                    {"device", row.device},
                    {"type", row.type},
                    {"verdict", kVerdicts[static_cast<size_t>(row.verdict)]}};
      if (!found.misfit.empty()) value["misfit"] = found.misfit;
      value["different"] = found.different;
      if (found.worst >= 0) value["worst"] = found.worst;
      if (found.rounds) {
        value["relative"] = std::isfinite(found.relative) ? Json(found.relative) : Json("inf");
        value["explained"] = row.predicted;
      }
      values.push_back(std::move(value));
    }
    return {{"graph", arguments_.model.graph},
            {"against", arguments_.against},
            {"values", std::move(values)},
            {"unmatched", Unmatched()}};
  }

  const CompareArguments& arguments_;
  uint64_t most_kept_ = 0;
  std::optional<Runtime> runtime_;
  std::optional<model::ModelFile> model_;
  const model::Signature* signature_ = nullptr;
  std::optional<TensorNames> names_;
  bool whole_signature_ = false;
  std::vector<Feed> feeds_;
  std::vector<Fetch> fetches_;
  host::SessionOptions options_;
  std::map<std::string, std::vector<std::string>, std::less<>> inputs_;  // of nodes, as they ran last
  std::mutex mutex_;  // guards all below while a step runs
  uint64_t kept_ = 0;
  Values reference_;
  std::vector<Row> rows_;                            // in the order in which the values were made
  std::map<std::string, size_t, std::less<>> made_;  // which row; SIZE_MAX: the reference has no such value
};

}  // namespace

void AddCompareCommand(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<CompareArguments>();
  CLI::App* compare = app.add_subcommand("compare", "Run one step of a graph in two ways, and say where they part");
  arguments->model.AddTo(*compare);
  compare
      ->add_option("--against", arguments->against,
                   "A device for all nodes, a plugin (FILE.so) to load for the second run, or an .npz file with values "
                   "by their names")
      ->type_name("WHAT")
      ->required();
  const auto names = [compare](const char* flag, std::vector<std::string>& into, const char* type, const char* text) {
    compare->add_option(flag, into, text)->type_name(type)->allow_extra_args(false);
  };
  names("--feed", arguments->feeds, "NAME=FILE",
        "Give a tensor its value: NAME=FILE.npy, NAME=FILE.npz or FILE.npz; may be repeated");
  names("--fetch", arguments->fetches, "NAME",
        "A tensor that the step gives (default: the signature's outputs); may be repeated");
  names("--target", arguments->targets, "NODE", "A node that the step runs; may be repeated");
  names("--init", arguments->init, "NODE", "Run a node once first; may be repeated");
  compare->add_option("--slack", arguments->slack, "How many times more than predicted rounding may be")
      ->type_name("TIMES")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  compare->add_option("--keep", arguments->keep, "Most memory for the reference's values")
      ->type_name("SIZE")
      ->capture_default_str()
      ->check(CheckSize);
  compare->add_flag("--all", arguments->all, "Print every value, not only where the runs part");
  compare->add_flag("--json", arguments->json, "Print every value as JSON");
  compare->add_flag("--allow-files", arguments->allow_files,
                    "Of a SavedModel: its graph may read and write files that it names itself");
  arguments->runtime.AddTo(*compare);
  arguments->session.AddTo(*compare);
  compare->footer(
      "Each kernel's result is held against the reference's. What a type's rounding and the differences of a node's "
      "inputs explain is no difference; the first value that "
      "differs by more is named, and the exit code is 1. Functions are looked into where they were inlined; compilers "
      "and optimizations are off, so that every node "
      "runs by itself. Integers, booleans and strings must be equal unless an input differs."
      "\n\nExamples:\n"
      "  tenon compare model --feed x=x.npy --against gpu:0\n"
      "  tenon compare model --feed x=x.npy --against ./tenon_vendor.so --all\n"
      "  tenon compare graph.pb --feed x=x.npy --fetch y --against activations.npz --json");
  compare->callback([arguments, &action] { action = [arguments] { return Comparison(*arguments).Run(); }; });
}

}  // namespace tenon::cli
