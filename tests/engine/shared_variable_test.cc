// SPDX-License-Identifier: Apache-2.0
// Two variables of one name are one, of one type: what a graph from elsewhere says of it is refused where it is not so,
// before a byte is read.
#include "tests/engine/engine.h"

namespace tenon::engine::shared_variable_test {
namespace {

const std::vector<DType> kTypes = {DType::kFloat,  DType::kDouble,  DType::kInt64,   DType::kComplex128,
                                   DType::kString, DType::kVariant, DType::kResource};
const std::vector<std::string> kOps = {"VariableV2", "Variable", "VarHandleOp"};

Output Variable(Graph& g, const std::string& op, DType dtype, const std::string& name) {
  return g.Op(op, {}, {{"dtype", dtype}, {"shape", Shape{2}}, {"shared_name", "same"}}, name);
}

class SharedVariable : public testing::TestWithParam<uint32_t> {
 protected:
  // What reading the second variable says.
  Status Read(const std::string& first, DType is, const std::string& second, DType declared, bool frozen) {
    Graph g(TheRuntime());
    const Output a = Variable(g, first, is, "a"), b = Variable(g, second, declared, "b");
    if (first == "VarHandleOp") g.AddNode("VarIsInitializedOp", {a}, {}, "make");
    else g.AddNode("IsVariableInitialized", {a}, {}, "make");
    if (second == "VarHandleOp") g.Op("ReadVariableOp", {b}, {{"dtype", declared}}, "read");
    else g.Op("Identity", {b}, {}, "read");
    EXPECT_TRUE(g.status().ok()) << g.status();
    SessionOptions options;
    options.executor = GetParam();
    auto session = Session::Create(TheRuntime(), g, options);
    if (!session.ok()) return session.status();
    if (Status made = session->RunTargets({"make"}); !made.ok()) return made;
    if (frozen) {
      if (Status status = session->Freeze(); !status.ok()) return status;
    }
    return session->RunTargets({"read"});
  }
};

TEST_P(SharedVariable, OfAnotherTypeIsRefusedByName) {
  for (const DType is : kTypes)
    for (const DType declared : kTypes)
      for (const std::string& first : kOps)
        for (const std::string& second : kOps)
          for (const bool frozen : {false, true}) {
            const Status status = Read(first, is, second, declared, frozen);
            const bool refused = status.message().find("variable 'same' is asked for as a") != std::string::npos;
            EXPECT_EQ(refused, is != declared) << first << " " << second << ": " << status;
          }
}

INSTANTIATE_TEST_SUITE_P(By, SharedVariable, testing::Values(TENON_EXECUTOR_AUTO, TENON_EXECUTOR_DYNAMIC));

}  // namespace
}  // namespace tenon::engine::shared_variable_test
