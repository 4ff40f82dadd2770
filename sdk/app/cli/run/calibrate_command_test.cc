// SPDX-License-Identifier: Apache-2.0
// `tenon run --calibrate` and `--precision int8`, through the program itself: ranges kept in a file and used again, how
// far the results are, and what is refused. Covers N6.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sdk/app/cli/program.h"
#include "tenon/data/file.h"
#include "tenon/data/npy.h"
#include "tenon/data/npz.h"
#include "tenon/tenon.h"
#include "tests/fakes/temporary_folder.h"

namespace tenon::cli::calibrate_command_test {
namespace {

using host::DType;
using host::Graph;
using host::Output;
using host::Runtime;
using host::Tensor;
using Json = nlohmann::json;

class CalibrateCommand : public testing::Test {
 protected:
  static std::vector<float> Numbers(size_t count, uint32_t seed, float size) {
    std::vector<float> values(count);
    for (float& value : values) {
      seed = seed * 1664525u + 1013904223u;
      value = (static_cast<float>(seed >> 8) * 0x1p-23f - 1) * size;
    }
    return values;
  }
  // scores = relu(x * filter) flat * matrix, and which is the largest; the filter depends on the seed.
  static void WriteGraph(const std::string& name, uint32_t seed, int32_t channels = 8) {
    const auto runtime = Runtime::Create();
    ASSERT_TRUE(runtime.ok()) << runtime.status();
    Graph graph(*runtime);
    const Output x = graph.Placeholder("x", DType::kFloat, {4, 8, 8, 3});
    const Output conv = graph.Op(
        "Conv2D", {x, graph.Const(Numbers(static_cast<size_t>(3 * 3 * 3 * channels), seed, 0.5f), {3, 3, 3, channels})},
        {{"strides", std::vector<int64_t>{1, 1, 1, 1}}, {"padding", "SAME"}}, "conv");
    const Output image =
        graph.Op("Relu",
                 {graph.Op("BiasAdd", {conv, graph.Const(Numbers(static_cast<size_t>(channels), 2, 0.1f), {channels})},
                           {}, "biased")},
                 {}, "image");
    const Output flat = graph.Op("Reshape", {image, graph.Const({4, 64 * channels})}, {}, "flat");
    const Output scores = graph.Op(
        "MatMul", {flat, graph.Const(Numbers(static_cast<size_t>(64 * channels * 10), 3, 0.2f), {64 * channels, 10})},
        {}, "scores");
    graph.Op("ArgMax", {scores, graph.Const(1)}, {}, "largest");
    graph.Op("MatMul", {scores, scores}, {{"transpose_b", true}}, "pairs");
    const auto bytes = graph.Export();
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    ASSERT_TRUE(data::ReplaceFile(At(name), {*bytes}).ok());
  }
  static void SetUpTestSuite() {
    folder_ = fakes::TemporaryFolder("calibrate");
    WriteGraph("graph.pb", 1);
    WriteGraph("other.pb", 5);
    WriteGraph("wide.pb", 1, 32);  // whose convolution gains by bfloat16
    for (uint32_t i = 0; i < 3; ++i)
      ASSERT_TRUE(data::WriteNpy(At("x" + std::to_string(i) + ".npy"),
                                 *Tensor::From(Numbers(4 * 8 * 8 * 3, 10 + i, 1), {4, 8, 8, 3}))
                      .ok());
    std::vector<float> wrong = Numbers(4 * 8 * 8 * 3, 1, 1);
    wrong[3] = std::nanf("");
    ASSERT_TRUE(data::WriteNpy(At("nan.npy"), *Tensor::From(wrong, {4, 8, 8, 3})).ok());
    ASSERT_TRUE(
        data::WriteNpz(At("batch.npz"), {{"x", *Tensor::From(Numbers(4 * 8 * 8 * 3, 12, 1), {4, 8, 8, 3})}}).ok());
  }
  static std::string At(const std::string& name) { return folder_ + "/" + name; }
  static Outcome Tenon(const std::string& arguments) { return RunTenon(folder_, arguments); }
  static void ExpectHas(const std::string& text, const std::string& part) {
    EXPECT_NE(std::string::npos, text.find(part)) << "'" << part << "' is not in: " << text;
  }

