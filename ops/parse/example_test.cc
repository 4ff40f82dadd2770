// SPDX-License-Identifier: Apache-2.0
// Examples and SequenceExamples: what messages name, several threads' chunks, and what hostile bytes are answered with.
// What they hold stands in tests/golden.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "tenon/bytes/wire.h"
#include "tenon/testing/kernel_case.h"
#include "tenon/testing/linked.h"

namespace tenon::ops {
extern const tenon_kernel_registration kParseExampleV2Kernel, kParseSequenceExampleV2Kernel;
}  // namespace tenon::ops

namespace tenon::ops::example_test {
namespace {

using testing::Make;
using testing::Outcome;
using testing::Strings;
using testing::Tensor;
using testing::Texts;
using testing::Values;
using sdk::WireWriter;
using Shapes = std::vector<std::vector<int64_t>>;

std::string Field(uint32_t number, std::string_view bytes) {
  WireWriter w;
  w.Bytes(number, bytes);
  return w.bytes();
}
std::string Ints(const std::vector<int64_t>& values) {
  std::string packed;
  for (const int64_t value : values) sdk::PutVarint(packed, static_cast<uint64_t>(value));
  return Field(3, Field(1, packed));
}
std::string Floats(const std::vector<float>& values) {
  return Field(2,
               Field(1, std::string_view(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float))));
}
std::string Bytes(const std::vector<std::string>& values) {
  std::string list;
  for (const std::string& value : values) list += Field(1, value);
  return Field(1, list);
}
std::string Entry(const std::string& key, const std::string& value) {
  return Field(1, Field(1, key) + Field(2, value));
}

// A dense "d" of two floats, a sparse "s" of int64, a ragged "r" of strings, and a dense "v" of any number of int64.
class Examples : public ::testing::Test {
 protected:
  Outcome Parse(const std::vector<std::string>& messages, const std::vector<std::string>& names = {},
                bool single = false) {
    const Tensor serialized =
        single ? Strings({}, messages) : Strings({static_cast<int64_t>(messages.size())}, messages);
    const Tensor given = Strings({static_cast<int64_t>(names.size())}, names), s = Strings({1}, {"s"}),
                 r = Strings({1}, {"r"}), dv = Strings({2}, {"d", "v"});
    const Tensor none = Make<float>({0}, {}), pad = Make<int64_t>({}, {-1});
    testing::Node node = {"ParseExampleV2",
                          {{"num_sparse", 1}},
                          {},
                          {TENON_DT_INT64, TENON_DT_INT64, TENON_DT_INT64, TENON_DT_FLOAT, TENON_DT_INT64,
                           TENON_DT_STRING, TENON_DT_INT32}};
    node.attributes["sparse_types"] = std::vector<uint32_t>{TENON_DT_INT64};
    node.attributes["Tdense"] = std::vector<uint32_t>{TENON_DT_FLOAT, TENON_DT_INT64};
    node.attributes["ragged_value_types"] = std::vector<uint32_t>{TENON_DT_STRING};
    node.attributes["ragged_split_types"] = std::vector<uint32_t>{TENON_DT_INT32};
    node.attributes["dense_shapes"] = Shapes{{2}, {-1}};
    node.input_types = {TENON_DT_STRING, TENON_DT_STRING, TENON_DT_STRING, TENON_DT_STRING,
                        TENON_DT_STRING, TENON_DT_FLOAT,  TENON_DT_INT64};
    node.arguments["dense_defaults"] = {5, 2};
    return step_.Run(kParseExampleV2Kernel, node, {&serialized, &given, &s, &dv, &r, &none, &pad});
  }
  static std::string Good(int64_t i) {
    return Field(1, Entry("d", Floats({static_cast<float>(i), 0.5F})) + (i % 3 == 0 ? "" : Entry("s", Ints({i, -i}))) +
                        Entry("r", Bytes({std::to_string(i)})) +
                        Entry("v", Ints(std::vector<int64_t>(static_cast<size_t>(i % 4), i))));
  }
  testing::KernelRunner step_;
};

TEST_F(Examples, OfManyRowsAreWhatTheyAreOneByOne) {
  std::vector<std::string> messages;
  for (int64_t i = 0; i < 1000; ++i) messages.push_back(Good(i));
  ASSERT_EQ(Parse(messages).text(), "");
  const auto dense = Values<float>(step_.outputs[3]);
  const auto indices = Values<int64_t>(step_.outputs[0]), values = Values<int64_t>(step_.outputs[1]),
             padded = Values<int64_t>(step_.outputs[4]);
  const auto splits = Values<int32_t>(step_.outputs[6]);
  EXPECT_EQ(Values<int64_t>(step_.outputs[2]), (std::vector<int64_t>{1000, 2}));
  size_t at = 0;
  for (int64_t i = 0; i < 1000; ++i) {
    const auto row = static_cast<size_t>(i);
    ASSERT_EQ(dense[2 * row], static_cast<float>(i));
    ASSERT_EQ(splits[row + 1], i + 1);
    ASSERT_EQ(Texts(step_.outputs[5])[row], std::to_string(i));
    for (int64_t k = 0; k < 3; ++k) ASSERT_EQ(padded[3 * row + static_cast<size_t>(k)], k < i % 4 ? i : -1);
    for (int64_t k = 0; i % 3 != 0 && k < 2; ++k, ++at) {
      ASSERT_EQ(indices[2 * at], i);
      ASSERT_EQ(indices[2 * at + 1], k);
      ASSERT_EQ(values[at], k == 0 ? i : -i);
    }
  }
  EXPECT_EQ(at, values.size());
  for (const int64_t i : {0, 5, 11}) {
    ASSERT_EQ(Parse({messages[static_cast<size_t>(i)]}, {}, true).text(), "");
    EXPECT_EQ(Values<float>(step_.outputs[3]), (std::vector<float>{static_cast<float>(i), 0.5F}));
    EXPECT_EQ(Values<int64_t>(step_.outputs[4]), std::vector<int64_t>(static_cast<size_t>(i % 4), i));
    EXPECT_EQ(Texts(step_.outputs[5]), (std::vector<std::string>{std::to_string(i)}));
  }
}

TEST_F(Examples, ErrorsNameTheExampleAndTheFeature) {
  const std::vector<std::string> names = {"first", "second"};
  const auto with = [&](const std::string& entry) { return Parse({Good(1), Field(1, entry)}, names).text(); };
  EXPECT_EQ(
      with(""),
      "INVALID_ARGUMENT: Name: second, Index: 1.  Feature: d (data type: float) is required but could not be found.");
  EXPECT_EQ(with(Entry("d", Floats({1}))),
            "INVALID_ARGUMENT: Name: second, Key: d, Index: 1.  Number of float values != expected.  Values size: 1 "
            "but output shape: [2]");
  EXPECT_EQ(with(Entry("d", Ints({1, 2}))),
            "INVALID_ARGUMENT: Name: second, Key: d, Index: 1.  Data types don't match. Data type: int64 but expected "
            "type: float");
  EXPECT_EQ(with(Entry("s", Floats({1}))),
            "INVALID_ARGUMENT: Name: second, Key: s, Index: 1.  Data types don't match. Data type: float but expected "
            "type: int64");
  EXPECT_EQ(with(Entry("s", Field(3, Field(1, "\xff")))),
            "INVALID_ARGUMENT: Name: second, Key: s, Index: 1.  Can't parse serialized Example.");
  EXPECT_EQ(with(Entry("other", Field(9, "x"))),
            "INVALID_ARGUMENT: Name: second, Index: 1.  feature 'other' is of no kind that features have");
  EXPECT_EQ(Parse({"\xff"}).text(),
            "INVALID_ARGUMENT: Name: <unknown>, Index: 0.  it is no Example that can be read: 1 bytes");
  EXPECT_EQ(Parse({Field(1, "")}, {}, true).text(),
            "INVALID_ARGUMENT: Feature: d (data type: float) is required but could not be found.");
  EXPECT_EQ(Parse({Field(1, Entry("d", Ints({})))}, {}, true).text(),
            "INVALID_ARGUMENT: Key: d.  Data types don't match. Data type: int64 but expected type: float");
  EXPECT_EQ(Parse({Good(1)}, names).text(),
            "INVALID_ARGUMENT: there are 2 names for 1 serialized examples; give each its own, or none at all");
  // The first of many that are wrong, whatever thread saw one first.
  std::vector<std::string> many(300, Good(1));
  many[7] = many[290] = Field(1, "");
  EXPECT_NE(Parse(many).text().find("Index: 7."), std::string::npos);
}

TEST_F(Examples, LengthsThatLieTakeNothing) {
  for (const std::string& bad :
       {std::string("\x0a\xff\xff\xff\xff\x7f"), Field(1, "\x0a\xff\xff\xff\xff\x0f"),
        Field(1, Entry("s", "\x1a\xff\xff\xff\xff\x07")), Field(1, Entry("s", Field(3, "\x0a\xff\xff\xff\xff\x07"))),
        Field(1, Entry("d", Field(2, "\x0a\xff\xff\xff\xff\x07"))),
        Field(1, Entry("r", Field(1, "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f")))}) {
    EXPECT_EQ(Parse({bad}).code, TENON_INVALID_ARGUMENT);
  }
}

// How many mutations a run makes: TENON_MUTATIONS for more.
int Mutations() {
  const char* asked = std::getenv("TENON_MUTATIONS");
  return asked == nullptr ? 20'000 : std::atoi(asked);
}

// A few bytes changed, dropped, doubled, or cut off.
std::string Mutated(std::string text, std::mt19937& random) {
  for (int i = static_cast<int>(random() % 4); i >= 0 && !text.empty(); --i) {
    const size_t at = random() % text.size();
    switch (random() % 6) {
      case 0: text[at] = static_cast<char>(random()); break;
      case 1: text[at] = static_cast<char>(text[at] ^ (1 << random() % 8)); break;
      case 2: text.erase(at, random() % 4); break;
      case 3: text.insert(at, text.substr(at, random() % 8)); break;
      case 4: text.resize(at); break;
      default: text.insert(at, random() % 6, '\xff');
    }
  }
  return text;
}

TEST_F(Examples, MutatedOnesAreParsedOrRefused) {
  std::mt19937 random(1);
  int refused = 0;
  for (int turn = 0; turn < Mutations(); ++turn) {
    const Outcome outcome = Parse({Good(turn % 7), Mutated(Good(turn % 11), random)}, {}, false);
    refused += outcome.ok() ? 0 : 1;
    ASSERT_TRUE(outcome.ok() || outcome.code == TENON_INVALID_ARGUMENT) << outcome.text();
  }
  EXPECT_GT(refused, Mutations() / 10);
  EXPECT_LT(refused, Mutations() * 99 / 100);
}

TEST(Sequences, MutatedOnesAreParsedOrRefused) {
  const auto good = [](int64_t i) {
    std::string steps;
    for (int64_t step = 0; step < i % 4; ++step) steps += Field(1, Ints({i, step}));
    return Field(1, Entry("c", Floats({1}))) +
           Field(2, Entry("d", steps) + Entry("s", steps) + Entry("r", Field(1, Bytes({"x", ""})) + Field(1, "")));
  };
  const Tensor c = Strings({1}, {"c"}), d = Strings({1}, {"d"}), s = Strings({1}, {"s"}), r = Strings({1}, {"r"}),
               none = Strings({0}, {}), empty = Make<bool>({1}, {true}), fallback = Make<float>({1}, {3});
  testing::Node node = {"ParseSequenceExampleV2",
                        {{"Ncontext_sparse", 0}, {"Nfeature_list_sparse", 1}, {"Nfeature_list_dense", 1}},
                        {},
                        {TENON_DT_FLOAT, TENON_DT_INT64, TENON_DT_INT64, TENON_DT_INT64, TENON_DT_INT64, TENON_DT_INT64,
                         TENON_DT_STRING, TENON_DT_INT64, TENON_DT_INT64}};
  const auto types = [&node](const char* attribute, std::vector<uint32_t> list) {
    node.attributes[attribute] = std::move(list);
  };
  types("context_sparse_types", {});
  types("Tcontext_dense", {TENON_DT_FLOAT});
  types("context_ragged_value_types", {});
  types("context_ragged_split_types", {});
  types("feature_list_sparse_types", {TENON_DT_INT64});
  types("feature_list_dense_types", {TENON_DT_INT64});
  types("feature_list_ragged_value_types", {TENON_DT_STRING});
  types("feature_list_ragged_split_types", {TENON_DT_INT64});
  node.attributes["context_dense_shapes"] = Shapes{{1}};
  node.attributes["feature_list_dense_shapes"] = Shapes{{2}};
  node.input_types.assign(10, TENON_DT_STRING);
  int at = 2;
  for (const char* keys : {"context_sparse_keys", "context_dense_keys", "context_ragged_keys",
                           "feature_list_sparse_keys", "feature_list_dense_keys", "feature_list_ragged_keys"})
    node.arguments[keys] = {at++, 1};
  node.arguments["context_dense_defaults"] = {9, 1};
  testing::KernelRunner step;
  std::mt19937 random(2);
  int refused = 0;
  for (int turn = 0; turn < Mutations(); ++turn) {
    const Tensor serialized = Strings({2}, {good(turn), Mutated(good(turn / 3), random)});
    const testing::Node fresh = node;  // a node keeps what it was asked for
    const Outcome outcome = step.Run(kParseSequenceExampleV2Kernel, fresh,
                                     {&serialized, &none, &none, &c, &none, &s, &d, &r, &empty, &fallback});
    refused += outcome.ok() ? 0 : 1;
    ASSERT_TRUE(outcome.ok() || outcome.code == TENON_INVALID_ARGUMENT) << outcome.text();
  }
  EXPECT_GT(refused, Mutations() / 10);
  EXPECT_LT(refused, Mutations() * 99 / 100);
}

}  // namespace
}  // namespace tenon::ops::example_test
