// SPDX-License-Identifier: Apache-2.0
#include "tenon/model/model_file.h"

#include <gtest/gtest.h>

#include "tenon/data/file.h"
#include "tenon/data/graph_def.h"
#include "tenon/bytes/wire.h"
#include "tests/fakes/temporary_folder.h"

namespace tenon::model::model_file_test {
namespace {

using data::JoinPath;
using sdk::WireWriter;

std::string Graph() {
  WireWriter node, graph;
  node.Bytes(1, "x");
  node.Bytes(2, "Placeholder");
  graph.Bytes(1, node.bytes());
  return graph.bytes();
}

std::string MetaGraphWith(const std::string& tag) {
  WireWriter info, x, y, entry, signature, signature_entry, saver, asset, asset_tensor, meta;
  info.Bytes(4, tag);
  info.Bytes(5, "2.21.0");
  meta.Bytes(1, info.bytes());
  meta.Bytes(2, Graph());
  saver.Bytes(1, "saver_filename:0");
  saver.Bytes(3, "restore");
  meta.Bytes(3, saver.bytes());
  WireWriter dim, shape;
  dim.Varint(1, static_cast<uint64_t>(-1));
  shape.Bytes(2, dim.bytes());
  x.Bytes(1, "x:0");
  x.Varint(2, 1);
  x.Bytes(3, shape.bytes());
  entry.Bytes(1, "features");
  entry.Bytes(2, x.bytes());
  signature.Bytes(1, entry.bytes());
  signature.Bytes(3, "tensorflow/serving/predict");
  signature_entry.Bytes(1, "serving_default");
  signature_entry.Bytes(2, signature.bytes());
  meta.Bytes(5, signature_entry.bytes());
  return meta.bytes();
}

std::string SavedModel() {
  WireWriter model;
  model.Varint(1, 1);
  model.Bytes(2, MetaGraphWith("train"));
  model.Bytes(2, MetaGraphWith("serve"));
  return model.bytes();
}

class Files : public testing::Test {
 protected:
  std::string Write(const std::string& name, std::string_view bytes) {
    const std::string path = JoinPath(folder_, name);
    EXPECT_TRUE(data::ReplaceFile(path, {bytes}).ok());
    return path;
  }
  static void ExpectTheGraph(const Result<ModelFile>& file) {
    ASSERT_TRUE(file.ok()) << file.status();
    const auto graph = data::ParseGraphDef(file->graph_def());
    ASSERT_TRUE(graph.ok()) << graph.status();
    ASSERT_EQ(graph->nodes.size(), 1u);
    EXPECT_EQ(graph->nodes[0].op, "Placeholder");
  }
  const std::string folder_ = fakes::TemporaryFolder("model_files");
};

TEST_F(Files, AreToldByTheirBytes) {
  const Result<ModelFile> graph = ModelFile::Open(Write("a.pb", Graph()));
  ExpectTheGraph(graph);
  EXPECT_EQ(graph->form(), Form::kGraphDef);
  const Result<ModelFile> meta = ModelFile::Open(Write("b.pb", MetaGraphWith("serve")));
  ExpectTheGraph(meta);
  EXPECT_EQ(meta->form(), Form::kMetaGraph);
  EXPECT_EQ(meta->checkpoint(), "");
  const Result<ModelFile> model = ModelFile::Open(Write("saved_model.pb", SavedModel()));
  ExpectTheGraph(model);
  EXPECT_EQ(model->form(), Form::kSavedModel);
  EXPECT_EQ(model->folder(), folder_);
  const Result<ModelFile> folder = ModelFile::Open(folder_);
  ExpectTheGraph(folder);
  EXPECT_EQ(folder->meta().tags, std::vector<std::string>{"serve"});
}

TEST_F(Files, HaveWhatSurroundsTheGraph) {
  const Result<ModelFile> file = ModelFile::Open(Write("saved_model.pb", SavedModel()));
  ASSERT_TRUE(file.ok()) << file.status();
  const MetaGraph& meta = file->meta();
  EXPECT_EQ(meta.tensorflow_version, "2.21.0");
  EXPECT_EQ(meta.saver.filename_tensor, "saver_filename:0");
  EXPECT_EQ(meta.saver.restore_op, "restore");
  const Signature* signature = meta.FindSignature("serving_default");
  ASSERT_NE(signature, nullptr);
  EXPECT_EQ(signature->method, "tensorflow/serving/predict");
  const TensorInfo* x = signature->FindInput("features");
  ASSERT_NE(x, nullptr);
  EXPECT_EQ(x->tensor, "x:0");
  EXPECT_EQ(x->dtype, DType::kFloat);
  EXPECT_EQ(x->shape.dims(), std::vector<int64_t>{-1});
}

TEST_F(Files, MayBeText) {
  ExpectTheGraph(ModelFile::Open(Write("graph.pbtxt", "node { name: 'x' op: 'Placeholder' }")));
  const Result<ModelFile> meta =
      ModelFile::Open(Write("other", "meta_info_def { tags: 'a' } graph_def { node { name: 'x' op: 'Placeholder' } }"));
  ExpectTheGraph(meta);
  EXPECT_EQ(meta->form(), Form::kMetaGraph);
  const Result<ModelFile> model = ModelFile::Open(Write("saved_model.pbtxt", R"(
    saved_model_schema_version: 1
    meta_graphs { meta_info_def { tags: "serve" } graph_def { node { name: "x" op: "Placeholder" } } object_graph_def { nodes { } } })"));
  ExpectTheGraph(model);
  EXPECT_EQ(model->notes(), std::vector<std::string>{"field 'object_graph_def' of MetaGraphDef is passed over"});
  ExpectTheGraph(ModelFile::Open(folder_));
}

TEST_F(Files, OfAMetaGraphHaveTheirCheckpointBesideThem) {
  const std::string path = Write("model.ckpt-7.meta", MetaGraphWith("serve"));
  EXPECT_EQ(ModelFile::Open(path)->checkpoint(), "");
  Write("model.ckpt-7.index", "");
  EXPECT_EQ(ModelFile::Open(path)->checkpoint(), JoinPath(folder_, "model.ckpt-7"));
}

TEST_F(Files, ThatAreNoneAreErrorsThatSaySo) {
  EXPECT_EQ(ModelFile::Open(JoinPath(folder_, "none.pb")).status().code(), Code::kNotFound);
  EXPECT_EQ(ModelFile::Open(folder_).status().message(),
            "'" + folder_ +
                "' is a folder without saved_model.pb or saved_model.pbtxt; name a SavedModel's folder, or a file");
  const std::string text = Write("bad.pbtxt", "node {\n  name: x }");
  EXPECT_EQ(ModelFile::Open(text).status().message(), "'" + text + "': line 2, column 9: expected a string, found 'x'");
  WireWriter empty;
  empty.Varint(1, 1);
  empty.Bytes(2, MetaGraphWith("serve") + "\x0a\xff");
  const std::string damaged = Write("saved_model.pb", empty.bytes());
  EXPECT_EQ(ModelFile::Open(damaged).status().message(),
            "'" + damaged + "': the bytes are no MetaGraphDef, or damaged");
}

}  // namespace
}  // namespace tenon::model::model_file_test