  static inline std::string folder_;
};

constexpr const char* kFetches = " --fetch scores --fetch largest --fetch pairs ";

TEST_F(CalibrateCommand, RangesAreKeptAndUsedAgain) {
  const Outcome calibrated = Tenon(std::string("run graph.pb") + kFetches +
                                   "--calibrate x=x0.npy x=x1.npy batch.npz --calibration ranges.txt --json");
  ASSERT_EQ(calibrated.code, 0) << calibrated.err;
  const Json found = Json::parse(calibrated.out)["calibration"];
  EXPECT_EQ(found["batches"], 3);
  EXPECT_EQ(found["int8"], 2);
  ASSERT_EQ(found["in_floats"].size(), 1u) << found;
  EXPECT_EQ(found["in_floats"][0]["node"], "pairs");
  ExpectHas(found["in_floats"][0]["reason"], "is no weight, but computed in the step");
  ASSERT_EQ(found["accuracy"].size(), 3u);
  const Json& scores = found["accuracy"][0];
  EXPECT_GT(scores["max"].get<double>(), 0);
  EXPECT_LT(scores["relative"].get<double>(), 0.03) << scores;
  EXPECT_GE(scores["max"].get<double>(), scores["mean"].get<double>());
  EXPECT_EQ(scores["top1"]["rows"], 12);
  EXPECT_EQ(found["accuracy"][1]["elements"], 12);
  EXPECT_EQ(found["accuracy"][1]["equal"], scores["top1"]["same"]) << "that of the argument of the largest";

  const Outcome exact = Tenon("run graph.pb --feed x=x2.npy --fetch scores=exact.npy");
  const Outcome reduced = Tenon(
      "run graph.pb --feed x=x2.npy --fetch scores=reduced.npy --fetch pairs --precision int8 --calibration ranges.txt "
      "--explain");
  ASSERT_EQ(exact.code, 0) << exact.err;
  ASSERT_EQ(reduced.code, 0) << reduced.err;
  ExpectHas(reduced.out, "in 8-bit integers: 'conv' to 'image'");
  ExpectHas(reduced.out, "stays in floats: 'scores:0' is no weight");
  const auto a = data::ReadNpy(At("exact.npy")), b = data::ReadNpy(At("reduced.npy"));
  ASSERT_TRUE(a.ok() && b.ok());
  double worst = 0, largest = 0;
  for (size_t i = 0; i < 40; ++i) {
    worst =
        std::max(worst, std::fabs(static_cast<double>(a->data<float>()[i]) - static_cast<double>(b->data<float>()[i])));
    largest = std::max(largest, std::fabs(static_cast<double>(a->data<float>()[i])));
  }
  EXPECT_GT(worst, 0);
  EXPECT_LT(worst, 0.05 * largest);
}

TEST_F(CalibrateCommand, OneCommandCalibratesAndRuns) {
  const Outcome both =
      Tenon("run graph.pb --feed x=x2.npy --fetch scores --fetch largest --calibrate x=x0.npy --precision int8");
  ASSERT_EQ(both.code, 0) << both.err;
  ExpectHas(both.out, "calibrated: the ranges of ");
  ExpectHas(both.out, "int8: 2 of 2 products and convolutions run in 8-bit integers\n");
  ExpectHas(both.out, "of 4 rows");
  ExpectHas(both.out, " equal");
}

TEST_F(CalibrateCommand, TheSameBatchesGiveTheSameFile) {
  for (const char* order : {"x=x0.npy x=x1.npy", "x=x1.npy x=x0.npy"})
    ASSERT_EQ(Tenon(std::string("run graph.pb --fetch scores --calibrate ") + order + " --calibration " +
                    (order[3] == '0' ? "a" : "b") + ".txt")
                  .code,
              0);
  const auto a = data::ReadFile(At("a.txt")), b = data::ReadFile(At("b.txt"));
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(*a, *b);
}

TEST_F(CalibrateCommand, WhatCannotBeIsRefusedByName) {
  ASSERT_EQ(Tenon("run graph.pb --fetch scores --calibrate x=x0.npy --calibration good.txt").code, 0);
  const struct {
    const char* line;
    int code;
    const char* says;
  } rows[] = {
      {"run graph.pb --feed x=x0.npy --fetch scores --precision int8", 1,
       "'precision' is int8, and 'calibration' is empty"},
      {"run graph.pb --feed x=x0.npy --fetch scores --precision int8 --calibration gone.txt", 1, "gone.txt"},
      {"run graph.pb --feed x=x0.npy --fetch scores --calibration good.txt", 1, "'calibration' is for precision int8"},
      {"run other.pb --feed x=x0.npy --fetch scores --precision int8 --calibration good.txt", 1,
       "--calibration 'good.txt': it is of another graph"},
      {"run graph.pb --fetch scores --calibrate x=x0.npy", 2, "--calibrate: its ranges would be of no use"},
      {"run graph.pb --fetch scores --calibrate x=x0.npy --calibration c.txt --master grpc://127.0.0.1:1", 2,
       "--calibrate: it looks at every value"},
      {"run graph.pb --fetch scores --calibrate x=x0.npy scores=x1.npy --calibration c.txt", 2,
       "--calibrate: 'x=x0.npy' feeds x, and 'scores=x1.npy' scores; all must feed the same"},
      {"run graph.pb --fetch scores --calibrate y=x0.npy --calibration c.txt", 2, "--calibrate"},
      {"run graph.pb --fetch scores --calibrate x=gone.npy --calibration c.txt", 1, "gone.npy"},
      {"run graph.pb --fetch scores --calibrate x=nan.npy --calibration c.txt", 1,
       "in the calibration is nan to nan, and MatMul 'scores' reads it"},
      {"run graph.pb --feed x=nan.npy --fetch scores --precision int8 --calibration good.txt", 1,
       "element 3 is nan, which 8-bit integers cannot hold"},
      {"run graph.pb --feed x=x0.npy --fetch scores --precision int4", 2,
       "there are strict, tf32, bfloat16, float16 and int8"},
  };
  for (const auto& row : rows) {
    const Outcome refused = Tenon(row.line);
    EXPECT_EQ(refused.code, row.code) << row.line << ": " << refused.err << refused.out;
    ExpectHas(refused.err, row.says);
  }
}

// ---- --accuracy ----

TEST_F(CalibrateCommand, AccuracySaysHowFarAPrecisionIsFromFloat32) {
  const Outcome told = Tenon(
      "run wide.pb --feed x=x2.npy --fetch scores=reduced.npy --fetch largest --precision bfloat16 --accuracy --json");
  ASSERT_EQ(told.code, 0) << told.err;
  const Json found = Json::parse(told.out);
  ASSERT_EQ(found["accuracy"].size(), 2u) << found;
  const bool computes = found["reduced"].get<int>() > 0;
  if (!computes) {
    ASSERT_FALSE(found["in_float32"].empty()) << found;
    ExpectHas(found["in_float32"][0]["reason"], "this processor has no bfloat16");
  }
  // Two layers, of which each rounds what it reads, its weights and its biases.
  const double relative = found["accuracy"][0]["relative"];
  EXPECT_EQ(relative > 0, computes);
  EXPECT_LT(relative, 0x1p-9 * std::sqrt(2 * 3));
  ASSERT_EQ(Tenon("run wide.pb --feed x=x2.npy --fetch scores=exact.npy").code, 0);
  const auto a = data::ReadNpy(At("exact.npy")), b = data::ReadNpy(At("reduced.npy"));
  ASSERT_TRUE(a.ok() && b.ok());
  double worst = 0;
  for (size_t i = 0; i < 40; ++i)
    worst =
        std::max(worst, std::fabs(static_cast<double>(a->data<float>()[i]) - static_cast<double>(b->data<float>()[i])));
  EXPECT_DOUBLE_EQ(found["accuracy"][0]["max"].get<double>(), worst) << "of the values that are written";
  const Outcome text = Tenon("run wide.pb --feed x=x2.npy --fetch scores --precision bfloat16 --accuracy");
  ExpectHas(text.out, "how far bfloat16 is from float32:");
  ExpectHas(text.out, "of 4 rows");
  // Where nothing is worth its casts, that is said.
  const Outcome small = Tenon("run graph.pb --feed x=x2.npy --fetch scores --precision bfloat16 --accuracy --json");
  ASSERT_EQ(small.code, 0) << small.err;
  const Json stays = Json::parse(small.out);
  EXPECT_EQ(stays["reduced"], 0);
  ASSERT_EQ(stays["in_float32"].size(), 2u) << stays;
  ExpectHas(stays["in_float32"][0]["reason"],
            computes ? "it would gain less than the casts around it cost" : "this processor has no bfloat16");
}

TEST_F(CalibrateCommand, AccuracyIsRefusedWhereThereIsNothingToCompare) {
  for (const auto& [line, says] :
       {std::pair{"run graph.pb --feed x=x0.npy --fetch scores --accuracy",
                  "--accuracy: it says how far a reduced precision is from float32"},
        {"run graph.pb --feed x=x0.npy --fetch scores --accuracy --precision strict", "--accuracy: it says how far"},
        {"run graph.pb --feed x=x0.npy --target scores --accuracy --precision bfloat16",
         "--accuracy: there is nothing to compare"},
        {"run graph.pb --feed x=x0.npy --fetch scores --accuracy --precision bfloat16 --master grpc://127.0.0.1:1",
         "--accuracy: it runs the steps a second time"}}) {
    const Outcome refused = Tenon(line);
    EXPECT_EQ(refused.code, 2) << line;
    ExpectHas(refused.err, says);
  }
}

}  // namespace
}  // namespace tenon::cli::calibrate_command_test
