// SPDX-License-Identifier: Apache-2.0
// `tenon run --freeze`, through the program itself: the same values, no variable in the step, and what it refuses.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "sdk/app/cli/program.h"
#include "tenon/data/file.h"
#include "tenon/data/npy.h"
#include "tenon/tenon.h"
#include "tests/fakes/temporary_folder.h"

namespace tenon::cli::freeze_command_test {
namespace {

using host::DType;
using host::Output;
using host::Tensor;

class FreezeCommand : public testing::Test {
 protected:
  // y = x v, and a step that adds to v.
  void SetUp() override {
    const auto runtime = host::Runtime::Create();
    ASSERT_TRUE(runtime.ok()) << runtime.status();
    host::Graph graph(*runtime);
    const Output v =
        graph.Op("VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", host::Shape{2}}, {"shared_name", "v"}}, "v");
    graph.AddNode("AssignVariableOp", {v, graph.Const({3.0f, 5.0f})}, {}, "init");
    graph.AddNode("AssignAddVariableOp", {v, graph.Const({1.0f, 1.0f})}, {}, "add");
    const Output read = graph.Op("ReadVariableOp", {v}, {{"dtype", DType::kFloat}}, "read");
    graph.Op("Mul", {graph.Placeholder("x", DType::kFloat, {2}), read}, {}, "y");
    const auto bytes = graph.Export();
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    ASSERT_TRUE(data::ReplaceFile(folder_ + "/graph.pb", {*bytes}).ok());
    ASSERT_TRUE(data::WriteNpy(folder_ + "/x.npy", *Tensor::From(std::vector<float>{2, 2}, {2})).ok());
  }
  Outcome Tenon(const std::string& arguments) const {
    return RunTenon(folder_, "run graph.pb --init init " + arguments);
  }
  const std::string folder_ = fakes::TemporaryFolder("freeze");
};

TEST_F(FreezeCommand, TakesVariablesForConstants) {
  for (const bool frozen : {false, true}) {
    const Outcome run =
        Tenon(std::string("--feed x=x.npy --fetch y=y.npy --repeat 3 --explain --json") + (frozen ? " --freeze" : ""));
    ASSERT_EQ(run.code, 0) << run.err;
    bool reads = false;
    const auto found = nlohmann::json::parse(run.out);
    for (const auto& node : found["explain"]) reads = reads || node["op"] == "ReadVariableOp";
    EXPECT_EQ(reads, !frozen) << run.out;
    const auto y = data::ReadNpy(folder_ + "/y.npy");
    ASSERT_TRUE(y.ok()) << y.status();
    EXPECT_EQ(y->data<float>()[0], 6);
    EXPECT_EQ(y->data<float>()[1], 10);
  }
}

TEST_F(FreezeCommand, RefusesWhatWritesAndClusters) {
  const Outcome writes = Tenon("--target add --freeze");
  EXPECT_EQ(writes.code, 1);
  for (const char* part : {"'add'", "'v'", "the session is frozen"})
    EXPECT_NE(writes.err.find(part), std::string::npos) << writes.err;
  const Outcome cluster = Tenon("--feed x=x.npy --fetch y --freeze --master grpc://localhost:1");
  EXPECT_EQ(cluster.code, 2);
  EXPECT_NE(cluster.err.find("--freeze"), std::string::npos) << cluster.err;
}

}  // namespace
}  // namespace tenon::cli::freeze_command_test
