// SPDX-License-Identifier: Apache-2.0
// Conditionals and loops over functions, and tensor arrays in frames, as TensorFlow wrote them, against what TensorFlow
// computed: values, gradients, the order of effects. Covers B8, B14, K6, K7, L9, Q1.
#include <map>
#include <nlohmann/json.hpp>

#include "tests/engine/engine.h"
#include "tests/golden/read_file.h"

namespace tenon::engine {
namespace {

const nlohmann::json& GoldenOf(const std::string& file) {
  static std::map<std::string, nlohmann::json> golden;
  nlohmann::json& found = golden[file];
  if (found.is_null()) found = nlohmann::json::parse(ReadFile(file + ".json"));
  return found;
}

struct CaseName {
  std::string file, name;
};

class ControlFlow : public ::testing::TestWithParam<CaseName> {
 protected:
  ControlFlow() : graph_(Graph::Import(TheRuntime(), ReadFile(GetParam().file + ".pb"))) {}

  static const nlohmann::json& Golden() { return GoldenOf(GetParam().file); }

  Output Of(const std::string& name) {
    auto node = graph_->Find(name);
    EXPECT_TRUE(node.ok()) << node.status().message();
    return Output(*node);
  }
  static Tensor Vector(const std::string& name) {
    return *Tensor::From(Golden()["feeds"][name].get<std::vector<double>>(), Shape{3});
  }
  // The y of each step, and whatever else is asked for.
  template <class Check>
  void EachStep(const std::vector<Name>& fetches, bool dynamic, Check check) {
    SessionOptions options;
    options.executor = dynamic ? TENON_EXECUTOR_DYNAMIC : TENON_EXECUTOR_AUTO;
    auto session = Session::Create(TheRuntime(), *graph_, options);
    ASSERT_TRUE(session.ok()) << session.status().message();
    const Status initialized = session->RunTargets({Golden()["initialize"].get<std::string>()});
    ASSERT_TRUE(initialized.ok()) << initialized.message();
    for (const auto& step : Golden()["steps"]) {
      auto values = session->Run(
          {{"x:0", Vector("x")}, {"w:0", Vector("w")}, {"n:0", *Tensor::Scalar(step["n"].get<int32_t>())}}, fetches);
      ASSERT_TRUE(values.ok()) << "n = " << step["n"] << ": " << values.status().message();
      check(*values, step["found"][GetParam().name],
            (dynamic ? "dynamic, n = " : "straight, n = ") + std::to_string(step["n"].get<int>()));
    }
  }

  Result<Graph> graph_;
};

TEST_P(ControlFlow, GivesTensorFlowsValues) {
  ASSERT_TRUE(graph_.ok()) << graph_.status().message();
  for (const bool dynamic : {false, true})
    EachStep({"y_" + GetParam().name + ":0"}, dynamic,
             [](const std::vector<Tensor>& values, const nlohmann::json& want, const std::string& where) {
               EXPECT_NEAR(values[0].scalar<double>(), want["y"].get<double>(), 1e-12) << where;
             });
}

TEST_P(ControlFlow, HasTensorFlowsGradients) {
  ASSERT_TRUE(graph_.ok()) << graph_.status().message();
  const auto gradients = graph_->Gradients({Of("y_" + GetParam().name)}, {Of("x"), Of("w")});
  ASSERT_TRUE(graph_->status().ok()) << graph_->status().message();
  std::vector<Name> fetches = {"y_" + GetParam().name + ":0"};
  for (const auto& gradient : gradients) fetches.push_back(gradient.dense);
  for (const bool dynamic : {false, true})
    EachStep(fetches, dynamic,
             [](const std::vector<Tensor>& values, const nlohmann::json& want, const std::string& where) {
               EXPECT_NEAR(values[0].scalar<double>(), want["y"].get<double>(), 1e-12) << where;
               for (size_t i = 0; i < 2; ++i) {
                 const auto wanted = want["gradients"][i == 0 ? "x" : "w"].get<std::vector<double>>();
                 const auto found = Values<double>(values[i + 1]);
                 ASSERT_EQ(found.size(), wanted.size()) << where;
                 for (size_t k = 0; k < wanted.size(); ++k)
                   EXPECT_NEAR(found[k], wanted[k], 1e-11 * std::max(1.0, std::abs(wanted[k])))
                       << where << ", gradient " << i << "[" << k << "]";
               }
             });
}

// Gradients of functions, calls on devices, conditions that are no bool: what TensorFlow has no gradient of itself.
class CallForms : public ControlFlow {};

TEST_P(CallForms, GiveTensorFlowsValues) {
  ASSERT_TRUE(graph_.ok()) << graph_.status().message();
  for (const bool dynamic : {false, true})
    EachStep({"y_" + GetParam().name + ":0"}, dynamic,
             [](const std::vector<Tensor>& values, const nlohmann::json& want, const std::string& where) {
               EXPECT_NEAR(values[0].scalar<double>(), want["y"].get<double>(),
                           1e-12 * std::max(1.0, std::abs(want["y"].get<double>())))
                   << where;
             });
}

std::vector<CaseName> Cases(std::initializer_list<const char*> files) {
  std::vector<CaseName> names;
  for (const char* file : files)
    for (const auto& [name, found] : GoldenOf(file)["steps"][0]["found"].items()) names.push_back({file, name});
  return names;
}

INSTANTIATE_TEST_SUITE_P(Of, ControlFlow, ::testing::ValuesIn(Cases({"control_flow", "tensor_array", "tensor_list"})),
                         [](const auto& info) { return info.param.file + "_" + info.param.name; });
INSTANTIATE_TEST_SUITE_P(Of, CallForms, ::testing::ValuesIn(Cases({"call_forms"})),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tenon::engine
