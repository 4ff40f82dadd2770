// SPDX-License-Identifier: Apache-2.0
#include "tenon/model/file_guard.h"

#include <gtest/gtest.h>

#include "tenon/model/text_format.h"
#include "tests/engine/engine.h"

namespace tenon::model::file_guard_test {
namespace {

using engine::TheRuntime;

// What becomes of the graph's node "go" when "path" is fed with a path of the caller's. Every graph has the nodes path,
// constant and names.
Status Check(const std::string& text, const std::vector<std::string>& trusted = {"path:0"}) {
  const std::string all = R"(
      node { name: "path" op: "Placeholder" attr { key: "dtype" value { type: DT_STRING } } }
      node { name: "constant" op: "Const" }
      node { name: "names" op: "Const" })" + text;
  const Result<WireMessage> wire = TextToWire(all, "GraphDef");
  EXPECT_TRUE(wire.ok()) << wire.status();
  const Result<GraphIndex> index = GraphIndex::Build(wire->bytes);
  EXPECT_TRUE(index.ok()) << index.status();
  return CheckFiles(TheRuntime(), *index, {"path"}, trusted, {"go"});
}

std::string Restore(const std::string& name, const std::string& path) {
  return "node { name: '" + name + "' op: 'RestoreV2' input: ['" + path + "', 'names', 'names'] } ";
}

// A function `f` of one argument `a` that restores from `path`, and nodes around it.
std::string Function(const std::string& path, const std::string& around, const std::string& more = "") {
  return "library { function { signature { name: 'f' input_arg { name: 'a' type: DT_STRING } } "
         "node_def { name: 'names' op: 'Const' } " +
         more + "node_def { name: 'restore' op: 'RestoreV2' input: ['" + path +
         "', 'names:output:0', 'names:output:0'] } } } " + around;
}

void ExpectRefused(const Status& status, const std::string& part) {
  EXPECT_EQ(status.code(), Code::kPermissionDenied) << status;
  EXPECT_NE(status.message().find(part), std::string::npos) << status;
}

TEST(FileGuard, TrustsWhatTheCallerFeeds) {
  EXPECT_TRUE(Check(Restore("go", "path")).ok());
  EXPECT_TRUE(Check(Restore("go", "path:0")).ok());
  EXPECT_TRUE(Check(Restore("go", "same") + "node { name: 'same' op: 'Identity' input: 'path' }").ok());
  ExpectRefused(Check(Restore("go", "path"), {}),
                "node 'go' (RestoreV2) would touch a file whose path ('prefix') the graph chose");
}

TEST(FileGuard, RefusesPathsOfTheGraphsOwn) {
  ExpectRefused(Check(Restore("go", "constant")), "node 'go' (RestoreV2)");
  ExpectRefused(Check(Restore("go", "joined") + "node { name: 'joined' op: 'StringJoin' input: ['path', 'constant'] }"),
                "node 'go'");
  ExpectRefused(Check("node { name: 'go' op: 'MergeV2Checkpoints' input: ['path', 'constant'] }"),
                "('destination_prefix')");
  ExpectRefused(Check("node { name: 'go' op: 'NoOp' input: '^save' } node { name: 'save' op: 'SaveV2' input: "
                      "['constant', 'names', 'names'] }"),
                "node 'save' (SaveV2)");
  ExpectRefused(Check("node { name: 'go' op: 'RestoreV2' }"), "node 'go'");
  ExpectRefused(Check(Restore("go", "a") +
                      "node { name: 'a' op: 'Identity' input: 'b' } node { name: 'b' op: 'Identity' input: 'a' }"),
                "node 'go'");
}

TEST(FileGuard, KnowsFilesOfTheInputPackage) {
  EXPECT_TRUE(Check("node { name: 'go' op: 'ReadFile' input: 'path' }").ok());
  EXPECT_TRUE(Check("node { name: 'go' op: 'MatchingFiles' input: 'path' }").ok());
  EXPECT_TRUE(Check("node { name: 'go' op: 'WriteFile' input: ['path', 'constant'] }").ok());
  ExpectRefused(Check("node { name: 'go' op: 'ReadFile' input: 'constant' }"),
                "node 'go' (ReadFile) would touch a file whose path ('filename') the graph chose");
  ExpectRefused(Check("node { name: 'go' op: 'WriteFile' input: ['constant', 'path'] }"), "('filename')");
  ExpectRefused(Check("node { name: 'go' op: 'MatchingFiles' input: 'constant' }"), "('pattern')");
  // What a queue gives is what the graph put in, whoever chose it.
  const std::string nodes = "node { name: 'queue' op: 'FIFOQueueV2' } node { name: 'reader' op: 'TextLineReaderV2' } "
                            "node { name: 'put' op: 'QueueEnqueueV2' input: ['queue', 'constant'] } ";
  ExpectRefused(Check(nodes + "node { name: 'go' op: 'ReaderReadV2' input: ['reader', 'queue', '^put'] }"),
                "node 'go' (ReaderReadV2) would touch a file whose path ('queue_handle') the graph chose");
  ExpectRefused(Check(nodes + "node { name: 'go' op: 'NoOp' input: '^read' } node { name: 'read' op: "
                              "'ReaderReadUpToV2' input: ['reader', 'queue', 'names'] }"),
                "node 'read'");
  ExpectRefused(Check("node { name: 'queue' op: 'FIFOQueue' } node { name: 'reader' op: 'TextLineReader' } node { "
                      "name: 'go' op: 'ReaderRead' input: ['reader', 'queue'] }"),
                "(ReaderRead)");
  EXPECT_TRUE(Check(nodes + "node { name: 'go' op: 'NoOp' input: ['^reader', '^put'] }").ok()) << "nothing is read";
}

TEST(FileGuard, TakesAnEmptyConstantForNoFileWhereAnOpMayHaveNone) {
  const auto constant = [](const std::string& text) {
    return "node { name: 'file' op: 'Const' attr { key: 'dtype' value { type: DT_STRING } } attr { key: 'value' value "
           "{ tensor { dtype: DT_STRING tensor_shape { } " +
           text + " } } } } ";
  };
  const std::string cache = "node { name: 'go' op: 'CacheDatasetV2' input: ['path', 'file', 'path'] } ";
  EXPECT_TRUE(Check(cache + constant("string_val: ''"), {}).ok()) << "it is in memory";
  EXPECT_TRUE(Check(cache + constant(""), {}).ok());
  ExpectRefused(Check(cache + constant("string_val: 'etc'"), {}),
                "node 'go' (CacheDatasetV2) would touch a file whose path ('filename') the graph chose");
  ExpectRefused(Check(cache + constant("string_val: ['', 'etc']"), {}), "node 'go'");
  ExpectRefused(Check(cache + "node { name: 'file' op: 'Const' }", {}), "node 'go'");
  ExpectRefused(Check("node { name: 'go' op: 'ReadFile' input: 'file' } " + constant("string_val: ''"), {}),
                "node 'go'");
}

TEST(FileGuard, DoesNotMindWhatIsNotReached) {
  EXPECT_TRUE(Check(Restore("other", "constant") + "node { name: 'go' op: 'NoOp' }").ok());
  EXPECT_TRUE(Check(Restore("before", "constant") + "node { name: 'go' op: 'Identity' input: 'path' } ").ok());
  EXPECT_EQ(Check("").code(), Code::kNotFound) << "there is no node 'go'";
}

TEST(FileGuard, FollowsArgumentsIntoFunctions) {
  const std::string calls[] = {
      "node { name: 'go' op: 'f' input: '%' }",
      "node { name: 'go' op: 'StatefulPartitionedCall' input: '%' attr { key: 'f' value { func { name: 'f' } } } }",
      "node { name: 'go' op: 'If' input: ['names', '%'] attr { key: 'then_branch' value { func { name: 'f' } } } "
      "attr { key: 'else_branch' value { func { name: 'f' } } } }",
      "node { name: 'go' op: 'Case' input: ['names', '%'] attr { key: 'branches' value { list { func { name: 'f' } } } "
      "} }"};
  for (const std::string& call : calls) {
    const auto with = [&](const std::string& input) { return std::string(call).replace(call.find('%'), 1, input); };
    EXPECT_TRUE(Check(Function("a", with("path"))).ok()) << call;
    EXPECT_TRUE(
        Check(Function("same:output:0", with("path"), "node_def { name: 'same' op: 'Identity' input: 'a' } ")).ok())
        << call;
    ExpectRefused(Check(Function("a", with("constant"))), "node 'restore' (RestoreV2) in function 'f'");
    ExpectRefused(Check(Function("names:output:0", with("path"))), "node 'restore' (RestoreV2) in function 'f'");
  }
}

TEST(FileGuard, TrustsAnArgumentWhenEveryCallDoes) {
  const std::string two = Function(
      "a", "node { name: 'go' op: 'f' input: 'path' input: '^%' } node { name: 'again' op: 'f' input: 'constant' }");
  ExpectRefused(Check(std::string(two).replace(two.find('%'), 1, "again")), "in function 'f'");
  EXPECT_TRUE(Check(std::string(two).replace(two.find('%'), 1, "names")).ok());
}

TEST(FileGuard, FollowsAPathThroughAVariableThatNobodyElseWrites) {
  const auto graph = [](const std::string& value, const std::string& wait, const std::string& more) {
    return "node { name: 'v' op: 'VarHandleOp' } node { name: 'assign' op: 'AssignVariableOp' input: ['v', '" + value +
           "'] } "
           "node { name: 'read' op: 'ReadVariableOp' input: ['v', '" +
           wait + "'] } " + more + Restore("do", "read") + "node { name: 'go' op: 'NoOp' input: ['^do', '^assign'] }";
  };
  EXPECT_TRUE(Check(graph("path", "^assign", "")).ok());
  ExpectRefused(Check(graph("constant", "^assign", "")), "node 'do'");
  ExpectRefused(Check(graph("path", "^names", "")), "node 'do'");
  ExpectRefused(Check(graph("path", "^assign",
                            "node { name: 'other' op: 'VarHandleOp' attr { key: 'shared_name' value { s: 'v' } } }")),
                "node 'do'");
  ExpectRefused(
      Check("node { name: 'v' op: 'VarHandleOp' } node { name: 'assign' op: 'AssignVariableOp' input: ['v', 'path'] } "
            "node { name: 'second' op: 'AssignVariableOp' input: ['v', 'constant', '^assign'] } "
            "node { name: 'read' op: 'ReadVariableOp' input: ['v', '^assign', '^second'] } " +
            Restore("go", "read")),
      "node 'go'");
  ExpectRefused(
      Check("node { name: 'v' op: 'VarHandleOp' } node { name: 'assign' op: 'AssignVariableOp' input: ['v', 'path'] } "
            "node { name: 'same' op: 'Identity' input: 'v' } "
            "node { name: 'read' op: 'ReadVariableOp' input: ['v', '^assign', '^same'] } " +
            Restore("go", "read")),
      "node 'go'");
}

TEST(FileGuard, TrustsNothingInALoop) {
  ExpectRefused(
      Check(Function("a",
                     "node { name: 'go' op: 'While' input: 'path' attr { key: 'cond' value { func { name: 'f' } } } "
                     "attr { key: 'body' value { func { name: 'f' } } } }")),
      "in function 'f'");
}

TEST(FileGuard, EndsWhereFunctionsCallThemselves) {
  EXPECT_TRUE(Check("library { function { signature { name: 'f' input_arg { name: 'a' type: DT_STRING } } "
                    "node_def { name: 'n' op: 'f' input: 'a' } } } node { name: 'go' op: 'f' input: 'path' }").ok());
}

}  // namespace
}  // namespace tenon::model::file_guard_test
