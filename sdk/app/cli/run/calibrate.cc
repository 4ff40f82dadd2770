// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/cli/run/calibrate.h"

#include <fmt/format.h>

#include <algorithm>

#include "sdk/app/cli/line/wrong_flag.h"
#include "sdk/app/cli/table.h"
#include "tenon/host/calibration.h"
#include "tenon/model/load.h"
#include "tenon/bytes/crc32c.h"

namespace tenon::cli {
namespace {

using host::Callable;
using host::Code;
using host::Name;
using host::Result;
using host::Session;
using host::Status;
using host::Tensor;
using host::View;

constexpr std::string_view kGraph = "graph ";  // of the remark that says whose ranges they are

std::string GraphRemark(const model::ModelFile& model) {
  const auto bytes = model.graph_def();
  return fmt::format("{}{:08x}", kGraph, sdk::Crc32c(bytes));
}

std::string NamesOf(const Batch& batch) {
  std::string names;
  for (const Feed& feed : batch.feeds) names += (names.empty() ? "" : ", ") + feed.tensor;
  return names;
}

Result<std::vector<Tensor>> RunBatch(const Callable& callable, const Batch& batch, const host::RunOptions& run) {
  std::vector<View> views;
  for (const Feed& feed : batch.feeds) views.emplace_back(feed.value);
  Result<std::vector<Tensor>> values = callable.Run(views, run);
  if (values.ok()) return values;
  return Status(values.status()).Annotate("--calibrate '" + batch.file + "'");
}

void ReadNotes(const std::string& explanation, Calibrated* out) {
  for (const Json& node : Json::parse(explanation)) {
    if (!node.contains("note")) continue;
    const auto note = node["note"].get<std::string>();
    constexpr std::string_view kStays = "stays in floats: ";
    if (note.starts_with(kStays))
      out->in_floats.emplace_back(node["name"].get<std::string>(), note.substr(kStays.size()));
    else out->in_bytes.push_back(note);
  }
}

}  // namespace

Result<std::vector<Batch>> ReadBatches(const std::vector<std::string>& texts, const std::vector<Feed>& common,
                                       const TensorNames& names, data::ReadLimit& limit) {
  std::vector<Batch> batches;
  for (const std::string& text : texts) {
    TENON_TRY_ASSIGN(std::vector<Feed> feeds, ReadArrays("--calibrate", {text}, names, limit));
    for (const Feed& feed : feeds)
      TENON_TRY(names.CheckFeed(feed.name, feed.tensor, feed.value, feed.file).Annotate("--calibrate"));
    for (const Feed& feed : common)
      if (std::ranges::none_of(feeds,
                               [&](const Feed& own) { return ShortTensor(own.tensor) == ShortTensor(feed.tensor); }))
        feeds.push_back(feed);
    std::ranges::sort(feeds, {}, &Feed::tensor);
    batches.push_back({text, std::move(feeds)});
    if (NamesOf(batches.back()) != NamesOf(batches.front()))
      WrongFlag("--calibrate", fmt::format("'{}' feeds {}, and '{}' {}; all must feed the same", batches.front().file,
                                           NamesOf(batches.front()), text, NamesOf(batches.back())));
  }
  return batches;
}

Result<Prepared> PrepareStep(const CalibratedStep& step, const host::SessionOptions& options, const Batch& first) {
  TENON_TRY_ASSIGN(Session session, Session::Create(step.runtime, options));
  TENON_TRY(model::LoadInto(step.runtime, step.model, session, {.run = step.run}));
  std::vector<host::Feed> feeds;
  std::vector<Name> feed_names, fetch_names, target_names(step.targets.begin(), step.targets.end());
  for (const Feed& feed : first.feeds) {
    feeds.push_back({feed.tensor, View(feed.value)});
    feed_names.emplace_back(feed.tensor);
  }
  for (const Fetch& fetch : step.fetches) fetch_names.emplace_back(fetch.tensor);
  for (const std::string& node : step.init)
    TENON_TRY(session.Run(feeds, {}, {node}, step.run).status().Annotate("--init '" + node + "'"));
  TENON_TRY_ASSIGN(Callable callable, session.Prepare(feed_names, fetch_names, target_names, {}, {}, step.run));
  return Prepared{std::move(session), std::move(callable)};
}

Result<Calibrated> Calibrate(const CalibratedStep& step, const std::vector<Batch>& batches) {
  Calibrated out;
  host::Calibrator calibrator;
  std::vector<std::vector<Tensor>> exact;
  {
    host::SessionOptions options = step.options;
    options.precision = host::Precision::kStrict;
    options.calibration.clear();
    options.optimize = false;  // every node is there to be looked at
    options.watch = true;
    TENON_TRY_ASSIGN(const Prepared prepared, PrepareStep(step, options, batches.front()));
    host::RunOptions run = step.run;
    run.watch = calibrator.Watch();
    for (const Batch& batch : batches) {
      for (const Feed& feed : batch.feeds) calibrator.Feed(feed.tensor, View(feed.value));
      TENON_TRY_ASSIGN(std::vector<Tensor> values, RunBatch(prepared.callable, batch, run));
      exact.push_back(std::move(values));
    }
  }
  out.batches = batches.size();
  out.tensors = calibrator.size();
  out.text = calibrator.Text(fmt::format("{}\nleast and largest of {} batches of '{}'", GraphRemark(step.model),
                                         batches.size(), step.model.path()));
  host::SessionOptions options = step.options;
  options.precision = host::Precision::kInt8;
  options.calibration = out.text;
  TENON_TRY_ASSIGN(const Prepared prepared, PrepareStep(step, options, batches.front()));
  for (const Fetch& fetch : step.fetches) out.accuracy.emplace_back(fetch.name);
  for (size_t i = 0; i < batches.size(); ++i) {
    TENON_TRY_ASSIGN(const std::vector<Tensor> values, RunBatch(prepared.callable, batches[i], step.run));
    for (size_t k = 0; k < values.size(); ++k) TENON_TRY(out.accuracy[k].Add(exact[i][k], values[k]));
  }
  TENON_TRY_ASSIGN(const std::string explanation, prepared.callable.Explain());
  ReadNotes(explanation, &out);
  return out;
}

void Calibrated::Print(const std::string& file) const {
  fmt::print("calibrated: the ranges of {} tensors over {} batch{}{}\n", tensors, batches, batches == 1 ? "" : "es",
             file.empty() ? std::string() : ", in '" + file + "'");
  fmt::print("int8: {} of {} products and convolutions run in 8-bit integers\n", in_bytes.size(),
             in_bytes.size() + in_floats.size());
  if (!in_floats.empty()) {
    Table table({"in floats stays", "because"});
    for (const auto& [node, why] : in_floats) table.Add({node, why});
    table.Print(2);
  }
  PrintAccuracy("how far int8 is from floats on these batches:", accuracy);
}

Json Calibrated::AsJson(const std::string& file) const {
  Json json{{"batches", batches}, {"tensors", tensors}, {"int8", in_bytes.size()}};
  if (!file.empty()) json["file"] = file;
  json["in_floats"] = Json::array();
  for (const auto& [node, why] : in_floats) json["in_floats"].push_back({{"node", node}, {"reason", why}});
  json["accuracy"] = AccuracyJson(accuracy);
  return json;
}

Status CheckCalibration(const std::string& calibration, const model::ModelFile& model) {
  const std::string head = "\n# " + std::string(kGraph);
  const size_t at = calibration.find(head);
  if (at == std::string::npos) return Status();  // made by another program, whose nodes are looked at
  const size_t begin = at + 3, end = std::min(calibration.find('\n', begin), calibration.size());
  const std::string wanted = calibration.substr(begin, end - begin), found = GraphRemark(model);
  if (wanted == found) return Status();
  return Status(Code::kInvalidArgument,
                fmt::format("it is of another graph: of the one with the checksum {}, and '{}' has {}; calibrate this "
                            "graph (--calibrate)",
                            wanted.substr(kGraph.size()), model.path(), found.substr(kGraph.size())));
}

}  // namespace tenon::cli
