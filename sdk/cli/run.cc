// SPDX-License-Identifier: Apache-2.0
#include "sdk/cli/run.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "sdk/cli/command.h"
#include "sdk/cli/json.h"
#include "sdk/cli/print_tensor.h"
#include "tenon/data/file.h"
#include "tenon/data/graph_def.h"
#include "tenon/data/npy.h"
#include "tenon/data/npz.h"
#include "tenon/model/load.h"

namespace tenon::cli {
namespace {

using host::Callable;
using host::Code;
using host::Name;
using host::Result;
using host::RunOptions;
using host::Runtime;
using host::Session;
using host::Status;
using host::Tensor;
using host::View;

struct NamedTensor {
  std::string name;  // as the user wrote it
  Tensor value;
  std::string file;
  std::string tensor;  // as the graph knows it
};

struct Fetch {
  std::string name;
  std::string file;  // empty: printed
  std::string tensor;
};

// "x" for "x:0", so that the two names of one tensor are found as one.
std::string_view Short(std::string_view name) { return name.ends_with(":0") ? name.substr(0, name.size() - 2) : name; }

// The array for NAME in an .npz file: the one of this name, or the only one. The others are not unpacked.
Result<Tensor> Pick(const std::string& file, const std::string& name, data::ReadLimit& limit) {
  TENON_TRY_ASSIGN(const data::NpzArchive archive, data::NpzArchive::Open(file, limit));
  for (size_t i = 0; i < archive.size(); ++i) {
    if (Short(archive.name(i)) == Short(name)) return archive.Read(i, limit);
  }
  if (archive.size() == 1) return archive.Read(0, limit);
  std::string keys;
  for (size_t i = 0; i < archive.size(); ++i) keys += (keys.empty() ? "" : ", ") + std::string(archive.name(i));
  return Status(Code::kNotFound, "'" + file + "' has no array '" + name + "'; it has: " + keys);
}

Status ReadFeed(const std::string& text, std::vector<NamedTensor>& feeds, data::ReadLimit& limit) {
  auto [name, file] = SplitAssignment(text);
  if (file.empty() && !name.ends_with(".npz")) {
    return Status(Code::kInvalidArgument,
                  "--feed '" + text + "' is not of the form NAME=FILE.npy, NAME=FILE.npz or FILE.npz");
  }
  if (file.empty()) {
    TENON_TRY_ASSIGN(const data::NpzArchive archive, data::NpzArchive::Open(name, limit));
    TENON_TRY_ASSIGN(data::NamedTensors tensors, archive.ReadAll(limit));
    for (auto& [key, tensor] : tensors) feeds.push_back({key, tensor, name, ""});
    return Status();
  }
  if (file.ends_with(".npz")) {
    TENON_TRY_ASSIGN(Tensor tensor, Pick(file, name, limit));
    feeds.push_back({name, tensor, file, ""});
    return Status();
  }
  TENON_TRY_ASSIGN(Tensor tensor, data::ReadNpy(file, limit));
  feeds.push_back({name, tensor, file, ""});
  return Status();
}

// A known size that is not the file's, or another type; what a signature does not know may be anything.
bool MayBe(const model::TensorInfo& info, const Tensor& value) {
  const host::Shape shape = value.shape();
  if (info.dtype != host::DType::kInvalid && info.dtype != value.dtype()) return false;
  if (!info.shape.has_rank()) return true;
  if (info.shape.rank() != shape.rank()) return false;
  for (size_t i = 0; i < shape.dims().size(); ++i) {
    if (info.shape[i] >= 0 && info.shape[i] != shape[i]) return false;
  }
  return true;
}

class Runner {
 public:
  explicit Runner(const RunArguments& arguments) : arguments_(arguments) {}

  Status Run() {
    TENON_TRY_ASSIGN(runtime_, arguments_.runtime.Create());  // whose plugins may bring the file systems of the paths
    TENON_TRY_ASSIGN(data::ReadLimit limit, arguments_.session.Files());
    TENON_TRY_ASSIGN(model_, arguments_.model.Open(limit.left()));
    TENON_TRY_ASSIGN(signature_, arguments_.model.Choose(*model_));
    graph_bytes_ = model_->graph_def();
    TENON_TRY(ReadFetches());
    TENON_TRY(ReadFeeds(limit));
    Status status = RunSteps();
    if (!status.ok()) return Explained(status);
    return WriteResults();
  }

