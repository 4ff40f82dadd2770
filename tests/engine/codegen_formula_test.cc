// SPDX-License-Identifier: Apache-2.0
// Ops of a stranger's package that say what they compute ("computes" in tenon/op.h): code is made of them as of ours,
// in the same chains, with the bits of their kernels. Covers N8.
#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/codegen.h"

namespace tenon::engine::codegen_formula_test {
namespace {

class Formulas : public Codegen {
 protected:
  void SetUp() override {
    Codegen::SetUp();
    static std::set<Runtime*> have;
    if (runtime_ != nullptr && have.insert(runtime_).second)
      ASSERT_TRUE(runtime_->LoadPlugin(TENON_TEST_FORMULA_PLUGIN).ok());
  }
  static Tensor Numbers(DType dtype, const Shape& shape, uint64_t seed) {
    Random random(seed);
    std::vector<double> values(static_cast<size_t>(shape.element_count()));
    for (double& each : values) each = std::uniform_real_distribution<double>(-4, 4)(random);
    Graph g(TheRuntime());
    const Output numbers = g.Placeholder("numbers", DType::kDouble, shape);
    const Tensor doubles = TensorOf(DType::kDouble, shape, values);
    return RunOnce(g, {{numbers, doubles}}, {g.Op("Cast", {numbers}, {{"DstT", dtype}})})[0];
  }
};

const DType kReals[] = {DType::kFloat, DType::kDouble, DType::kHalf, DType::kBfloat16};

TEST_P(Formulas, HaveTheBitsOfTheirKernelsInOneChainWithOurs) {
  for (const DType dtype : kReals) {
    for (const Shape& shape : {Shape{37}, Shape{3, 41}, Shape{2}}) {
      Graph g(*runtime_);
      const Output x = g.Placeholder("x", dtype, shape), y = g.Placeholder("y", dtype, shape),
                   factor = g.Placeholder("factor", dtype, Shape{});
      const Output blend = g.Op("Test>Blend", {g.Op("Relu", {x}), y}, {{"weight", 0.3f}});
      const Output scaled = g.Op("Test>Scale", {blend, factor});
      const Output inside = g.Op("Test>Inside", {scaled}, {{"high", 0.75f}});
      const Output picked = g.Op("SelectV2", {inside, g.Op("Neg", {scaled}), y});
      EXPECT_EQ(Compare(g,
                        {{x, Numbers(dtype, shape, 1)}, {y, Numbers(dtype, shape, 2)},
                         {factor, Numbers(dtype, Shape{}, 3)}},
                        {picked, inside}, DTypeName(dtype) + ": "),
                6);
    }
  }
}

TEST_P(Formulas, OfWholeNumbersHaveTheirBits) {
  Graph g(*runtime_);
  const Output x = g.Placeholder("x", DType::kInt32, Shape{50}), y = g.Placeholder("y", DType::kInt32, Shape{50});
  const Output z = g.Op("Neg", {g.Op("Test>Weigh", {x, g.Op("Abs", {y})})});
  EXPECT_EQ(Compare(g, {{x, Numbers(DType::kInt32, {50}, 1)}, {y, Numbers(DType::kInt32, {50}, 2)}}, {z}), 3);
}

TEST_P(Formulas, OfApproximateFunctionsAreWithinTheirRounding) {
  Graph g(*runtime_);
  const Output x = g.Placeholder("x", DType::kFloat, Shape{501});
  const Output y = g.Op("Mul", {g.Op("Test>Swish", {x}), x});
  const std::vector<std::pair<Output, Tensor>> feeds = {{x, Numbers(DType::kFloat, {501}, 1)}};
  const Answer kernels = RunIt(*runtime_, g, feeds, {y}, false), code = RunIt(*runtime_, g, feeds, {y}, true);
  ASSERT_EQ(kernels.failure + code.failure, "");
  EXPECT_EQ(code.how.at("compiled"), 2);
  for (size_t i = 0; i < 501; ++i) {
    const float want = kernels.values[0].data<float>()[i], got = code.values[0].data<float>()[i];
    EXPECT_NEAR(want, got, 2e-6f * std::max(1.f, std::abs(want)));
  }
}

// What is not generated stays with its kernel, and the others with theirs or with the code.
TEST_P(Formulas, OfUnknownFunctionsStayWithTheirKernels) {
  Graph g(*runtime_);
  const Output x = g.Placeholder("x", DType::kFloat, Shape{64});
  const Output y = g.Op("Neg", {g.Op("Test>Wave", {g.Op("Abs", {x})})});
  EXPECT_EQ(Compare(g, {{x, Numbers(DType::kFloat, {64}, 1)}}, {y}), 0);
}

// A power is generated where its exponent is the constant 2 or 3, whichever input that is.
TEST_P(Formulas, TakeTheirInputsInTheOrderOfTheFormula) {
  Graph g(*runtime_);
  const Output x = g.Placeholder("x", DType::kFloat, Shape{64});
  const Output y = g.Op("Neg", {g.Op("Test>Raise", {g.Op("Abs", {x}), g.Const(2.0f)})});
  EXPECT_EQ(Compare(g, {{x, Numbers(DType::kFloat, {64}, 1)}}, {y}), 0);
}

// Of an input that it does not name nothing is known, not even that code can read it.
TEST_P(Formulas, ThatLeaveAnInputOutStayWithTheirKernels) {
  Graph g(*runtime_);
  const Output x = g.Placeholder("x", DType::kFloat, Shape{64});
  const Output label = g.Op("Const", {}, {{"dtype", DType::kString}, {"value", *Tensor::Strings({"a text"})}});
  const Output y = g.Op("Neg", {g.Op("Test>Labelled", {g.Op("Abs", {x}), label})});
  EXPECT_EQ(Compare(g, {{x, Numbers(DType::kFloat, {64}, 1)}}, {y}), 0);
}

TEST_P(Formulas, AreInTheCodeOfLoops) {
  Graph g(*runtime_);
  const Output x = g.Placeholder("x", DType::kFloat, Shape{37}), y = g.Placeholder("y", DType::kFloat, Shape{37});
  const auto loop = While(
      g, {g.Const(0), x}, {y},
      [&](const auto& v) {
        return g.Op("Less", {v[0], g.Const(7)});
      },
      [&](const auto& v) {
        return std::vector<Output>{g.Op("AddV2", {v[0], g.Const(1)}), g.Op("Test>Blend", {v[1], v[2]})};
      });
  EXPECT_GE(Compare(g, {{x, Numbers(DType::kFloat, {37}, 1)}, {y, Numbers(DType::kFloat, {37}, 2)}}, {loop[1]}), 3);
}

INSTANTIATE_TEST_SUITE_P(Levels, Formulas, ::testing::Values("avx512", "avx2"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace tenon::engine::codegen_formula_test
