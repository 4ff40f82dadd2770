// SPDX-License-Identifier: Apache-2.0
// Records of some 105 bytes, from a file into tensors: raw, and parsed as Examples, a batch a step; `taskset -c 1` for
// one core.
//
// A record is an Example of 60 small integers, a label and a weight. tf.data's rates, measured beside it, stand in
// FIGURES.md.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tenon/bytes/crc32c.h"
#include "tenon/bytes/wire.h"
#include "tenon/tenon.h"

namespace tenon {
namespace {

using namespace host;  // NOLINT: a benchmark of the face

constexpr int kRecords = 204'800;

std::string Field(uint32_t number, std::string_view bytes) {
  sdk::WireWriter w;
  w.Bytes(number, bytes);
  return w.bytes();
}

std::string Record() {
  std::string image;
  for (char i = 0; i < 60; ++i) image += i;
  const float one = 1;
  const auto entry = [](std::string_view key, const std::string& feature) {
    return Field(1, Field(1, key) + Field(2, feature));
  };
  return Field(1,
               entry("image", Field(3, Field(1, image))) + entry("label", Field(3, Field(1, "\3"))) +
                   entry("w", Field(2, Field(1, std::string_view(reinterpret_cast<const char*>(&one), sizeof one)))));
}

// A file of records, gone with it.
struct RecordFile {
  RecordFile()
      : path((std::filesystem::temp_directory_path() / ("records_bench_" + std::to_string(getpid()))).string()) {
    const std::string data = Record();
    std::string record;
    sdk::PutFixed64(record, data.size());
    sdk::PutFixed32(record, sdk::MaskCrc32c(sdk::Crc32c(record)));
    record += data;
    sdk::PutFixed32(record, sdk::MaskCrc32c(sdk::Crc32c(data)));
    std::ofstream file(path, std::ios::binary);
    for (int i = 0; i < kRecords; ++i) file << record;
  }
  ~RecordFile() { std::filesystem::remove(path); }
  const std::string path;
};

// Names of the file through a queue, a reader, and what parses a batch of its records.
struct Pipeline {
  Pipeline(const std::string& path, int64_t batch) : graph(TheRuntime()) {
    const Output queue = graph.Op("FIFOQueueV2", {}, {{"component_types", std::vector<DType>{DType::kString}}});
    graph.AddNode("QueueEnqueueV2", {queue, graph.StringConst(path)}, {}, "put");
    const Output reader = graph.Op("TFRecordReaderV2", {}, {});
    const Operation read = graph.AddNode("ReaderReadUpToV2", {reader, queue, graph.Const(batch)}, {}, "read");
    const Output none = graph.StringConst(std::vector<std::string>());
    const Output no_number = graph.Const(std::vector<int64_t>(), Shape{0}),
                 no_weight = graph.Const(std::vector<float>(), Shape{0});
    graph.AddNode(
        "ParseExampleV2",
        {Output(read.graph(), read.node(), 1), none, none,
         graph.StringConst(std::vector<std::string>{"image", "label", "w"}), none, no_number, no_number, no_weight},
        {{"num_sparse", int64_t{0}},
         {"sparse_types", std::vector<DType>()},
         {"ragged_value_types", std::vector<DType>()},
         {"ragged_split_types", std::vector<DType>()},
         {"dense_shapes", std::vector<Shape>{{60}, Shape(), Shape()}}},
        "parse");
    auto opened = Session::Create(TheRuntime(), graph);
    if (opened.ok()) session = std::make_unique<Session>(std::move(*opened));
    else problem = opened.status().message();
  }
  static Runtime& TheRuntime() {
    static Runtime* const runtime = new Runtime(*Runtime::Create());
    return *runtime;
  }
  Graph graph;
  std::unique_ptr<Session> session;
  std::string problem;
};

// fetches: of each step. A step has as many records as it asks for, but for the last of a file.
void Read(benchmark::State& state, const std::vector<Name>& fetches) {
  static const RecordFile file;
  const int64_t batch = state.range(0);
  Pipeline pipeline(file.path, batch);
  int64_t read = 0, named = 0;
  for (auto _ : state) {
    if (pipeline.problem.empty() && named * kRecords - read < 2 * batch) {  // before it would wait
      if (const Status put = pipeline.session->RunTargets({"put"}); !put.ok()) pipeline.problem = put.message();
      ++named;
    }
    if (!pipeline.problem.empty()) return state.SkipWithError(pipeline.problem.c_str());
    const auto values = pipeline.session->Run({}, fetches);
    if (values.ok()) read += (*values)[0].shape()[0];
    else pipeline.problem = values.status().message();
  }
  state.SetItemsProcessed(read);
}
void Raw(benchmark::State& state) { Read(state, {"read:1"}); }
void Parsed(benchmark::State& state) { Read(state, {"parse:0", "parse:1", "parse:2"}); }
BENCHMARK(Raw)->Arg(1)->Arg(128)->Arg(1024)->UseRealTime();
BENCHMARK(Parsed)->Arg(128)->Arg(1024)->UseRealTime();

}  // namespace
}  // namespace tenon

BENCHMARK_MAIN();
