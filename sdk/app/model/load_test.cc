// SPDX-License-Identifier: Apache-2.0
// SavedModels that TensorFlow wrote, loaded and run, against what TensorFlow computed; and hostile ones, refused.
// Covers B16, R5.
#include "tenon/model/load.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tenon/data/file.h"
#include "tenon/model/graph_index.h"
#include "tenon/model/text_format.h"
#include "tenon/bytes/wire.h"
#include "tests/engine/engine.h"
#include "tests/fakes/model_golden.h"
#include "tests/fakes/temporary_folder.h"

namespace tenon::model::load_test {
namespace {

using engine::TheRuntime;
using Json = nlohmann::json;
using data::JoinPath;
using sdk::WireWriter;

const std::string kModels = TENON_TEST_SOURCE_DIR "/tests/golden/models";

Result<Model> LoadModel(const std::string& path, const OpenOptions& options = {}) {
  TENON_TRY_ASSIGN(const ModelFile file, ModelFile::Open(path, options));
  return Model::Load(TheRuntime(), file);
}

std::string WhyNot(const std::string& path) { return LoadModel(path).status().ToString(); }

TEST(Loading, EndsWhereNobodyWantsItAnyLonger) {
  const Result<ModelFile> file = ModelFile::Open(JoinPath(kModels, "module"));
  ASSERT_TRUE(file.ok()) << file.status();
  const auto load = [&](const LoadEnds& ends) {
    return Model::Load(TheRuntime(), *file, {}, FileAccess::kNone, ends).status();
  };
  std::atomic<bool> stop{true};
  EXPECT_EQ(load({{}, &stop}).code(), host::Code::kCancelled);
  host::Cancellation cancellation = *host::Cancellation::Create();
  cancellation.Cancel();
  LoadEnds ends;
  ends.run.cancellation = &cancellation;
  EXPECT_EQ(load(ends).code(), host::Code::kCancelled) << "in the step that restores";
  stop = false;
  EXPECT_TRUE(load({{}, &stop}).ok());
}

// A folder that was copied without its values is told of when it is loaded, and not by the first call.
TEST(Loading, ThatMissesTheValuesOfItsVariablesSaysSo) {
  for (const std::string name : {"keras_dense", "v1", "module"}) {
    const std::string folder = fakes::TemporaryFolder("without_values") + "/" + name;
    std::filesystem::copy(JoinPath(kModels, name), folder, std::filesystem::copy_options::recursive);
    ASSERT_TRUE(LoadModel(folder).ok()) << name;
    std::filesystem::remove_all(folder + "/variables");
    const std::string why = WhyNot(folder);
    EXPECT_NE(why.find("are gone: there is no '" + folder + "/variables/variables.index'; copy the whole folder again"),
              std::string::npos)
        << name << ": " << why;
  }
}

class Goldens : public testing::TestWithParam<std::string> {};

TEST_P(Goldens, GiveWhatTensorFlowGives) {
  const Result<Model> model = LoadModel(JoinPath(kModels, GetParam()));
  ASSERT_TRUE(model.ok()) << model.status();
  for (const Json& golden : fakes::ModelGoldens()[GetParam()]) {
    NamedTensors inputs;
    for (const auto& [key, value] : golden["inputs"].items()) inputs.emplace_back(key, fakes::TensorOf(value));
    const std::string signature = golden["signature"];
    const Result<NamedTensors> outputs = model->Run(signature, inputs);
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    EXPECT_EQ(outputs->size(), golden["outputs"].size());
    for (const auto& [key, value] : *outputs) fakes::ExpectGolden(value, golden["outputs"][key], signature + " " + key);
  }
}

// The same where variables are constants, of the values that the calls before left; signatures that write to them say
// that they cannot.
TEST_P(Goldens, GiveItFrozen) {
  const Json& goldens = fakes::ModelGoldens()[GetParam()];
  const auto inputs_of = [](const Json& golden) {
    NamedTensors inputs;
    for (const auto& [key, value] : golden["inputs"].items()) inputs.emplace_back(key, fakes::TensorOf(value));
    return inputs;
  };
  bool ran = goldens.empty();
  for (size_t i = 0; i < goldens.size(); ++i) {
    const Result<Model> model = LoadModel(JoinPath(kModels, GetParam()));
    ASSERT_TRUE(model.ok()) << model.status();
    for (size_t before = 0; before < i; ++before)
      ASSERT_TRUE(model->Run(std::string(goldens[before]["signature"]), inputs_of(goldens[before])).ok());
    ASSERT_TRUE(model->session().Freeze().ok());
    const std::string signature = goldens[i]["signature"];
    const Result<NamedTensors> outputs = model->Run(signature, inputs_of(goldens[i]));
    if (outputs.status().code() == host::Code::kFailedPrecondition &&
        outputs.status().message().find("frozen") != std::string::npos)
      continue;
    ASSERT_TRUE(outputs.ok()) << signature << ": " << outputs.status();
    ran = true;
    for (const auto& [key, value] : *outputs)
      fakes::ExpectGolden(value, goldens[i]["outputs"][key], signature + " " + key);
  }
  EXPECT_TRUE(ran);
}

INSTANTIATE_TEST_SUITE_P(Models, Goldens, testing::ValuesIn(fakes::ModelNames()),
                         [](const auto& info) { return info.param; });

TEST(LoadModel, FeedsAssetsWithTheirPaths) {
  const Result<Model> model = LoadModel(JoinPath(kModels, "v1"));
  ASSERT_TRUE(model.ok()) << model.status();
  const Result<NamedTensors> outputs = model->Run("asset", {});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_EQ((*outputs)[0].second.string(0), kModels + "/v1/assets/vocabulary.txt");
}

TEST(LoadModel, ChoosesAGraphByItsTags) {
  EXPECT_TRUE(ModelFile::Open(JoinPath(kModels, "v1"), {{"tpu", "serve"}}).ok()) << "in any order";
  const Status none = ModelFile::Open(JoinPath(kModels, "v1"), {{"train"}}).status();
  EXPECT_EQ(none.message(),
            "'" + kModels +
                "/v1/saved_model.pb': the model has no graph with the tags {train}; it has: {serve}, {serve, tpu}");
}

TEST(LoadModel, SaysWhatASignatureWants) {
  const Result<Model> model = LoadModel(JoinPath(kModels, "module"));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->Run("predict", {}).status().message(),
            "the model has no signature 'predict'; it has: 'calls', 'serving_default'");
  EXPECT_EQ(model->Run("serving_default", {}).status().message(),
            "signature 'serving_default': input 'x' is missing; the inputs are: x float[?,3]");
  const Tensor number = *Tensor::Scalar(int64_t{1});
  EXPECT_EQ(model->Run("serving_default", {{"x", number}}).status().message(),
            "signature 'serving_default': input 'x' is float[?,3], found int64[]");
  EXPECT_EQ(model->Run("calls", {{"x", number}}).status().message(),
            "signature 'calls' has no input 'x'; it has: none");
}

// ---- Models that are not to be trusted ----

// The first graph of a model, with something appended to it: later fields count, as they do in protobuf.
std::string Changed(const std::string& name, const WireWriter& appended) {
  const std::string bytes = *data::ReadFile(JoinPath(JoinPath(kModels, name), "saved_model.pb"));
  sdk::WireReader reader(bytes);
  while (reader.Next() && reader.field() != 2) {
  }
  WireWriter model;
  model.Varint(1, 1);
  model.Bytes(2, std::string(reader.bytes()) + appended.bytes());
  return model.bytes();
}

class Hostile : public testing::Test {
 protected:
  // A copy of a golden model, its graph changed.
  std::string Copy(const std::string& name, const WireWriter& appended) {
    const std::string to = JoinPath(folder_, name + std::to_string(count_++));
    std::filesystem::copy(JoinPath(kModels, name), to, std::filesystem::copy_options::recursive);
    EXPECT_TRUE(data::ReplaceFile(JoinPath(to, "saved_model.pb"), {Changed(name, appended)}).ok());
    return to;
  }
  static WireWriter WithAsset(std::string_view file) {
    WireWriter tensor, asset, meta;
    tensor.Bytes(1, "asset_path:0");
    asset.Bytes(1, tensor.bytes());
    asset.Bytes(2, file);
    meta.Bytes(6, asset.bytes());
    return meta;
  }
  static WireWriter WithSaver(std::string_view filename_tensor, std::string_view restore_op) {
    WireWriter saver, meta;
    saver.Bytes(1, filename_tensor);
    saver.Bytes(3, restore_op);
    meta.Bytes(3, saver.bytes());
    return meta;
  }
  const std::string folder_ = fakes::TemporaryFolder("models");
  int count_ = 0;
};

TEST_F(Hostile, AssetsStayInTheFolder) {
  for (const char* file : {"../saved_model.pb", "/etc/passwd", "a/../../b", "memory://a", "", ".", "a//b"}) {
    const std::string why = WhyNot(Copy("module", WithAsset(file)));
    EXPECT_NE(why.find("PERMISSION_DENIED"), std::string::npos) << why;
    EXPECT_NE(why.find("the model's asset '" + std::string(file) + "' leads out of its folder"), std::string::npos)
        << why;
  }
  const std::string missing = WhyNot(Copy("module", WithAsset("not_there.txt")));
  EXPECT_NE(missing.find("not_there.txt' is missing"), std::string::npos) << missing;
}

TEST_F(Hostile, LinksStayInTheFolder) {
  const std::string assets = Copy("v1", WireWriter());
  std::filesystem::remove(assets + "/assets/vocabulary.txt");
  std::filesystem::create_symlink("/etc/passwd", assets + "/assets/vocabulary.txt");
  EXPECT_NE(WhyNot(assets).find("leads out of its folder"), std::string::npos);
  const std::string variables = Copy("v1", WireWriter());
  std::filesystem::create_symlink("/etc/passwd", variables + "/variables/variables.data-00001-of-00002");
  EXPECT_NE(WhyNot(variables).find("leads out of its folder"), std::string::npos);
}

TEST_F(Hostile, AGraphCannotChooseTheFilesThatItIsRestoredFrom) {
  // A saver whose path is a constant of the graph: the tensor that is fed is another.
  const std::string why = WhyNot(Copy("v1", WithSaver("asset_path:0", "save/restore_all")));
  EXPECT_NE(why.find("PERMISSION_DENIED"), std::string::npos) << why;
  EXPECT_NE(why.find("(RestoreV2) would touch a file whose path ('prefix') the graph chose"), std::string::npos) << why;
}

TEST_F(Hostile, AFunctionCannotEither) {
  const std::string why = WhyNot(Copy("module", WithSaver("serving_default_x:0", "StatefulPartitionedCall_3")));
  EXPECT_NE(why.find("(RestoreV2) in function '__inference__traced_restore"), std::string::npos) << why;
}

// A signature "hostile" whose output comes after the node `effect`, which touches the file at `path`.
class HostileSignature : public Hostile {
 protected:
  std::string Model(const std::string& nodes) {
    const Result<WireMessage> graph = TextToWire(R"(
      node { name: "given" op: "Placeholder" attr { key: "dtype" value { type: DT_STRING } } attr { key: "shape" value { shape { } } } }
      node { name: "path" op: "Const" attr { key: "dtype" value { type: DT_STRING } }
             attr { key: "value" value { tensor { dtype: DT_STRING tensor_shape { } string_val: ")" +
                                                     target_ + R"(" } } } }
      node { name: "one" op: "Const" attr { key: "dtype" value { type: DT_STRING } }
             attr { key: "value" value { tensor { dtype: DT_STRING tensor_shape { dim { size: 1 } } string_val: "name" } } } }
      node { name: "none" op: "Const" attr { key: "dtype" value { type: DT_STRING } }
             attr { key: "value" value { tensor { dtype: DT_STRING tensor_shape { dim { size: 1 } } string_val: "" } } } }
      node { name: "answer" op: "Identity" input: ["one", "^effect"] attr { key: "T" value { type: DT_STRING } } })" +
                                                     nodes,
                                                 "GraphDef");
    EXPECT_TRUE(graph.ok()) << graph.status();
    WireWriter in, out, entry_in, entry_out, signature, entry, info, tags, meta, model;
    in.Bytes(1, "given:0");
    in.Varint(2, 7);
    entry_in.Bytes(1, "x");
    entry_in.Bytes(2, in.bytes());
    out.Bytes(1, "answer:0");
    out.Varint(2, 7);
    entry_out.Bytes(1, "y");
    entry_out.Bytes(2, out.bytes());
    signature.Bytes(1, entry_in.bytes());
    signature.Bytes(2, entry_out.bytes());
    entry.Bytes(1, "hostile");
    entry.Bytes(2, signature.bytes());
    info.Bytes(4, "serve");
    meta.Bytes(1, info.bytes());
    meta.Bytes(2, graph->bytes);
    meta.Bytes(5, entry.bytes());
    model.Varint(1, 1);
    model.Bytes(2, meta.bytes());
    const std::string to = JoinPath(folder_, "hostile" + std::to_string(count_++));
    std::filesystem::create_directory(to);
    EXPECT_TRUE(data::ReplaceFile(JoinPath(to, "saved_model.pb"), {model.bytes()}).ok());
    return to;
  }
  static std::string Save(const std::string& path) {
    return R"(node { name: "effect" op: "SaveV2" input: [")" + path + R"(", "one", "none", "one"]
                     attr { key: "dtypes" value { list { type: DT_STRING } } } })";
  }
  Status Run(const std::string& folder, FileAccess access) {
    TENON_TRY_ASSIGN(const ModelFile file, ModelFile::Open(folder));
    TENON_TRY_ASSIGN(const tenon::model::Model model, tenon::model::Model::Load(TheRuntime(), file, {}, access));
    return model.Run("hostile", {{"x", *Tensor::String(target_)}}).status();
  }
  void ExpectRefused(const std::string& nodes, const std::string& part) {
    const Status status = Run(Model(nodes), FileAccess::kNone);
    EXPECT_EQ(status.code(), Code::kPermissionDenied) << status;
    EXPECT_NE(status.message().find(part), std::string::npos) << status;
    EXPECT_FALSE(data::FileExists(target_ + ".index"));
  }
  const std::string target_ = JoinPath(folder_, "written");
};