 private:
  // Where nothing is asked for, all that the signature gives.
  Status ReadFetches() {
    for (const std::string& text : arguments_.fetches) {
      auto [name, file] = SplitAssignment(text);
      if (name.empty()) return Status(Code::kInvalidArgument, "--fetch '" + text + "' names no tensor");
      fetches_.push_back({name, file, ""});
    }
    const bool nothing = fetches_.empty() && arguments_.targets.empty() && arguments_.init.empty();
    if (nothing && signature_ == nullptr) {
      return Status(Code::kInvalidArgument, "nothing to run: give --fetch NAME or --target NODE; `tenon inspect " +
                                                arguments_.model.graph + "` lists the graph's outputs");
    }
    whole_signature_ = nothing;
    for (size_t i = 0; nothing && i < signature_->outputs.size(); ++i) fetches_.push_back({signature_->outputs[i].key, "", ""});
    for (Fetch& fetch : fetches_) {
      TENON_TRY_ASSIGN(fetch.tensor, FetchName(signature_, fetch.name));
    }
    return Status();
  }

  Status ReadFeeds(data::ReadLimit& limit) {
    for (const std::string& text : arguments_.feeds) {
      Status read = ReadFeed(text, feeds_, limit);
      if (!read.ok()) return read.Annotate("feed '" + SplitAssignment(text).first + "'" + OpOf(graph_bytes_, SplitAssignment(text).first));
    }
    for (NamedTensor& feed : feeds_) {
      TENON_TRY_ASSIGN(feed.tensor, FeedName(signature_, feed.name));
      TENON_TRY(CheckFeed(feed));
    }
    return whole_signature_ ? CheckInputs() : Status();
  }
  // Against what the signature says of it.
  Status CheckFeed(const NamedTensor& feed) const {
    const model::TensorInfo* info = signature_ == nullptr ? nullptr : signature_->FindInput(feed.name);
    if (info == nullptr || info->kind != model::TensorInfo::Kind::kDense || MayBe(*info, feed.value)) return Status();
    return Status(Code::kInvalidArgument, "graph '" + arguments_.model.graph + "': input '" + feed.name + "' of signature '" +
                                              signature_->name + "' is " + host::DTypeName(info->dtype) + info->shape.ToString() + ", '" + feed.file + "' is " +
                                              host::DTypeName(feed.value.dtype()) + feed.value.shape().ToString());
  }
  // A signature that is run as a whole wants all its inputs; some have defaults.
  Status CheckInputs() const {
    for (const model::TensorInfo& input : signature_->inputs) {
      if (IsFed(input) || input.kind != model::TensorInfo::Kind::kDense || !input.default_value.empty()) continue;
      return Status(Code::kInvalidArgument, "graph '" + arguments_.model.graph + "': signature '" + signature_->name + "' wants '" + input.key + "', " +
                                                host::DTypeName(input.dtype) + input.shape.ToString() + "; give --feed " + input.key + "=FILE.npy");
    }
    return Status();
  }
  bool IsFed(const model::TensorInfo& input) const {
    return std::any_of(feeds_.begin(), feeds_.end(), [&](const NamedTensor& feed) { return feed.tensor == input.tensor; });
  }
  Status FeedDefaults() {
    for (size_t i = 0; whole_signature_ && i < signature_->inputs.size(); ++i) {
      const model::TensorInfo& input = signature_->inputs[i];
      if (input.default_value.empty() || IsFed(input)) continue;
      TENON_TRY_ASSIGN(Tensor value, model::DefaultOf(*runtime_, *signature_, input));
      feeds_.push_back({input.key, std::move(value), "", input.tensor});
    }
    return Status();
  }
  static std::string OpOf(std::string_view graph_bytes, std::string_view name) {
    const Result<data::GraphView> graph = data::ParseGraphDef(graph_bytes);
    if (!graph.ok()) return "";
    for (const data::NodeView& node : graph->nodes) {
      if (node.name == data::NodeOfInput(name)) return " (" + std::string(node.op) + ")";
    }
    return "";
  }

  Status RunSteps() {
    TENON_TRY(FeedDefaults());
    TENON_TRY_ASSIGN(host::SessionOptions options, arguments_.session.Options());
    options.record_costs = !arguments_.session.Given("costs").empty();
    TENON_TRY_ASSIGN(run_options_.timeout, arguments_.session.Deadline());
    TENON_TRY_ASSIGN(session_, Session::Create(*runtime_, options));
    TENON_TRY(model::LoadInto(*runtime_, *model_, *session_, run_options_));
    if (!arguments_.init.empty()) TENON_TRY(CheckFiles(arguments_.init));
    TENON_TRY(Initialize());
    if (fetches_.empty() && arguments_.targets.empty()) return Status();
    std::vector<Name> feed_names, fetch_names, target_names(arguments_.targets.begin(), arguments_.targets.end());
    for (const NamedTensor& feed : feeds_) feed_names.emplace_back(feed.tensor);
    for (const Fetch& fetch : fetches_) fetch_names.emplace_back(fetch.tensor);
    std::vector<std::string> runs = arguments_.targets;
    for (const Fetch& fetch : fetches_) runs.push_back(fetch.tensor);
    TENON_TRY(CheckFiles(runs));
    TENON_TRY_ASSIGN(callable_, session_->Prepare(feed_names, fetch_names, target_names, {}, {}, run_options_));
    TENON_TRY(Repeat());
    if (!arguments_.session.Given("costs").empty()) {
      TENON_TRY_ASSIGN(const std::string costs, session_->Costs());
      TENON_TRY(data::ReplaceFile(arguments_.session.Given("costs"), {costs}, data::Durability::kQuick));
    }
    if (arguments_.explain) {
      TENON_TRY_ASSIGN(explanation_, callable_->Explain());
    }
    return Status();
  }

