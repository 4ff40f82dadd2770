// SPDX-License-Identifier: Apache-2.0
// Models written again with other values: what is loaded from there computes what the session did; and the part of a
// graph that some nodes need.
#include "tenon/model/write_values.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tenon/data/file.h"
#include "tenon/model/checkpoint.h"
#include "tenon/model/graph_part.h"
#include "tenon/model/load.h"
#include "tests/engine/engine.h"
#include "tests/fakes/model_golden.h"
#include "tests/fakes/temporary_folder.h"

namespace tenon::model::write_values_test {
namespace {

using data::JoinPath;
using engine::TheRuntime;
using Json = nlohmann::json;

const std::string kModels = TENON_TEST_SOURCE_DIR "/tests/golden/models";
const std::string kTrained = TENON_TEST_SOURCE_DIR "/tests/golden/trained";

Result<Model> LoadModel(const std::string& path) {
  TENON_TRY_ASSIGN(const ModelFile file, ModelFile::Open(path));
  return Model::Load(TheRuntime(), file);
}

// Each float variable that the model restores becomes half of it.
int64_t HalveVariables(Model& model) {
  if (model.meta().saver.restore_op.empty()) return 0;
  const auto index = GraphIndex::Build(model.file().graph_def());
  EXPECT_TRUE(index.ok()) << index.status();
  const auto part = CutGraph(*index, {model.meta().saver.restore_op}, Devices::kDropped);
  EXPECT_TRUE(part.ok()) << part.status();
  std::vector<std::string> names;
  for (const PartVariable& variable : part->variables)
    if (variable.dtype == DType::kFloat) names.push_back(variable.name);
  if (names.empty()) return 0;
  const auto variables = CutGraph(*index, names, Devices::kDropped);
  EXPECT_TRUE(variables.ok()) << variables.status();
  auto graph = host::Graph::Import(TheRuntime(), variables->graph_def);
  EXPECT_TRUE(graph.ok()) << graph.status();
  std::vector<host::Name> halved;
  for (const PartVariable& variable : variables->variables) {
    const host::Output handle = *graph->Find(variable.name);
    const host::Output value =
        variable.is_reference ? handle : graph->Op("ReadVariableOp", {handle}, {{"dtype", DType::kFloat}}, "test/read");
    const host::Output half = graph->Op("Mul", {value, graph->Const(0.5f, "test/half")}, {}, "test/mul");
    if (variable.is_reference) halved.emplace_back(graph->AddNode("Assign", {handle, half}, {}, "test/assign"));
    else
      halved.emplace_back(
          graph->AddNode("AssignVariableOp", {handle, half}, {{"dtype", DType::kFloat}}, "test/assign"));
  }
  EXPECT_TRUE(graph->status().ok()) << graph->status();
  EXPECT_TRUE(model.session().Extend(*graph).ok());
  EXPECT_TRUE(model.session().RunTargets(halved).ok());
  return static_cast<int64_t>(halved.size());
}

class Rewritten : public testing::TestWithParam<std::string> {};

TEST_P(Rewritten, ComputesWhatTheSessionDid) {
  Result<Model> model = LoadModel(JoinPath(kModels, GetParam()));
  ASSERT_TRUE(model.ok()) << model.status();
  const int64_t halved = HalveVariables(*model);
  const std::string folder = JoinPath(fakes::TemporaryFolder("rewritten"), "model");
  const auto written = WriteWithValues(TheRuntime(), model->session(), model->file(), {}, folder);
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(written->path, folder);
  EXPECT_GE(written->variables, halved);
  const Result<Model> again = LoadModel(folder);
  ASSERT_TRUE(again.ok()) << again.status();
  for (const Json& golden : fakes::ModelGoldens()[GetParam()]) {
    const std::string signature = golden["signature"];
    if (signature == "asset" || signature == "calls")
      continue;  // the path of a file, and a count of the calls that were made
    NamedTensors inputs;
    for (const auto& [key, value] : golden["inputs"].items()) inputs.emplace_back(key, fakes::TensorOf(value));
    const Result<NamedTensors> one = model->Run(signature, inputs), two = again->Run(signature, inputs);
    ASSERT_TRUE(one.ok() && two.ok()) << one.status() << two.status();
    ASSERT_EQ(one->size(), two->size());
    for (size_t i = 0; i < one->size(); ++i) {
      const Tensor &a = (*one)[i].second, &b = (*two)[i].second;
      EXPECT_EQ(a.shape(), b.shape());
      if (a.dtype() == DType::kString) continue;
      EXPECT_TRUE(std::equal(a.bytes().begin(), a.bytes().end(), b.bytes().begin(), b.bytes().end()))
          << signature << " " << (*one)[i].first;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Rewritten, testing::ValuesIn(fakes::ModelNames()),
                         [](const auto& info) { return info.param; });

TEST(WriteWithValues, KeepsWhatIsNoVariable) {
  Result<Model> model = LoadModel(JoinPath(kModels, "module"));
  ASSERT_TRUE(model.ok()) << model.status();
  const std::string folder = JoinPath(fakes::TemporaryFolder("rewritten"), "model");
  ASSERT_TRUE(WriteWithValues(TheRuntime(), model->session(), model->file(), {}, folder).ok());
  const auto before = CheckpointIndex::Read(JoinPath(kModels, "module/variables/variables")),
             after = CheckpointIndex::Read(JoinPath(folder, "variables/variables"));
  ASSERT_TRUE(before.ok() && after.ok());
  ASSERT_EQ(before->tensors.size(), after->tensors.size());
  for (size_t i = 0; i < before->tensors.size(); ++i) EXPECT_EQ(before->tensors[i].name, after->tensors[i].name);
  EXPECT_EQ(*data::ReadFile(JoinPath(kModels, "module/saved_model.pb")),
            *data::ReadFile(JoinPath(folder, "saved_model.pb")));
}

TEST(WriteWithValues, DoesNotWriteOverTheModelItself) {
  Result<Model> model = LoadModel(JoinPath(kModels, "module"));
  ASSERT_TRUE(model.ok()) << model.status();
  for (const std::string& folder : {JoinPath(kModels, "module"), JoinPath(kModels, "module/../module/.")}) {
    const Status same = WriteWithValues(TheRuntime(), model->session(), model->file(), {}, folder).status();
    EXPECT_EQ(same.code(), Code::kInvalidArgument);
    EXPECT_NE(same.message().find("it is the model's own folder"), std::string::npos) << same;
  }
}

// Nodes that wish to stand beside what is left away stand anywhere.
TEST(CutGraph, LeavesNothingThatPointsOutOfIt) {
  const auto file = ModelFile::Open(kTrained + "/dataset.meta");
  ASSERT_TRUE(file.ok()) << file.status();
  const auto index = GraphIndex::Build(file->graph_def());
  ASSERT_TRUE(index.ok()) << index.status();
  const auto part = CutGraph(*index, {"IteratorGetNext:1"}, Devices::kKept);
  ASSERT_TRUE(part.ok()) << part.status();
  EXPECT_TRUE(part->variables.empty());
  EXPECT_TRUE(host::Graph::Import(TheRuntime(), part->graph_def).ok());
  EXPECT_EQ(data::ParseGraphDef(part->graph_def)->nodes.size(), 2u) << "the iterator, and what is taken of it";
  const auto all = CutGraph(*index, {"loss"}, Devices::kKept);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->variables.size(), 4u);
  EXPECT_EQ(CutGraph(*index, {"nobody"}, Devices::kKept).status().code(), Code::kNotFound);
}

TEST(MetaGraphs, TellTheirCollections) {
  const auto file = ModelFile::Open(kTrained + "/v1.meta");
  ASSERT_TRUE(file.ok()) << file.status();
  const MetaGraph& meta = file->meta();
  EXPECT_EQ(meta.train_op, "Adam");
  EXPECT_EQ(meta.collections.at("summary_op"), (std::vector<std::string>{"Merge/MergeSummary:0"}));
  ASSERT_EQ(meta.variables.at("trainable_variables").size(), 4u);
  EXPECT_EQ(meta.variables.at("trainable_variables")[0].variable, "hidden/w");
  EXPECT_EQ(meta.variables.at("trainable_variables")[0].initializer, "hidden/w/Assign");
}

}  // namespace
}  // namespace tenon::model::write_values_test