TEST_F(HostileSignature, WritesNoFiles) {
  ExpectRefused(Save("path"),
                "signature 'hostile': node 'effect' (SaveV2) would touch a file whose path ('prefix') the graph chose");
  EXPECT_TRUE(Run(Model(Save("path")), FileAccess::kAny).ok());
  EXPECT_TRUE(data::FileExists(target_ + ".index")) << "whoever trusts a model may let it";
}

// What a signature is given is data: it may come from a stranger too.
TEST_F(HostileSignature, TakesNoPathsFromItsInputs) { ExpectRefused(Save("given"), "--allow-files"); }

TEST_F(HostileSignature, ReadsNoFiles) {
  ExpectRefused(
      R"(node { name: "table" op: "HashTableV2" attr { key: "key_dtype" value { type: DT_STRING } } attr { key: "value_dtype" value { type: DT_INT64 } } }
                   node { name: "effect" op: "InitializeTableFromTextFileV2" input: ["table", "path"]
                          attr { key: "key_index" value { i: -2 } } attr { key: "value_index" value { i: -1 } } })",
      "(InitializeTableFromTextFileV2)");
}

TEST_F(HostileSignature, HidesNothingInAFunction) {
  ExpectRefused(
      R"(node { name: "effect" op: "PartitionedCall" input: "path" attr { key: "f" value { func { name: "inner" } } }
                          attr { key: "Tin" value { list { type: DT_STRING } } } attr { key: "Tout" value { list { } } } }
                   library { function { signature { name: "inner" input_arg { name: "a" type: DT_STRING } is_stateful: true }
                     node_def { name: "n" op: "Const" attr { key: "dtype" value { type: DT_STRING } }
                                attr { key: "value" value { tensor { dtype: DT_STRING tensor_shape { dim { size: 1 } } string_val: "" } } } }
                     node_def { name: "save" op: "SaveV2" input: ["a", "n:output:0", "n:output:0", "n:output:0"]
                                attr { key: "dtypes" value { list { type: DT_STRING } } } } } })",
      "in function 'inner'");
}

TEST_F(Hostile, ACheckpointNeedsASaver) {
  WireWriter meta;
  meta.Bytes(3, "");
  const std::string why = WhyNot(Copy("module", meta));
  EXPECT_NE(why.find("the graph has no saver that could restore it"), std::string::npos) << why;
}

TEST_F(Hostile, DamagedFilesAreErrors) {
  const std::string bytes = *data::ReadFile(JoinPath(kModels, "module/saved_model.pb"));
  const std::string folder = Copy("module", WireWriter());
  for (size_t size = 0; size < bytes.size(); size += 997) {
    ASSERT_TRUE(data::ReplaceFile(JoinPath(folder, "saved_model.pb"), {std::string_view(bytes).substr(0, size)}).ok());
    EXPECT_FALSE(LoadModel(folder).ok()) << size;
  }
}

}  // namespace
}  // namespace tenon::model::load_test