  // A stranger's model touches no file. A path may be what the user feeds to a tensor of the graph by its name; an input of a signature is data.
  Status CheckFiles(const std::vector<std::string>& runs) const {
    if (arguments_.allow_files) return Status();
    std::vector<std::string> fed, chosen;
    for (const NamedTensor& feed : feeds_) {
      fed.push_back(feed.tensor);
      const auto is_it = [&](const model::TensorInfo& input) { return Short(input.tensor) == Short(feed.tensor); };
      if (signature_ == nullptr || std::none_of(signature_->inputs.begin(), signature_->inputs.end(), is_it)) chosen.push_back(feed.tensor);
    }
    return model::CheckRun(*runtime_, *model_, fed, chosen, runs);
  }

  // Each node once, in order, with the feeds that the steps get: a graph's restore node reads its file's name from one.
  Status Initialize() {
    std::vector<host::Feed> feeds;
    for (const NamedTensor& feed : feeds_) feeds.push_back({feed.tensor, View(feed.value)});
    for (const std::string& node : arguments_.init) {
      Status done = session_->Run(feeds, {}, {node}, run_options_).status();
      if (!done.ok()) return done.Annotate("--init '" + node + "'");
    }
    return Status();
  }

  Status Repeat() {
    std::vector<View> feeds;
    for (const NamedTensor& feed : feeds_) feeds.emplace_back(feed.value);
    times_.reserve(arguments_.repeat);
    for (uint64_t step = 0; step < arguments_.repeat; ++step) {
      RunOptions options = run_options_;
      if ((!arguments_.trace.empty() || !arguments_.session.Given("costs").empty()) && step + 1 == arguments_.repeat) options.trace = &trace_;
      const auto began = std::chrono::steady_clock::now();
      Result<std::vector<Tensor>> values = callable_->Run(feeds, options);
      times_.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - began).count());
      if (!values.ok()) {
        return arguments_.repeat == 1 ? values.status() : values.status().Annotate(fmt::format("step {}", step + 1));
      }
      values_ = *std::move(values);
    }
    return Status();
  }

  // The engine names nodes and ops; the file is ours to name. A feed that the engine refuses is named with its file
  // too.
  Status Explained(const Status& status) const {
    std::string text = "graph '" + arguments_.model.graph + "'";
    for (const NamedTensor& feed : feeds_) {
      const std::string name(Short(feed.tensor));
      const bool named = status.message().find("'" + name + "'") != std::string::npos ||
                         status.message().find("'" + name + ":0'") != std::string::npos;
      if (!named) continue;
      text += ", feed '" + feed.name + "'" + OpOf(graph_bytes_, feed.tensor) + " from '" + feed.file + "'";
      break;
    }
    return status.Annotate(text);
  }

  Status WriteResults() {
    TENON_TRY(WriteFiles());
    if (!arguments_.trace.empty()) TENON_TRY(data::ReplaceFile(arguments_.trace, {trace_}, data::Durability::kQuick));
    if (arguments_.json) {
      PrintJson(ResultsJson());
      return Status();
    }
    for (size_t i = 0; i < fetches_.size(); ++i) {
      if (!fetches_[i].file.empty()) continue;
      fmt::print("{}: {}{}\n{}\n", fetches_[i].name, host::DTypeName(values_[i].dtype()), values_[i].shape().ToString(),
                 FormatTensor(values_[i]));
    }
    if (arguments_.explain) fmt::print("{}\n", explanation_);
    if (arguments_.time && !times_.empty()) {
      const auto [least, median] = LeastAndMedian();
      fmt::print("step: min {:.1f} us, median {:.1f} us, {} steps\n", least, median, times_.size());
    }
    return Status();
  }

