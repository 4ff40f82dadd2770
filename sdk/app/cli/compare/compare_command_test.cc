// SPDX-License-Identifier: Apache-2.0
// `tenon compare`, `tenon reset` and --check-numerics, through the program itself. Covers R10, R11.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sdk/app/cli/program.h"
#include "tenon/data/file.h"
#include "tenon/data/npy.h"
#include "tenon/data/npz.h"
#include "tenon/tenon.h"
#include "tests/fakes/temporary_folder.h"

namespace tenon::cli::compare_command_test {
namespace {

using host::DType;
using host::Graph;
using host::Output;
using host::Runtime;
using host::Tensor;
using Json = nlohmann::json;

class Compare : public testing::Test {
 protected:
  // y = relu(x w), its logarithm, and how often it is the largest, beside a loop that triples a number.
  static void SetUpTestSuite() {
    folder_ = fakes::TemporaryFolder("compare");
    const auto runtime = Runtime::Create();
    ASSERT_TRUE(runtime.ok()) << runtime.status();
    Graph graph(*runtime);
    const Output x = graph.Placeholder("x", DType::kFloat, {4, 8});
    std::vector<float> weights;
    for (int i = 0; i < 8 * 8; ++i) weights.push_back(0.3f + 0.01f * static_cast<float>(i * 7 % 13));
    const Output product = graph.Op("MatMul", {x, graph.Const(weights, {8, 8})}, {}, "product");
    const Output y = graph.Op("Relu", {product}, {}, "y");
    graph.Op("Log", {y}, {}, "log");
    graph.Op("ArgMax", {y, graph.Const(1)}, {}, "largest");
    const auto last = host::While(
        graph, {graph.Const(0), graph.Op("Sum", {y, graph.Const({0, 1})}, {}, "sum")},
        {graph.Const(3.0f), graph.Const(1), graph.Const(4)},
        [&](const auto& v) {
          return graph.Op("Less", {v[0], v[4]});
        },
        [&](const auto& v) {
          return std::vector<Output>{graph.Op("AddV2", {v[0], v[3]}), graph.Op("Mul", {v[1], v[2]}, {}, "tripled")};
        });
    graph.Op("Identity", {last[1]}, {}, "end");
    const auto bytes = graph.Export();
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    ASSERT_TRUE(data::ReplaceFile(At("graph.pb"), {*bytes}).ok());
    std::vector<float> values;
    for (int i = 0; i < 4 * 8; ++i) values.push_back(static_cast<float>(i % 5) + 0.125f);
    ASSERT_TRUE(data::WriteNpy(At("x.npy"), *Tensor::From(values, {4, 8})).ok());
    values[9] = -1e6f;
    ASSERT_TRUE(data::WriteNpy(At("low.npy"), *Tensor::From(values, {4, 8})).ok());
  }
  static std::string At(const std::string& name) { return folder_ + "/" + name; }
  static Outcome Tenon(const std::string& arguments) { return RunTenon(folder_, arguments); }
  static void ExpectHas(const std::string& text, const std::string& part) {
    EXPECT_NE(std::string::npos, text.find(part)) << "'" << part << "' is not in: " << text;
  }

