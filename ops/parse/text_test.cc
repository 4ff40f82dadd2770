// SPDX-License-Identifier: Apache-2.0
// CSV, JSON, TensorProtos and numbers in texts: mutated inputs are read or refused, and lengths that lie take nothing.
// What right ones mean stands in tests/golden.
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <random>

#include "tenon/extras/text/csv.h"
#include "json_example.h"
#include "tenon/extras/text/number_text.h"
#include "tenon/bytes/wire.h"
#include "tenon/testing/kernel_case.h"
#include "tenon/testing/linked.h"

namespace tenon::ops {
extern const tenon_kernel_registration kDecodeCsvKernel, kParseTensorKernel, kSerializeTensorKernel;
}  // namespace tenon::ops

namespace tenon::ops::text_test {
namespace {

using testing::Make;
using testing::Outcome;
using testing::Strings;
using testing::Tensor;
using testing::Texts;
using testing::Values;

int Mutations() {
  const char* asked = std::getenv("TENON_MUTATIONS");
  return asked == nullptr ? 20'000 : std::atoi(asked);
}

std::string Mutated(std::string text, std::mt19937& random, std::string_view alphabet) {
  for (int i = static_cast<int>(random() % 4); i >= 0 && !text.empty(); --i) {
    const size_t at = random() % text.size();
    const char byte = random() % 3 == 0 ? static_cast<char>(random()) : alphabet[random() % alphabet.size()];
    switch (random() % 5) {
      case 0: text[at] = byte; break;
      case 1: text.erase(at, random() % 4); break;
      case 2: text.insert(at, text.substr(at, random() % 8)); break;
      case 3: text.resize(at); break;
      default: text.insert(at, 1 + random() % 3, byte);
    }
  }
  return text;
}

struct Csv : ::testing::Test {
  Outcome Decode(const std::vector<std::string>& lines) {
    const Tensor records = Strings({static_cast<int64_t>(lines.size())}, lines), i = Make<int32_t>({1}, {7}),
                 s = Strings({}, {"default"}), f = Make<float>({0}, {});
    testing::Node node = {"DecodeCSV",
                          {{"field_delim", ","}, {"use_quote_delim", true}, {"na_value", ""}},
                          {},
                          {TENON_DT_INT32, TENON_DT_STRING, TENON_DT_FLOAT}};
    node.attributes["OUT_TYPE"] = std::vector<uint32_t>{TENON_DT_INT32, TENON_DT_STRING, TENON_DT_FLOAT};
    node.attributes["select_cols"] = std::vector<int64_t>{};
    return step.Run(kDecodeCsvKernel, node, {&records, &i, &s, &f});
  }
  testing::KernelRunner step;
};

TEST_F(Csv, ManyLinesHaveTheirFieldsAndTheFirstThatIsWrongIsNamed) {
  std::vector<std::string> lines;
  for (int i = 0; i < 500; ++i)
    lines.push_back(std::to_string(i) + ",\"say \"\"" + std::to_string(i) + "\"\"\"," + std::to_string(i) + ".5");
  lines[3] = ",,3.5";
  ASSERT_EQ(Decode(lines).text(), "");
  EXPECT_EQ(Texts(step.outputs[1])[499], "say \"499\"");
  EXPECT_EQ(Texts(step.outputs[1])[3], "default");
  EXPECT_EQ(Values<int32_t>(step.outputs[0])[3], 7);
  EXPECT_EQ(Values<float>(step.outputs[2])[499], 499.5F);
  lines[450] = "x,,1";
  lines[40] = "1,,";
  EXPECT_EQ(Decode(lines).text(), "INVALID_ARGUMENT: Field 2 is required but missing in record 40!");
  lines[40] = "1,a\"b,";
  EXPECT_EQ(Decode(lines).text(), "INVALID_ARGUMENT: Unquoted fields cannot have quotes/CRLFs inside: record 40");
}

TEST_F(Csv, MutatedLinesAreReadOrRefused) {
  std::mt19937 random(3);
  int refused = 0;
  for (int turn = 0; turn < Mutations(); ++turn) {
    const Outcome outcome =
        Decode({"1,\"a,\"\"b\",2.5", Mutated("12,\"two \"\"words\"\"\",3.25", random, ",\"\n\r1e")});
    refused += outcome.ok() ? 0 : 1;
    ASSERT_TRUE(outcome.ok() || outcome.code == TENON_INVALID_ARGUMENT) << outcome.text();
  }
  EXPECT_GT(refused, Mutations() / 10);
  EXPECT_LT(refused, Mutations());
}

TEST(CsvFields, BeyondThoseThatAreWantedAreCountedAndNotKept) {
  std::vector<std::string_view> fields;
  std::deque<std::string> unquoted;
  const char* problem = nullptr;
  EXPECT_EQ(sdk::SplitCsv(std::string(100'000, ','), {}, 2, &fields, &unquoted, &problem), 100'001U);
  EXPECT_EQ(fields.size(), 2U);
  EXPECT_EQ(problem, nullptr);
}

struct TensorProtos : ::testing::Test {
  Outcome Parse(const std::string& message, uint32_t dtype) {
    const Tensor serialized = Strings({}, {message});
    return step.Run(kParseTensorKernel, {"ParseTensor", {{"out_type", testing::Type{dtype}}}, {}, {dtype}},
                    {&serialized});
  }
  std::string Serialized(const Tensor& tensor) {
    EXPECT_EQ(step.Run(kSerializeTensorKernel,
                       {"SerializeTensor", {{"T", testing::Type{tensor.dtype}}}, {}, {TENON_DT_STRING}}, {&tensor})
                  .text(),
              "");
    return Texts(step.outputs[0])[0];
  }
  testing::KernelRunner step;
};

TEST_F(TensorProtos, ComeBackAsTheyWent) {
  const Tensor numbers = Make<int64_t>({2, 3}, {1, -2, 3, 4, 5, INT64_MIN}),
               texts = Strings({2, 2}, {"a", "", "xyz", "\n"});
  EXPECT_EQ(Parse(Serialized(numbers), TENON_DT_INT64).text(), "");
  EXPECT_EQ(Values<int64_t>(step.outputs[0]), Values<int64_t>(numbers));
  EXPECT_EQ(Parse(Serialized(texts), TENON_DT_STRING).text(), "");
  EXPECT_EQ(Texts(step.outputs[0]), Texts(texts));
}

TEST_F(TensorProtos, ThatLieOfTheirSizeAreRefused) {
  const auto shaped = [](uint64_t dim, std::string_view more) {
    sdk::WireWriter size, shape, tensor;
    size.Varint(1, dim);
    shape.Bytes(2, size.bytes());
    shape.Bytes(2, size.bytes());
    tensor.Varint(1, TENON_DT_FLOAT);
    tensor.Bytes(2, shape.bytes());
    return tensor.bytes() + std::string(more);
  };
  EXPECT_EQ(Parse(shaped(UINT64_C(1) << 40, ""), TENON_DT_FLOAT).code, TENON_RESOURCE_EXHAUSTED);
  EXPECT_EQ(Parse(shaped(1000, "\x22\x04" "abcd"), TENON_DT_FLOAT).code, TENON_INVALID_ARGUMENT);
  EXPECT_EQ(Parse(shaped(static_cast<uint64_t>(-1), ""), TENON_DT_FLOAT).code, TENON_INVALID_ARGUMENT);
  std::string dims;
  for (int i = 0; i < 300; ++i) dims += std::string("\x12\x00", 2);
  sdk::WireWriter deep;
  deep.Varint(1, TENON_DT_FLOAT);
  deep.Bytes(2, dims);
  EXPECT_NE(Parse(deep.bytes(), TENON_DT_FLOAT).text().find("more than 254 dims"), std::string::npos);
}

TEST_F(TensorProtos, MutatedOnesAreParsedOrRefused) {
  std::mt19937 random(4);
  const std::string numbers = Serialized(Make<float>({2, 3}, {1, 2, 3, 4, 5, 6})),
                    texts = Serialized(Strings({3}, {"a", "", "xyz"}));
  const std::string typed("\x08\x01\x12\x04\x12\x02\x08\x05\x2a\x08\x00\x00\x80\x3f\x00\x00\x00\x40", 18);
  for (int turn = 0; turn < Mutations(); ++turn) {
    const std::string& whole = turn % 3 == 0 ? numbers : turn % 3 == 1 ? texts : typed;
    // Dims that stay small: this host lends whatever memory is asked for.
    std::string bad = Mutated(whole, random, std::string_view("\x08\x12\x22\x2a\x42\x00\x01", 7));
    const Outcome outcome = Parse(bad, turn % 3 == 1 ? TENON_DT_STRING : TENON_DT_FLOAT);
    ASSERT_TRUE(outcome.ok() || outcome.code == TENON_INVALID_ARGUMENT || outcome.code == TENON_RESOURCE_EXHAUSTED)
        << outcome.text();
  }
}

TEST(JsonExamples, MutatedOnesAreReadOrRefused) {
  std::mt19937 random(5);
  const std::string whole =
      R"({"features": {"feature": {"a": {"int64List": {"value": [1, "2", -3]}}, "b": {"bytesList": {"value": ["YWI="]}}, "c": {"floatList": {"value": [1.5, "NaN"]}}}}})";
  int refused = 0;
  for (int turn = 0; turn < Mutations(); ++turn) {
    std::string message, problem;
    if (parse::ExampleOfJson(Mutated(whole, random, "{}[]\",:1nu"), &message, &problem)) continue;
    ++refused;
    ASSERT_FALSE(problem.empty());
  }
  EXPECT_GT(refused, Mutations() / 4);
  EXPECT_LT(refused, Mutations());
}

TEST(JsonExamples, DeepNestingTakesNoStack) {
  for (const char* open : {"[", "{\"features\":", "{\"features\":{\"feature\":{\"a\":",
                           "{\"features\":{\"feature\":{\"a\":{\"int64List\":{\"value\":[[[[[[[["}) {
    std::string deep, message, problem;
    while (deep.size() < 4'000'000) deep += deep.empty() ? open : std::string(1000, '[');
    EXPECT_FALSE(parse::ExampleOfJson(deep, &message, &problem));
    EXPECT_FALSE(problem.empty());
  }
}

TEST(NumberTexts, AreReadWhateverTheyAre) {
  std::mt19937 random(6);
  for (int turn = 0; turn < Mutations(); ++turn) {
    const std::string text =
        Mutated(turn % 2 == 0 ? "-12345.678e-9" : "18446744073709551615", random, "0123456789.eE+-xnaif ");
    float f = 0;
    int64_t i = 0;
    uint32_t u = 0;
    (void)sdk::ReadNumber(text, &f);
    (void)sdk::ReadNumber(text, &u);
    if (sdk::ReadNumber(text, &i)) {
      EXPECT_EQ(std::strtoll(text.c_str(), nullptr, 10), i) << text;
    }
  }
  double value = 0;
  EXPECT_TRUE(sdk::ReadNumber(std::string(100'000, '9'), &value));
  EXPECT_EQ(value, std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace tenon::ops::text_test
