// SPDX-License-Identifier: Apache-2.0
// Keras's recurrent layers as it exports them, and TensorFlow 1's cells under dynamic_rnn, against what TensorFlow
// computed: those that passes/recurrent knows are one node, the others the loops that they are. Covers
// N8.
#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/engine/engine.h"
#include "tests/golden/read_file.h"

namespace tenon::engine {
namespace {

struct Exported {
  const char* name;
  bool is_one_node;
  const char *graph = "recurrent_loops.pb", *values = "recurrent_loops.json", *letters = "yd";
};

class RecurrentLoops : public ::testing::TestWithParam<Exported> {};

Tensor TensorOf(const nlohmann::json& written) {
  return *Tensor::From(written["values"].get<std::vector<float>>(),
                       Shape(written["shape"].get<std::vector<int64_t>>()));
}

TEST_P(RecurrentLoops, GiveTensorFlowsValues) {
  const auto golden = nlohmann::json::parse(ReadFile(GetParam().values));
  const auto graph = Graph::Import(TheRuntime(), ReadFile(GetParam().graph));
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  auto session = Session::Create(TheRuntime(), *graph);
  ASSERT_TRUE(session.ok()) << session.status().message();
  for (const char letter : std::string(GetParam().letters)) {
    const std::string fetch = std::string(1, letter) + "_" + GetParam().name;
    auto callable = session->Prepare({"known:0", "x:0"}, {fetch + ":0"});
    ASSERT_TRUE(callable.ok()) << callable.status().message();
    for (const auto& step : golden["steps"]) {
      const Tensor known = TensorOf(step["feeds"]["known"]), x = TensorOf(step["feeds"]["x"]);
      auto found = callable->Run({known, x});
      ASSERT_TRUE(found.ok()) << fetch << ": " << found.status().message();
      const Tensor want = TensorOf(step["values"][fetch]);
      ASSERT_TRUE(want.shape() == (*found)[0].shape()) << fetch;
      const auto a = Values<float>(want), b = Values<float>((*found)[0]);
      for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 2e-6f) << fetch << " at " << i;
    }
    const std::string how = *callable->Explain();
    EXPECT_EQ(how.find("Tenon>LSTMLayer") != std::string::npos || how.find("Tenon>GRULayer") != std::string::npos,
              GetParam().is_one_node)
        << fetch;
  }
}

INSTANTIATE_TEST_SUITE_P(Keras, RecurrentLoops,
                         ::testing::Values(Exported{"lstm", true}, Exported{"lstm_last", true},
                                           Exported{"lstm_back", true}, Exported{"lstm_bare", true},
                                           Exported{"two", true}, Exported{"lstm_hard", false}, Exported{"gru", true},
                                           Exported{"gru_last", true}, Exported{"gru_back", true},
                                           Exported{"gru_bare", true}, Exported{"gru_before", true},
                                           Exported{"gru_before_last", true}, Exported{"gru_relu", false}),
                         [](const auto& info) { return std::string(info.param.name); });

std::vector<Exported> Tf1(const char* graph) {
  std::vector<Exported> all;
  for (const auto& [name, is_one_node] : {std::pair{"basic", true},
                                          {"forget", true},
                                          {"lstm", true},
                                          {"peepholes", false},
                                          {"gru", true},
                                          {"relu", false},
                                          {"two", false}})
    all.push_back({name, is_one_node, graph, "recurrent_tf1.json", "yds"});
  return all;
}
const auto name_of = [](const auto& info) { return std::string(info.param.name); };
INSTANTIATE_TEST_SUITE_P(Tf1OverLists, RecurrentLoops, ::testing::ValuesIn(Tf1("recurrent_tf1_lists.pb")), name_of);
INSTANTIATE_TEST_SUITE_P(Tf1OverArrays, RecurrentLoops, ::testing::ValuesIn(Tf1("recurrent_tf1_arrays.pb")), name_of);

}  // namespace
}  // namespace tenon::engine
