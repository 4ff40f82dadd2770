// SPDX-License-Identifier: Apache-2.0
// Tables that are filled from text files, and what tables refuse. What else they do stands in tests/golden.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/engine/engine.h"

namespace tenon::engine::lookup_test {
namespace {

class Lookup : public ::testing::Test {
 protected:
  Lookup() : path_((std::filesystem::path(::testing::TempDir()) / ("lookup_" + std::to_string(::getpid()))).string()) {}
  ~Lookup() override { std::filesystem::remove(path_); }

  // From words to their lines' numbers, unless the attributes say otherwise.
  Status Fill(const std::string& text, Attrs attrs = {}, DType key = DType::kString, DType value = DType::kInt64) {
    std::ofstream(path_, std::ios::binary) << text;
    graph_ = std::make_unique<Graph>(TheRuntime());
    table_ = graph_->Op("HashTableV2", {}, {{"key_dtype", key}, {"value_dtype", value}}, "words");
    if (attrs.empty()) attrs = {{"key_index", int64_t{-2}}, {"value_index", int64_t{-1}}};
    graph_->AddNode("InitializeTableFromTextFileV2", {table_, graph_->StringConst(path_)}, attrs, "fill");
    session_ = Session::Create(TheRuntime(), *graph_);
    return session_.ok() ? session_->RunTargets({"fill"}) : session_.status();
  }
  // What is not there is -7.
  template <class V = int64_t>
  std::vector<V> Find(const Output& keys) {
    const Output found = graph_->Op("LookupTableFindV2", {table_, keys, graph_->Const(V{-7})});
    EXPECT_TRUE(session_->Extend(*graph_).ok());
    auto values = session_->Run({}, {found});
    EXPECT_TRUE(values.ok()) << values.status().message();
    return values.ok() ? Values<V>((*values)[0]) : std::vector<V>();
  }
  void ExpectRefusal(const Status& status, const std::string& why) {
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_NE(status.message().find(why), std::string::npos) << status.message();
  }

  const std::string path_;
  std::unique_ptr<Graph> graph_;
  Output table_;
  Result<Session> session_ = Status(Code::kInternal, "none");
};

TEST_F(Lookup, WordsHaveTheNumbersOfTheirLines) {
  const Status filled = Fill("zero\r\none\ntwo");
  ASSERT_TRUE(filled.ok()) << filled.message();
  EXPECT_EQ(Find(graph_->StringConst(std::vector<std::string>{"two", "zero", "three"})),
            (std::vector<int64_t>{2, 0, -7}));
}

TEST_F(Lookup, ColumnsAreReadAsTheTypesOfTheTable) {
  const Status filled =
      Fill("a,1,2.5\nb,-3,4\n", {{"key_index", int64_t{1}}, {"value_index", int64_t{2}}, {"delimiter", ","}},
           DType::kInt32, DType::kFloat);
  ASSERT_TRUE(filled.ok()) << filled.message();
  EXPECT_EQ(Find<float>(graph_->Const({-3, 1, 2})), (std::vector<float>{4, 2.5, -7}));
}

TEST_F(Lookup, AsManyLinesAreReadAsAskedFor) {
  const Attrs three = {{"key_index", int64_t{-2}}, {"value_index", int64_t{-1}}, {"vocab_size", int64_t{3}}};
  ExpectRefusal(Fill("a\nb\n", three), "has 2 lines; vocab_size asks for 3");
  ASSERT_TRUE(Fill("a\nb\nc\nd\n", three).ok());
  EXPECT_EQ(Find(graph_->StringConst(std::vector<std::string>{"c", "d"})), (std::vector<int64_t>{2, -7}));
}

TEST_F(Lookup, ALineThatDoesNotFitIsNamed) {
  const Attrs second = {{"key_index", int64_t{0}}, {"value_index", int64_t{1}}};
  ExpectRefusal(Fill("a\t1\nb\n", second), "line 2: it has 1 columns; column 1 is asked for");
  ExpectRefusal(Fill("a\t1\nb\tx1\n", second), "line 2: 'x1' is no int64");
  ExpectRefusal(Fill("a\n\nb\n"), "line 2: it is empty");
  ExpectRefusal(Fill("a\na\n"), "key 1 stands there before, with another value");
}

TEST_F(Lookup, ATableThatNobodyFilledDoesNotAnswer) {
  ASSERT_TRUE(Fill("a\n").ok());
  const Output other =
      graph_->Op("HashTableV2", {}, {{"key_dtype", DType::kString}, {"value_dtype", DType::kInt64}}, "other");
  const Output found = graph_->Op("LookupTableFindV2", {other, graph_->StringConst("a"), graph_->Const(int64_t{0})});
  ASSERT_TRUE(session_->Extend(*graph_).ok());
  const Status status = session_->Run({}, {found}).status();
  EXPECT_EQ(status.code(), Code::kFailedPrecondition);
  EXPECT_NE(status.message().find("table 'other': it was not initialised"), std::string::npos) << status.message();
}

TEST_F(Lookup, FloatsAreNoKeys) {
  const Status status = Fill("a\n", {}, DType::kFloat);
  EXPECT_EQ(status.code(), Code::kUnimplemented) << status.message();
}

}  // namespace
}  // namespace tenon::engine::lookup_test
