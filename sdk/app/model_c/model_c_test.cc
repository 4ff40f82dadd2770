// SPDX-License-Identifier: Apache-2.0
// Models through C: what TensorFlow wrote, opened, called by its signatures, written again; and what a caller gets
// wrong. Covers O2, R5.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "sdk/app/model_c/c_test.h"
#include "tenon/data/file.h"
#include "tenon/model.h"
#include "tests/engine/engine.h"
#include "tests/fakes/model_golden.h"
#include "tests/fakes/temporary_folder.h"

namespace tenon::model_c_test {
namespace {

using engine::TheRuntime;
using model_c::Said, model_c::Sized;
using host::Span, host::Status, host::Text;
using Json = nlohmann::json;

const std::string kModels = TENON_TEST_SOURCE_DIR "/tests/golden/models";

struct Files {
  void operator()(tenon_model_file* file) const { tenon_model_file_release(file); }
};
struct Models {
  void operator()(tenon_model* model) const { tenon_model_release(model); }
};
using File = std::unique_ptr<tenon_model_file, Files>;
using Model = std::unique_ptr<tenon_model, Models>;

File Open(const std::string& path) {
  tenon_model_file* file = nullptr;
  EXPECT_EQ(Said(tenon_model_file_open(Span(path), nullptr, &file)), "OK");
  return File(file);
}
Model Load(const std::string& name) {
  const File file = Open(kModels + "/" + name);
  tenon_model* model = nullptr;
  EXPECT_EQ(Said(tenon_model_load(TheRuntime().get(), file.get(), nullptr, &model)), "OK");
  return Model(model);
}

// Names and views of inputs, as C takes them.
struct Inputs {
  void Add(std::string key, const Json& json) {
    tensors.push_back(fakes::TensorOf(json));
    keys.push_back(std::move(key));
  }
  const tenon_span* names() {
    spans.clear();
    for (const std::string& key : keys) spans.push_back(Span(key));
    return spans.data();
  }
  const tenon_tensor_view* const* views() {
    pointers.clear();
    for (const host::Tensor& tensor : tensors) pointers.push_back(tensor.view());
    return pointers.data();
  }
  std::vector<std::string> keys;
  std::vector<host::Tensor> tensors;
  std::vector<tenon_span> spans;
  std::vector<const tenon_tensor_view*> pointers;
};

class Goldens : public testing::TestWithParam<std::string> {};

TEST_P(Goldens, GiveThroughCWhatTensorFlowGives) {
  const Model model = Load(GetParam());
  ASSERT_NE(model, nullptr);
  const tenon_model_file* const file = tenon_model_get_file(model.get());
  for (const Json& golden : fakes::ModelGoldens()[GetParam()]) {
    Inputs inputs;
    for (const auto& [key, value] : golden["inputs"].items()) inputs.Add(key, value);
    const std::string name = golden["signature"];
    uint64_t index = 0;
    ASSERT_EQ(Said(tenon_model_file_find_signature(file, Span(name), &index)), "OK");
    auto info = Sized<tenon_signature_info>();
    ASSERT_EQ(Said(tenon_model_file_signature(file, index, &info)), "OK");
    EXPECT_EQ(Text(info.name), name);
    ASSERT_EQ(info.output_count, golden["outputs"].size());
    std::vector<tenon_tensor*> outputs(info.output_count);
    ASSERT_EQ(Said(tenon_model_run(model.get(), Span(name), nullptr, inputs.names(), inputs.views(), inputs.keys.size(),
                                   outputs.data(), outputs.size())),
              "OK");
    for (uint64_t i = 0; i < outputs.size(); ++i) {
      const host::Tensor output = host::Tensor::Take(outputs[i]);
      auto tensor = Sized<tenon_signature_tensor>();
      ASSERT_EQ(Said(tenon_model_file_signature_tensor(file, index, TENON_SIGNATURE_OUTPUT, i, &tensor)), "OK");
      EXPECT_EQ(tensor.dtype, static_cast<uint32_t>(output.dtype()));
      fakes::ExpectGolden(output, golden["outputs"][std::string(Text(tensor.key))],
                          name + " " + std::string(Text(tensor.key)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Goldens, testing::ValuesIn(fakes::ModelNames()),
                         [](const auto& info) { return info.param; });

TEST(ModelFileInC, SaysWhatItHolds) {
  const File file = Open(kModels + "/module");
  auto info = Sized<tenon_model_file_info>();
  ASSERT_EQ(Said(tenon_model_file_get_info(file.get(), &info)), "OK");
  EXPECT_EQ(info.form, TENON_MODEL_SAVED_MODEL);
  EXPECT_EQ(info.signature_count, 2u);
  EXPECT_EQ(Text(info.checkpoint), kModels + "/module/variables/variables");
  tenon_span tag = {};
  ASSERT_EQ(Said(tenon_model_file_tag(file.get(), 0, &tag)), "OK");
  EXPECT_EQ(Text(tag), "serve");
  auto input = Sized<tenon_signature_tensor>();
  uint64_t index = 0;
  ASSERT_EQ(Said(tenon_model_file_find_signature(file.get(), TENON_SPAN("serving_default"), &index)), "OK");
  ASSERT_EQ(Said(tenon_model_file_signature_tensor(file.get(), index, TENON_SIGNATURE_INPUT, 0, &input)), "OK");
  EXPECT_EQ(Text(input.key), "x");
  EXPECT_EQ(input.dtype, TENON_DT_FLOAT);
  EXPECT_EQ(host::Shape::From(input.shape).ToString(), "[?,3]");
}

TEST(ModelFileInC, AGraphOfWhichNobodySaysMoreHasNoSignature) {
  const Model module = Load("module");
  auto info = Sized<tenon_model_file_info>();
  ASSERT_EQ(Said(tenon_model_file_get_info(tenon_model_get_file(module.get()), &info)), "OK");
  const std::string folder = fakes::TemporaryFolder("model_c");
  const std::string path = data::JoinPath(folder, "graph.pb");
  ASSERT_TRUE(data::ReplaceFile(path, {std::string(Text(info.graph_def))}).ok());
  const File file = Open(path);
  ASSERT_EQ(Said(tenon_model_file_get_info(file.get(), &info)), "OK");
  EXPECT_EQ(info.form, TENON_MODEL_GRAPH_DEF);
  EXPECT_EQ(info.signature_count, 0u);
  EXPECT_EQ(info.checkpoint.size, 0u);
}

TEST(ModelFileInC, OlderCallersGetWhatTheyKnow) {
  const File file = Open(kModels + "/module");
  tenon_model_file_info info;
  std::memset(static_cast<void*>(&info), 0x5a, sizeof(info));
  info.struct_size = offsetof(tenon_model_file_info, graph_def);
  ASSERT_EQ(Said(tenon_model_file_get_info(file.get(), &info)), "OK");
  EXPECT_EQ(info.form, TENON_MODEL_SAVED_MODEL);
  EXPECT_EQ(info.note_count, 0x5a5a5a5a5a5a5a5au) << "was written beyond what the caller has";
}

TEST(ModelInC, PreparedOnceIsCalledOften) {
  const Model model = Load("module");
  tenon_callable* callable = nullptr;
  ASSERT_EQ(Said(tenon_model_prepare(model.get(), TENON_SPAN("serving_default"), nullptr, &callable)), "OK");
  const host::Tensor x = *host::Tensor::From(std::vector<float>{1, 2, 3}, {1, 3});
  const tenon_tensor_view* const feed = x.view();
  const tenon_span name = TENON_SPAN("x");
  tenon_tensor* once[2] = {};
  ASSERT_EQ(Said(tenon_model_run(model.get(), TENON_SPAN("serving_default"), nullptr, &name, &feed, 1, once, 2)), "OK");
  const host::Tensor wanted[] = {host::Tensor::Take(once[0]), host::Tensor::Take(once[1])};
  for (int i = 0; i < 3; ++i) {
    tenon_tensor* outputs[2] = {};
    ASSERT_EQ(Said(tenon_callable_run(callable, nullptr, &feed, outputs)), "OK");
    for (int k = 0; k < 2; ++k)
      EXPECT_TRUE(std::ranges::equal(host::Tensor::Take(outputs[k]).bytes(), wanted[k].bytes()));
  }
  tenon_callable_release(callable);
}

TEST(ModelInC, WhatIsWrittenGivesTheSameAgain) {
  const Model model = Load("module");
  auto info = Sized<tenon_model_file_info>();
  ASSERT_EQ(Said(tenon_model_file_get_info(tenon_model_get_file(model.get()), &info)), "OK");
  uint64_t index = 0;
  ASSERT_EQ(
      Said(tenon_model_file_find_signature(tenon_model_get_file(model.get()), TENON_SPAN("serving_default"), &index)),
      "OK");
  auto input = Sized<tenon_signature_tensor>(), output = Sized<tenon_signature_tensor>();
  ASSERT_EQ(Said(tenon_model_file_signature_tensor(tenon_model_get_file(model.get()), index, TENON_SIGNATURE_INPUT, 0,
                                                   &input)),
            "OK");
  ASSERT_EQ(Said(tenon_model_file_signature_tensor(tenon_model_get_file(model.get()), index, TENON_SIGNATURE_OUTPUT, 0,
                                                   &output)),
            "OK");

  const std::string folder = fakes::TemporaryFolder("model_c");
  const std::string to = data::JoinPath(folder, "written");
  const tenon_signature_entry in = {TENON_SPAN("given"), input.tensor}, out = {TENON_SPAN("got"), output.tensor};
  tenon_signature_spec spec = {sizeof(spec), 0, TENON_SPAN("again"), {}, &in, 1, &out, 1};
  const tenon_signature_spec* const specs[] = {&spec};
  tenon_model_write_options options = {sizeof(options), 0, specs, 1, nullptr, 0, 0, 0};
  const auto write = [&] {
    return Said(tenon_model_write(TheRuntime().get(), tenon_model_get_session(model.get()), info.graph_def, Span(to),
                                  &options));
  };
  ASSERT_EQ(write(), "OK");
  EXPECT_TRUE(write().starts_with("ALREADY_EXISTS")) << write();

  const host::Tensor x = *host::Tensor::From(std::vector<float>{1, 2, 3}, {1, 3});
  const tenon_tensor_view* const feed = x.view();
  // The first output.
  const auto run = [&](const Model& of, tenon_span signature, tenon_span key, uint64_t count) {
    tenon_tensor* values[2] = {};
    EXPECT_EQ(Said(tenon_model_run(of.get(), signature, nullptr, &key, &feed, 1, values, count)), "OK");
    tenon_tensor_release(values[1]);
    return host::Tensor::Take(values[0]);
  };
  const File file = Open(to);
  tenon_model* written = nullptr;
  ASSERT_EQ(Said(tenon_model_load(TheRuntime().get(), file.get(), nullptr, &written)), "OK");
  EXPECT_TRUE(std::ranges::equal(run(Model(written), TENON_SPAN("again"), TENON_SPAN("given"), 1).bytes(),
                                 run(model, TENON_SPAN("serving_default"), TENON_SPAN("x"), 2).bytes()));
}

TEST(ModelInC, ItsCheckpointIsReadByName) {
  tenon_checkpoint* checkpoint = nullptr;
  ASSERT_EQ(Said(tenon_checkpoint_open(Span(kModels + "/v1/variables/variables"), &checkpoint)), "OK");
  const uint64_t count = tenon_checkpoint_count(checkpoint);
  ASSERT_GT(count, 0u);
  for (uint64_t i = 0; i < count; ++i) {
    auto entry = Sized<tenon_checkpoint_entry>();
    ASSERT_EQ(Said(tenon_checkpoint_get(checkpoint, i, &entry)), "OK");
    uint64_t found = count;
    ASSERT_EQ(Said(tenon_checkpoint_find(checkpoint, entry.name, &found)), "OK");
    EXPECT_EQ(found, i);
    tenon_tensor* value = nullptr;
    ASSERT_EQ(Said(tenon_checkpoint_read(checkpoint, TheRuntime().get(), i, &value)), "OK");
    const host::Tensor tensor = host::Tensor::Take(value);
    EXPECT_EQ(static_cast<uint32_t>(tensor.dtype()), entry.dtype);
    EXPECT_EQ(tensor.shape(), host::Shape::From(entry.shape));
  }
  uint64_t index = 0;
  EXPECT_TRUE(Said(tenon_checkpoint_find(checkpoint, TENON_SPAN("nowhere"), &index))
                  .starts_with("NOT_FOUND: the checkpoint '"));
  tenon_tensor* value = nullptr;
  EXPECT_EQ(Said(tenon_checkpoint_read(checkpoint, TheRuntime().get(), count, &value)),
            "INVALID_ARGUMENT: there is no tensor " + std::to_string(count) + "; there are " + std::to_string(count));
  tenon_checkpoint_release(checkpoint);
}

// ---- What a caller gets wrong ----

TEST(ModelInC, SaysWhatIsWrongWithACall) {
  const Model model = Load("module");
  const host::Tensor x = *host::Tensor::From(std::vector<float>{1, 2, 3}, {1, 3});
  const tenon_tensor_view* feeds[] = {x.view(), x.view()};
  const tenon_span names[] = {TENON_SPAN("x"), TENON_SPAN("x")};
  tenon_tensor* outputs[3] = {};
  const auto run = [&](tenon_span signature, const tenon_span* keys, const tenon_tensor_view* const* values,
                       uint64_t count, uint64_t room) {
    return Said(tenon_model_run(model.get(), signature, nullptr, keys, values, count, outputs, room));
  };
  const tenon_span serving = TENON_SPAN("serving_default");
  EXPECT_EQ(run(TENON_SPAN("predict"), names, feeds, 1, 1),
            "NOT_FOUND: the model has no signature 'predict'; it has: 'calls', 'serving_default'");
  EXPECT_EQ(run(serving, names, feeds, 1, 3),
            "INVALID_ARGUMENT: signature 'serving_default' gives 2 outputs; there is room for 3");
  EXPECT_EQ(run(serving, nullptr, nullptr, 0, 2),
            "INVALID_ARGUMENT: signature 'serving_default': input 'x' is missing; the inputs are: x float[?,3]");
  EXPECT_EQ(run(serving, nullptr, feeds, 1, 2), "INVALID_ARGUMENT: 'input_names' is NULL, with a count of 1");
  EXPECT_EQ(run(serving, names, feeds, 2, 2),
            "INVALID_ARGUMENT: signature 'serving_default': input 'x' is given twice");
  feeds[0] = nullptr;
  EXPECT_EQ(run(serving, names, feeds, 1, 2), "INVALID_ARGUMENT: 'inputs[0]' is NULL");
  tenon_tensor_view bad = *x.view();
  bad.dl.shape = nullptr;
  feeds[0] = &bad;
  EXPECT_EQ(run(serving, names, feeds, 1, 2), "INVALID_ARGUMENT: 'inputs[0].dl.shape' is NULL, with a rank of 2");
  bad.dl.ndim = -1;
  EXPECT_EQ(run(serving, names, feeds, 1, 2), "INVALID_ARGUMENT: 'inputs[0].dl.ndim' is -1; a rank is from 0 to 254");
  for (const tenon_tensor* output : outputs) EXPECT_EQ(output, nullptr) << "was touched by a call that failed";
}

TEST(ModelInC, SaysWhatIsWrongWithAStruct) {
  tenon_model_file* file = nullptr;
  tenon_model_open_options options = {};
  options.most_bytes = 10;
  EXPECT_EQ(Said(tenon_model_file_open(Span(kModels + "/v1"), &options, &file)),
            "INVALID_ARGUMENT: 'options.struct_size' is 0, and other members are not; set it to the struct's sizeof");
  options.struct_size = sizeof(options);
  options.must_understand = 8;
  EXPECT_TRUE(Said(tenon_model_file_open(Span(kModels + "/v1"), &options, &file))
                  .starts_with("UNIMPLEMENTED: 'options' needs a feature"));
  options = {sizeof(options), 0, nullptr, 3, 0};
  EXPECT_EQ(Said(tenon_model_file_open(Span(kModels + "/v1"), &options, &file)),
            "INVALID_ARGUMENT: 'options.tags' is NULL, with a count of 3");
  options = {sizeof(options), 0, nullptr, 0, 10};
  EXPECT_TRUE(Said(tenon_model_file_open(Span(kModels + "/v1"), &options, &file)).starts_with("RESOURCE_EXHAUSTED"));
  EXPECT_EQ(Said(tenon_model_file_open(Span(kModels + "/v1"), nullptr, nullptr)),
            "INVALID_ARGUMENT: 'out_file' is NULL");
  EXPECT_TRUE(Said(tenon_model_file_open(Span(kModels + "/nowhere"), nullptr, &file)).starts_with("NOT_FOUND"));
  EXPECT_EQ(file, nullptr);
}

TEST(ModelInC, NothingIsNoObject) {
  tenon_model_file_release(nullptr);
  tenon_model_release(nullptr);
  tenon_checkpoint_release(nullptr);
  EXPECT_EQ(tenon_model_get_file(nullptr), nullptr);
  EXPECT_EQ(tenon_model_get_session(nullptr), nullptr);
  EXPECT_EQ(tenon_checkpoint_count(nullptr), 0u);
  auto info = Sized<tenon_model_file_info>();
  EXPECT_EQ(Said(tenon_model_file_get_info(nullptr, &info)), "INVALID_ARGUMENT: 'file' is NULL");
}

}  // namespace
}  // namespace tenon::model_c_test