  static inline std::string folder_;
};

constexpr const char* kCompare = "compare graph.pb --feed x=x.npy --fetch log --fetch largest --fetch end ";

TEST_F(Compare, ARunIsEqualToItself) {
  const Outcome same = Tenon(std::string(kCompare) + "--against /device:CPU:0");
  EXPECT_EQ(same.code, 0) << same.err;
  ExpectHas(same.out, " equal, 0 differ as rounding explains, 0 part\n");
}

TEST_F(Compare, ADeviceThatRoundsMoreIsNamedWhereItFirstDoes) {
  const std::string device =
      "--against /device:TPU:0 --option tenon.tpu_sim.devices=1 --option tenon.tpu_sim.precision=";
  const Outcome exact = Tenon(kCompare + device + "exact --json");
  EXPECT_EQ(exact.code, 0) << exact.err << exact.out;
  const Outcome rough = Tenon(kCompare + device + "bfloat16 --json");
  EXPECT_EQ(rough.code, 1);
  ExpectHas(rough.err, "the runs part first at 'product' (MatMul)");
  bool product = false, tripled = false;
  const Json told = Json::parse(rough.out);
  for (const Json& value : told["values"]) {
    if (value["value"] == "product") {
      product = true;
      EXPECT_EQ(value["verdict"], "parts");
      EXPECT_GT(value["relative"].get<double>(), value["explained"].get<double>());
    }
    if (value["value"] == "y" || value["value"] == "log") {
      EXPECT_EQ(value["verdict"], "explained") << "by what came in: " << value;
    }
    tripled = tripled || value["op"] == "Mul";
  }
  EXPECT_TRUE(product && tripled) << rough.out;
  const Outcome allowed = Tenon(kCompare + device + "bfloat16 --precision bfloat16");
  EXPECT_EQ(allowed.code, 0) << allowed.err << allowed.out;
}

TEST_F(Compare, ValuesOfAFileAreHeldAgainstTheRun) {
  ASSERT_EQ(Tenon("run graph.pb --feed x=x.npy --fetch y=right.npz --fetch log=right.npz").code, 0);
  const Outcome right = Tenon(std::string(kCompare) + "--against right.npz --all");
  EXPECT_EQ(right.code, 0) << right.err;
  ExpectHas(right.out, "2 values: ");
  ExpectHas(right.out, "values have nothing of their name to be compared with");
  Tensor wrong = *data::ReadNpy(At("x.npy"));
  ASSERT_TRUE(data::WriteNpz(At("wrong.npz"), {{"y", wrong}}).ok());
  const Outcome told = Tenon(std::string(kCompare) + "--against wrong.npz");
  EXPECT_EQ(told.code, 1);
  ExpectHas(told.err, "the runs part first at 'y' (Relu): ");
  ASSERT_TRUE(data::WriteNpz(At("strange.npz"), {{"nobody", wrong}}).ok());
  const Outcome none = Tenon(std::string(kCompare) + "--against strange.npz");
  EXPECT_EQ(none.code, 1);
  ExpectHas(none.err, "no value has the name of one in 'strange.npz'");
  ASSERT_TRUE(data::WriteNpz(At("large.npz"), {{"y", *Tensor::Zeros(DType::kFloat, {2})}}).ok());
  ExpectHas(Tenon(std::string(kCompare) + "--against large.npz").err, "float32[4,8] instead of float32[2]");
}

TEST_F(Compare, WhatIsWrongIsSaid) {
  EXPECT_EQ(Tenon("compare graph.pb --feed x=x.npy --fetch y").code, 2) << "against what?";
  EXPECT_EQ(Tenon("compare graph.pb --feed x=x.npy --against /device:CPU:0").code, 2) << "what of it?";
  const Outcome device = Tenon(std::string(kCompare) + "--against /device:ABACUS:0");
  EXPECT_EQ(device.code, 1);
  ExpectHas(device.err, "ABACUS");
  const Outcome kept = Tenon(std::string(kCompare) + "--against /device:CPU:0 --keep 100");
  EXPECT_EQ(kept.code, 1);
  ExpectHas(kept.err, "--keep");
}

TEST_F(Compare, ChecksNumbers) {
  const Outcome fine = Tenon("run graph.pb --feed x=x.npy --fetch log --check-numerics");
  EXPECT_EQ(fine.code, 0) << fine.err;
  const Outcome low = Tenon("run graph.pb --feed x=low.npy --fetch log --check-numerics");
  EXPECT_EQ(low.code, 1);
  ExpectHas(low.err, "node 'log' (Log) made 8 infinities: output 0, float[4,8], the first at [1,0]");
  EXPECT_EQ(Tenon("run graph.pb --feed x=low.npy --fetch log").code, 0);
}

TEST_F(Compare, ResetWantsACluster) {
  const Outcome alone = Tenon("reset");
  EXPECT_EQ(alone.code, 2);
  ExpectHas(alone.err, "--master");
}

}  // namespace
}  // namespace tenon::cli::compare_command_test
