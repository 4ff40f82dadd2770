// SPDX-License-Identifier: Apache-2.0
// What is written is read again here; that TensorFlow reads it too is shown by tests/golden/judge_files.py. Covers R5.
#include "tenon/model/write_saved_model.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tenon/data/file.h"
#include "tenon/model/coverage.h"
#include "tenon/model/load.h"
#include "tests/engine/engine.h"
#include "tests/fakes/temporary_folder.h"

namespace tenon::model::write_saved_model_test {
namespace {

using engine::TheRuntime;
using host::Graph;
using host::Output;
using data::JoinPath;

// y = x * v, and a step that raises v, which is no part of the signature.
class Writing : public testing::Test {
 protected:
  Writing() : graph_(TheRuntime()) {
    const Output x = graph_.Placeholder("x", DType::kFloat, {-1});
    const auto on = graph_.Device("/device:CPU:0");
    const Output v = graph_.Op("VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", Shape()}}, "v");
    const Output old = graph_.Op("VariableV2", {}, {{"dtype", DType::kFloat}, {"shape", Shape{2}}}, "old");
    graph_.AddNode("AssignVariableOp", {v, graph_.Const(3.0f)}, {}, "init");
    graph_.AddNode("Assign", {old, graph_.Const({10.0f, 20.0f})}, {}, "init_old");
    const host::Operation raise = graph_.AddNode("AssignAddVariableOp", {v, graph_.Const(1.0f)}, {}, "raise");
    const auto after = graph_.ControlDependencies({raise});
    graph_.Op("ReadVariableOp", {v}, {{"dtype", DType::kFloat}}, "raised");
    const auto alone = graph_.OnlyControlDependencies({});
    graph_.Op("AddV2", {graph_.Op("Mul", {x, graph_.Op("ReadVariableOp", {v}, {{"dtype", DType::kFloat}})}), old}, {},
              "y");
  }

  Session Trained() {
    Result<Session> session = Session::Create(TheRuntime(), graph_);
    EXPECT_TRUE(session.ok()) << session.status();
    EXPECT_TRUE(session->RunTargets({"init", "init_old"}).ok());
    EXPECT_TRUE(session->RunTargets({"raise"}).ok());
    return *std::move(session);
  }
  static WriteOptions Serving() {
    WriteOptions options;
    options.signatures.push_back({"serving_default", {{"in", "x"}}, {{"out", "y:0"}}});
    return options;
  }
  static float Answer(const std::string& folder) {
    const Result<ModelFile> file = ModelFile::Open(folder);
    EXPECT_TRUE(file.ok()) << file.status();
    const Result<Model> model = Model::Load(TheRuntime(), *file);
    EXPECT_TRUE(model.ok()) << model.status();
    const std::vector<float> values = {2, 5};
    const auto outputs = model->Run("serving_default", {{"in", *Tensor::From(std::span<const float>(values), {2})}});
    EXPECT_TRUE(outputs.ok()) << outputs.status();
    EXPECT_EQ((*outputs)[0].first, "out");
    return (*outputs)[0].second.data<float>()[1];
  }

  const std::string folder_ = JoinPath(fakes::TemporaryFolder("written"), "model");
  Graph graph_;
};

TEST_F(Writing, KeepsTheValuesThatTheVariablesHave) {
  Session session = Trained();
  ASSERT_TRUE(WriteSavedModel(TheRuntime(), session, *graph_.Export(), folder_, Serving()).ok());
  EXPECT_EQ(Answer(folder_), 5.0f * 4 + 20);
}

TEST_F(Writing, TakesWhatTheSignaturesReachAndNoDevices) {
  Session session = Trained();
  ASSERT_TRUE(WriteSavedModel(TheRuntime(), session, *graph_.Export(), folder_, Serving()).ok());
  const Result<ModelFile> file = ModelFile::Open(folder_);
  ASSERT_TRUE(file.ok()) << file.status();
  const Signature* signature = file->meta().FindSignature("serving_default");
  ASSERT_NE(signature, nullptr);
  EXPECT_EQ(signature->inputs[0].shape.dims(), std::vector<int64_t>{-1});
  EXPECT_EQ(signature->outputs[0].dtype, DType::kFloat);
  const Result<GraphIndex> index = GraphIndex::Build(file->graph_def());
  ASSERT_TRUE(index.ok());
  EXPECT_EQ(index->FindNode("raise"), nullptr);
  EXPECT_NE(index->FindNode("v"), nullptr);
  for (const data::NodeView& node : index->graph().nodes) EXPECT_EQ(node.device, "") << node.name;
}

