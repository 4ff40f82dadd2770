// SPDX-License-Identifier: Apache-2.0
// Language models that KerasHub made and TensorFlow exported: logits within rounding, the step with a cache, and whole
// loops token for token.
#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tenon/data/file.h"
#include "tenon/model/load.h"
#include "tests/engine/engine.h"
#include "tests/fakes/model_golden.h"
#include "tests/fakes/temporary_folder.h"

namespace tenon {
namespace {

using Json = nlohmann::json;

const std::string kFolder = TENON_TEST_SOURCE_DIR "/tests/golden/language/";

const Json& Goldens() {
  static const auto* const goldens = new Json(Json::parse(std::ifstream(kFolder + "language.json")));
  return *goldens;
}

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const auto& [name, cases] : Goldens().items()) names.push_back(name);
  return names;
}

std::string Unpacked(const std::string& path) {
  std::string bytes;
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) {
    ADD_FAILURE() << path << " cannot be opened";
    return bytes;
  }
  char block[1 << 16];
  int count = 0;
  while ((count = gzread(file, block, sizeof(block))) > 0) bytes.append(block, static_cast<size_t>(count));
  EXPECT_EQ(count, 0) << path << " is damaged";
  gzclose(file);
  return bytes;
}

// A model whose graph is unpacked, in a folder of its own.
std::string Folder(const std::string& name) {
  const std::string to = fakes::TemporaryFolder(name);
  std::filesystem::copy(kFolder + name + "/variables", to + "/variables", std::filesystem::copy_options::recursive);
  EXPECT_TRUE(data::ReplaceFile(to + "/saved_model.pb", {Unpacked(kFolder + name + "/saved_model.pb.gz")}).ok());
  return to;
}

class Language : public testing::TestWithParam<std::string> {};

// In the order of the cases: what a sampler draws depends on what it drew before.
TEST_P(Language, GivesTensorFlowsLogitsAndItsTokens) {
  const host::Result<model::ModelFile> file = model::ModelFile::Open(Folder(GetParam()));
  ASSERT_TRUE(file.ok()) << file.status();
  const host::Result<model::Model> loaded = model::Model::Load(engine::TheRuntime(), *file);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  for (const Json& golden : Goldens()[GetParam()]) {
    model::NamedTensors inputs;
    for (const auto& [key, value] : golden["inputs"].items()) inputs.emplace_back(key, fakes::TensorOf(value));
    const std::string signature = golden["signature"];
    const host::Result<model::NamedTensors> outputs = loaded->Run(signature, inputs);
    ASSERT_TRUE(outputs.ok()) << signature << ": " << outputs.status();
    EXPECT_EQ(outputs->size(), golden["outputs"].size());
    for (const auto& [key, value] : *outputs) fakes::ExpectGolden(value, golden["outputs"][key], signature + " " + key);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Language, testing::ValuesIn(Names()), [](const auto& info) { return info.param; });

}  // namespace
}  // namespace tenon
