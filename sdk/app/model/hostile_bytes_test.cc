// SPDX-License-Identifier: Apache-2.0
// Readers of strangers' files meet bytes that were changed at random: an answer or an error, never a fault (sanitizers
// watch).
#include <gtest/gtest.h>

#include <random>

#include "tenon/data/file.h"
#include "tenon/model/graph_index.h"
#include "tenon/model/meta_graph.h"
#include "tenon/model/text_format.h"
#include "tenon/bytes/wire.h"

namespace tenon::model::hostile_bytes_test {
namespace {

// One to four places changed: a byte, a cut, a piece taken twice, the end left away.
std::string Changed(const std::string& bytes, std::mt19937& random) {
  std::string changed = bytes;
  for (uint32_t left = 1 + random() % 4; left > 0 && !changed.empty(); --left) {
    const size_t at = random() % changed.size(), size = random() % std::min<size_t>(40, changed.size() - at) + 1;
    switch (random() % 5) {
      case 0:
        changed[at] = static_cast<char>(random());
        break;
      case 1:
        changed[at] = static_cast<char>(changed[at] ^ (1 << random() % 8));
        break;
      case 2:
        changed.erase(at, size);
        break;
      case 3:
        changed.insert(at, changed.substr(at, size));
        break;
      default:
        changed.resize(random() % 8 == 0 ? at : changed.size());
    }
  }
  return changed;
}

// All that is read of a graph before an engine sees it; how many readers were content.
int Read(std::string_view meta_bytes) {
  int content = 0;
  const Result<MetaGraph> meta = ParseMetaGraph(meta_bytes);
  if (!meta.ok()) return content;
  ++content;
  const Result<GraphIndex> index = GraphIndex::Build(meta->graph_def);
  if (!index.ok()) return content;
  ++content;
  for (const data::NodeView& node : index->graph().nodes) {
    content += index->FunctionsOf(node).empty() ? 0 : 1;
    (void)node.ShapeAttr("shape");
    (void)node.TensorAttr("value");
    (void)index->Reach({}, {std::string(node.name)}).ok();
  }
  for (const data::FunctionView& function : index->functions()) {
    (void)ReachInFunction(function, [](const data::NodeView& node) { return node.op.empty(); });
  }
  return content;
}

TEST(HostileBytes, NeverHarmTheReadersOfModels) {
  std::mt19937 random(20);
  for (const char* name : {"v1", "module", "keras_dense"}) {
    const std::string model =
        *data::ReadFile(std::string(TENON_TEST_SOURCE_DIR "/tests/golden/models/") + name + "/saved_model.pb");
    const std::string meta(sdk::FindBytes(model, 2));
    ASSERT_GT(Read(meta), 1) << name;
    int content = 0, refused = 0;
    for (int i = 0; i < 300; ++i) {
      const int found = Read(Changed(meta, random));
      ++(found > 1 ? content : refused);
    }
    EXPECT_GT(content, 0) << name;
    EXPECT_GT(refused, 0) << name;
  }
}

TEST(HostileBytes, NeverHarmTheReaderOfText) {
  const std::string text = R"(
    # nodes
    node { name: "x\n\x41\101" op: 'Placeholder' attr { key: "dtype" value { type: DT_FLOAT } } }
    node: < name: "y"; input: ["x", "^x"] attr <key: "c" value: {tensor { float_val: [1.5e3, -inf, nan, 0x10] int_val: -7 }}> >
    unknown { a: [1, { b: "}" }] c < d: - 3 > }
    versions { producer: 27 bad_consumers: [1, 2, 010] }
    library { function { signature { name: "f" } ret { key: "r" value: "a" "b" } } })";
  ASSERT_TRUE(TextToWire(text, "GraphDef").ok());
  std::mt19937 random(21);
  int content = 0;
  constexpr int kTexts = 20000;
  for (int i = 0; i < kTexts; ++i) {
    const std::string changed = Changed(text, random);
    const Result<WireMessage> wire = TextToWire(changed, "GraphDef");
    (void)LooksLikeText(changed);
    if (!wire.ok()) {
      EXPECT_TRUE(wire.status().message().starts_with("line ")) << wire.status();
      continue;
    }
    ++content;
    EXPECT_LT(wire->bytes.size(), 6 * changed.size() + 100) << "a text cannot ask for much more than it is";
    sdk::WireReader reader(wire->bytes);
    while (reader.Next()) {
    }
    EXPECT_TRUE(reader.ok()) << changed;
  }
  EXPECT_GT(content, 0);
  EXPECT_LT(content, kTexts);
}

}  // namespace
}  // namespace tenon::model::hostile_bytes_test