TEST_F(Writing, ReplacesAModelOnlyWhenItIsSaid) {
  Session session = Trained();
  WriteOptions options = Serving();
  ASSERT_TRUE(WriteSavedModel(TheRuntime(), session, *graph_.Export(), folder_, options).ok());
  EXPECT_EQ(WriteSavedModel(TheRuntime(), session, *graph_.Export(), folder_, options).message(),
            "writing the model '" + folder_ + "': there is a model already");
  ASSERT_TRUE(session.RunTargets({"raise"}).ok());
  options.replace = true;
  ASSERT_TRUE(WriteSavedModel(TheRuntime(), session, *graph_.Export(), folder_, options).ok());
  EXPECT_EQ(Answer(folder_), 5.0f * 5 + 20);
}

TEST_F(Writing, SaysWhatASignatureHasWrong) {
  Session session = Trained();
  const auto why = [&](const SignatureSpec& spec) {
    WriteOptions options;
    options.signatures = {spec};
    return WriteSavedModel(TheRuntime(), session, *graph_.Export(), folder_, options).message();
  };
  EXPECT_NE(why({"s", {}, {{"out", "z"}}}).find("the graph has no node 'z'"), std::string::npos);
  EXPECT_NE(why({"s", {}, {{"out", "y:3"}}}).find("signature 's', 'out': the graph has no tensor 'y:3'"),
            std::string::npos);
  EXPECT_EQ(WriteSavedModel(TheRuntime(), session, *graph_.Export(), folder_, {}).message(),
            "writing the model '" + folder_ + "': a model needs a signature, which says what can be run");
  EXPECT_FALSE(data::FileExists(JoinPath(folder_, "saved_model.pb")));
}

// A model of TensorFlow's with functions, loaded and written again.
TEST_F(Writing, BringsFunctionsAlong) {
  const std::string golden = TENON_TEST_SOURCE_DIR "/tests/golden/models/module";
  const Result<ModelFile> file = ModelFile::Open(golden);
  ASSERT_TRUE(file.ok()) << file.status();
  Result<Model> model = Model::Load(TheRuntime(), *file);
  ASSERT_TRUE(model.ok()) << model.status();
  SignatureSpec spec;
  const Signature& signature = *file->meta().FindSignature("serving_default");
  for (const TensorInfo& input : signature.inputs) spec.inputs.emplace_back(input.key, input.tensor);
  for (const TensorInfo& output : signature.outputs) spec.outputs.emplace_back(output.key, output.tensor);
  WriteOptions options;
  options.signatures = {spec};
  ASSERT_TRUE(WriteSavedModel(TheRuntime(), model->session(), file->graph_def(), folder_, options).ok());
  const Result<ModelFile> written = ModelFile::Open(folder_);
  ASSERT_TRUE(written.ok()) << written.status();
  const Result<Model> again = Model::Load(TheRuntime(), *written);
  ASSERT_TRUE(again.ok()) << again.status();
  const std::vector<float> values = {1, 2, 3};
  const NamedTensors inputs = {{"x", *Tensor::From(std::span<const float>(values), {1, 3})}};
  const auto before = model->Run("serving_default", inputs), after = again->Run("serving_default", inputs);
  ASSERT_TRUE(before.ok() && after.ok()) << before.status() << after.status();
  for (size_t i = 0; i < before->size(); ++i)
    EXPECT_TRUE(std::ranges::equal((*before)[i].second.bytes(), (*after)[i].second.bytes())) << i;
  const Result<GraphIndex> index = GraphIndex::Build(written->graph_def());
  ASSERT_TRUE(index.ok());
  const auto uses = FindCoverage(TheRuntime(), *index, *ReachOfModel(*written, *index, nullptr));
  EXPECT_TRUE(std::ranges::none_of(uses, [](const OpUse& use) { return use.package.empty(); }))
      << "the function that nobody reaches is gone";
}

}  // namespace
}  // namespace tenon::model::write_saved_model_test