  // Fetches that name the same .npz file share it.
  Status WriteFiles() const {
    std::vector<std::pair<std::string, data::NamedTensors>> archives;
    for (size_t i = 0; i < fetches_.size(); ++i) {
      const Fetch& fetch = fetches_[i];
      if (fetch.file.empty()) continue;
      Status written;
      if (fetch.file.ends_with(".npz")) {
        auto found =
            std::find_if(archives.begin(), archives.end(), [&](const auto& a) { return a.first == fetch.file; });
        if (found == archives.end()) found = archives.insert(archives.end(), {fetch.file, {}});
        found->second.emplace_back(fetch.name, values_[i]);
      } else {
        written = data::WriteNpy(fetch.file, values_[i]);
      }
      if (!written.ok()) {
        return written.Annotate("graph '" + arguments_.model.graph + "', fetch '" + fetch.name + "'" +
                                OpOf(graph_bytes_, fetch.tensor));
      }
    }
    for (const auto& [file, tensors] : archives) TENON_TRY(data::WriteNpz(file, tensors));
    return Status();
  }

  std::pair<double, double> LeastAndMedian() const {
    std::vector<double> sorted = times_;
    std::sort(sorted.begin(), sorted.end());
    const size_t half = sorted.size() / 2;
    return {sorted.front(), sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2};
  }

  Json ResultsJson() const {
    Json json;
    json["graph"] = arguments_.model.graph;
    if (signature_ != nullptr) json["signature"] = signature_->name;
    json["fetches"] = Json::object();
    for (size_t i = 0; i < fetches_.size(); ++i) {
      Json& fetch = json["fetches"][fetches_[i].name];
      if (fetches_[i].file.empty()) {
        fetch = TensorJson(values_[i]);
      } else {
        fetch = {{"dtype", host::DTypeName(values_[i].dtype())},
                 {"shape", values_[i].shape().dims()},
                 {"file", fetches_[i].file}};
      }
    }
    if (arguments_.explain) json["explain"] = Json::parse(explanation_, nullptr, false);
    if (arguments_.time && !times_.empty()) {
      const auto [least, median] = LeastAndMedian();
      json["step"] = {{"min_us", least}, {"median_us", median}, {"steps", times_.size()}};
    }
    return json;
  }

  const RunArguments& arguments_;
  std::vector<NamedTensor> feeds_;
  std::vector<Fetch> fetches_;
  std::optional<model::ModelFile> model_;
  const model::Signature* signature_ = nullptr;
  bool whole_signature_ = false;
  std::string_view graph_bytes_;
  std::optional<Runtime> runtime_;
  std::optional<Session> session_;
  std::optional<Callable> callable_;
  RunOptions run_options_;
  std::vector<Tensor> values_;
  std::vector<double> times_;  // microseconds
  std::string trace_;
  std::string explanation_;
};

}  // namespace

Status RunGraph(const RunArguments& arguments) { return Runner(arguments).Run(); }

void AddRunCommand(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<RunArguments>();
  CLI::App* run = app.add_subcommand("run", "Run a graph on arrays from files");
  arguments->model.AddTo(*run);
  run->add_option("--feed", arguments->feeds,
                  "Give a tensor its value: NAME=FILE.npy, NAME=FILE.npz or FILE.npz; may be repeated")
      ->type_name("NAME=FILE")
      ->allow_extra_args(false);
  run->add_option("--fetch", arguments->fetches, "Write a tensor to an .npy or .npz file, or print it; may be repeated")
      ->type_name("NAME[=FILE]")
      ->allow_extra_args(false);
  run->add_option("--target", arguments->targets, "Run a node for its effect in each step; may be repeated")
      ->type_name("NODE")
      ->allow_extra_args(false);
  run->add_option("--init", arguments->init, "Run a node once first; may be repeated")
      ->type_name("NODE")
      ->allow_extra_args(false);
  run->add_option("--repeat", arguments->repeat, "Run the step so often, in one session")
      ->type_name("N")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 40));
  run->add_flag("--time", arguments->time, "Print the least and the median time of a step");
  run->add_option("--trace", arguments->trace, "Write the last step's trace (for chrome://tracing)")->type_name("FILE");
  run->add_flag("--explain", arguments->explain, "Print how each node runs, as JSON");
  run->add_flag("--allow-files", arguments->allow_files,
                "Of a SavedModel: its graph may read and write files that it names itself; without it, it touches none but its own while it is loaded");
  run->add_flag("--json", arguments->json, "Print the results as JSON");
  arguments->runtime.AddTo(*run);
  arguments->session.AddTo(*run);
  run->footer("NAME is `node` or `node:k`, or an input or output of the signature; of a signature all outputs are printed where none is named.\n"
              "Strings are arrays of dtype S<n>.");
  run->callback([arguments, &action] { action = [arguments] { return RunGraph(*arguments); }; });
}

}  // namespace tenon::cli
