// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
// Covers P5.
#include <cmath>

#include "tenon/extras/kernel/random.h"
#include "testing/kernel.h"

namespace tenon::cpu::state_test {
namespace {

using sdk::Philox;

using F = std::vector<float>;

Variable Initialized(std::vector<int64_t> dims, F values) {
  return Variable::Of(Make<float>(std::move(dims), values));
}

TEST(Variable, ReadsFailUntilAssignedAndThenGiveTheValue) {
  Variable v;
  EXPECT_EQ(Kernel("ReadVariableOp").Run({Handle(v)}, {Out<float>()}).code, TENON_FAILED_PRECONDITION);
  const Result r = Kernel("AssignVariableOp").Run({Handle(v), Make<float>({2, 1}, {1, 2})}, {});
  EXPECT_EQ(r.code, TENON_OK) << r.message;
  EXPECT_EQ(v.last_flags, TENON_UPDATE_INITIALIZE);
  const Result read = Kernel("ReadVariableOp").Run({Handle(v)}, {Out<float>()});
  EXPECT_EQ(read[0].dims, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(Values<float>(read[0]), (F{1, 2}));
}

TEST(Variable, AssignGivesTheReferenceAndChecksTheShape) {
  Variable v = Initialized({2}, {1, 2});
  const Tensor out{TENON_DT_FLOAT + TENON_DT_REF, {}};
  Kernel assign("Assign");
  assign.Attr("validate_shape", true).Attr("use_locking", true);
  const Result r = assign.Run({Reference(v, TENON_DT_FLOAT), Vector<float>({3, 4})}, {out});
  ASSERT_EQ(r.code, TENON_OK) << r.message;
  EXPECT_EQ(testing::ResourceOf(r[0]), &v);
  EXPECT_EQ(v.last_flags, TENON_UPDATE_INITIALIZE | TENON_UPDATE_LOCK);
  EXPECT_EQ(Values<float>(v.value), (F{3, 4}));
  const Result bad = assign.Run({Reference(v, TENON_DT_FLOAT), Vector<float>({3, 4, 5})}, {out});
  EXPECT_EQ(bad.code, TENON_INVALID_ARGUMENT);
  EXPECT_EQ(bad.message, "Assign requires shapes of both tensors to match. lhs shape= [2] rhs shape= [3]");
  Kernel loose("Assign");
  loose.Attr("validate_shape", false);
  EXPECT_EQ(loose.Run({Reference(v, TENON_DT_FLOAT), Vector<float>({3, 4, 5})}, {out}).code, TENON_OK);
  EXPECT_EQ(v.value.dims, (std::vector<int64_t>{3}));
}

TEST(Variable, KeepsStringsOfItsOwn) {
  Variable v;
  ASSERT_EQ(Kernel("AssignVariableOp").Run({Handle(v), Strings({2}, {"one", ""})}, {}).code, TENON_OK);
  EXPECT_EQ(Texts(v.value), (std::vector<std::string>{"one", ""}));
}

TEST(Variable, AddsAndSubtractsInPlaceOrNot) {
  for (bool in_place : {false, true}) {
    Variable v = Initialized({3}, {1, 2, 3});
    v.in_place = in_place;
    EXPECT_EQ(Kernel("AssignAddVariableOp").Run({Handle(v), Vector<float>({10, 20, 30})}, {}).code, TENON_OK);
    EXPECT_EQ(Values<float>(v.value), (F{11, 22, 33}));
    const Tensor out{TENON_DT_FLOAT + TENON_DT_REF, {}};
    EXPECT_EQ(Kernel("AssignSub").Run({Reference(v, TENON_DT_FLOAT), Vector<float>({1, 1, 1})}, {out}).code, TENON_OK);
    EXPECT_EQ(Values<float>(v.value), (F{10, 21, 32}));
    EXPECT_EQ(Kernel("AssignAddVariableOp").Run({Handle(v), Vector<float>({1})}, {}).code, TENON_INVALID_ARGUMENT);
    EXPECT_EQ(Values<float>(v.value), (F{10, 21, 32}));
  }
}

TEST(Variable, ScattersRowsAndLeavesItAloneOnABadIndex) {
  Variable v = Initialized({3, 2}, {0, 0, 0, 0, 0, 0});
  const Tensor updates = Make<float>({3, 2}, {1, 2, 3, 4, 5, 6});
  ASSERT_EQ(Kernel("ResourceScatterAdd").Run({Handle(v), Vector<int32_t>({2, 0, 2}), updates}, {}).code, TENON_OK);
  EXPECT_EQ(Values<float>(v.value), (F{3, 4, 0, 0, 6, 8}));
  EXPECT_EQ(v.last_flags, TENON_UPDATE_PRESERVE);
  EXPECT_EQ(Kernel("ResourceScatterAdd").Run({Handle(v), Vector<int32_t>({2, 0, 3}), updates}, {}).code,
            TENON_INVALID_ARGUMENT);
  EXPECT_EQ(Values<float>(v.value), (F{3, 4, 0, 0, 6, 8}));
  EXPECT_EQ(Values<float>(Kernel("ResourceGather")
                              .Attr("batch_dims", int64_t{0})
                              .Run({Handle(v), Vector<int64_t>({2, 2})}, {Out<float>({2, 2})})[0]),
            (F{6, 8, 6, 8}));
  EXPECT_EQ(
      Kernel("ResourceScatterAdd").Run({Handle(v), Vector<int32_t>({1}), Make<float>({1, 3}, {1, 2, 3})}, {}).code,
      TENON_INVALID_ARGUMENT);
}

class TrainingTest : public ::testing::TestWithParam<bool> {
 protected:
  Variable Var(F values) {
    Variable v = Initialized({static_cast<int64_t>(values.size())}, values);
    v.in_place = GetParam();
    return v;
  }
};

TEST_P(TrainingTest, GradientDescentSteps) {
  Variable v = Var({1, 2});
  ASSERT_EQ(Kernel("ResourceApplyGradientDescent").Run({Handle(v), Scalar(0.5f), Vector<float>({2, 4})}, {}).code,
            TENON_OK);
  EXPECT_EQ(Values<float>(v.value), (F{0, 0}));
  EXPECT_EQ(Kernel("ResourceApplyGradientDescent").Run({Handle(v), Scalar(0.5f), Vector<float>({2, 4, 5})}, {}).code,
            TENON_INVALID_ARGUMENT);
}

TEST_P(TrainingTest, MomentumAccumulates) {
  for (bool nesterov : {false, true}) {
    Variable v = Var({1}), a = Var({2});
    Kernel kernel("ResourceApplyMomentum");
    kernel.Attr("use_nesterov", nesterov).Attr("use_locking", true);
    ASSERT_EQ(kernel.Run({Handle(v), Handle(a), Scalar(0.1f), Vector<float>({4}), Scalar(0.5f)}, {}).code, TENON_OK);
    EXPECT_FLOAT_EQ(Values<float>(a.value)[0], 5);
    EXPECT_FLOAT_EQ(Values<float>(v.value)[0], nesterov ? 1 - (0.1f * 4 + 0.1f * 0.5f * 5) : 1 - 0.1f * 5);
    EXPECT_EQ(v.last_flags, TENON_UPDATE_LOCK);
  }
}

TEST_P(TrainingTest, AdagradAndAdamFollowTheirFormulas) {
  Variable v = Var({1}), a = Var({3});
  ASSERT_EQ(Kernel("ResourceApplyAdagrad")
                .Attr("update_slots", true)
                .Run({Handle(v), Handle(a), Scalar(0.5f), Vector<float>({1})}, {})
                .code,
            TENON_OK);
  EXPECT_FLOAT_EQ(Values<float>(a.value)[0], 4);
  EXPECT_FLOAT_EQ(Values<float>(v.value)[0], 1 - 0.5f / 2);
  Variable w = Var({1, 1}), m = Var({0.5f, 0}), s = Var({0.25f, 0});
  const float g = 2, b1 = 0.9f, b2 = 0.99f, p1 = 0.81f, p2 = 0.98f, lr = 0.1f, eps = 1e-3f;
  ASSERT_EQ(Kernel("ResourceApplyAdam")
                .Attr("use_nesterov", false)
                .Run({Handle(w), Handle(m), Handle(s), Scalar(p1), Scalar(p2), Scalar(lr), Scalar(b1), Scalar(b2),
                      Scalar(eps), Vector<float>({g, 0})},
                     {})
                .code,
            TENON_OK);
  const float want_m = 0.5f + (g - 0.5f) * (1 - b1), want_s = 0.25f + (g * g - 0.25f) * (1 - b2);
  EXPECT_NEAR(Values<float>(m.value)[0], want_m, 1e-6f);
  EXPECT_NEAR(Values<float>(s.value)[0], want_s, 1e-6f);
  EXPECT_NEAR(Values<float>(w.value)[0], 1 - lr * std::sqrt(1 - p2) / (1 - p1) * want_m / (std::sqrt(want_s) + eps),
              1e-6f);
  EXPECT_EQ(Values<float>(w.value)[1], 1.f);
}

TEST_P(TrainingTest, SparseAdagradTouchesOnlyItsRows) {
  Variable v = Initialized({3, 1}, {1, 1, 1}), a = Initialized({3, 1}, {3, 3, 3});
  v.in_place = a.in_place = GetParam();
  ASSERT_EQ(Kernel("ResourceSparseApplyAdagrad")
                .Run({Handle(v), Handle(a), Scalar(0.5f), Make<float>({1, 1}, {1}), Vector<int64_t>({1})}, {})
                .code,
            TENON_OK);
  EXPECT_EQ(Values<float>(v.value), (F{1, 0.75f, 1}));
  EXPECT_EQ(Values<float>(a.value), (F{3, 4, 3}));
  EXPECT_EQ(Kernel("ResourceSparseApplyAdagrad")
                .Run({Handle(v), Handle(a), Scalar(0.5f), Make<float>({1, 1}, {1}), Vector<int64_t>({3})}, {})
                .code,
            TENON_INVALID_ARGUMENT);
}

TEST_P(TrainingTest, FourVariablesChangeTogether) {
  Variable w = Var({1, 1}), m = Var({0.5f, 0}), s = Var({0.25f, 0}), largest = Var({9, 0});
  const float g = 2, b1 = 0.9f, b2 = 0.99f, p1 = 0.81f, p2 = 0.98f, lr = 0.1f, eps = 1e-3f;
  const auto step = [&](F gradient) {
    return Kernel("ResourceApplyAdamWithAmsgrad")
        .Run({Handle(w), Handle(m), Handle(s), Handle(largest), Scalar(p1), Scalar(p2), Scalar(lr), Scalar(b1),
              Scalar(b2), Scalar(eps), Vector<float>(gradient)},
             {});
  };
  ASSERT_EQ(step({g, 0}).code, TENON_OK);
  const float want_m = 0.5f + (g - 0.5f) * (1 - b1), want_s = 0.25f + (g * g - 0.25f) * (1 - b2);
  EXPECT_NEAR(Values<float>(m.value)[0], want_m, 1e-6f);
  EXPECT_NEAR(Values<float>(s.value)[0], want_s, 1e-6f);
  EXPECT_EQ(Values<float>(largest.value), (F{9, 0}));
  EXPECT_NEAR(Values<float>(w.value)[0], 1 - lr * std::sqrt(1 - p2) / (1 - p1) * want_m / (std::sqrt(9.f) + eps),
              1e-6f);
  const F before = Values<float>(w.value);
  EXPECT_EQ(step({1, 2, 3}).code, TENON_INVALID_ARGUMENT);
  EXPECT_EQ(Values<float>(w.value), before);
}

TEST_P(TrainingTest, DualAveragingCountsItsStepsInAnInteger) {
  Variable v = Var({7, 7, 7}), sum = Var({1, -1, 0.1f}), squares = Var({3, 3, 3});
  ASSERT_EQ(Kernel("ResourceApplyAdagradDA")
                .Run({Handle(v), Handle(sum), Handle(squares), Vector<float>({1, -1, 0}), Scalar(0.5f), Scalar(0.25f),
                      Scalar(0.1f), Scalar(int64_t{4})},
                     {})
                .code,
            TENON_OK);
  EXPECT_EQ(Values<float>(sum.value), (F{2, -2, 0.1f}));
  EXPECT_EQ(Values<float>(squares.value), (F{4, 4, 3}));
  const float moved = 0.5f * (2 - 4 * 0.25f) / (4 * 0.1f * 0.5f + 2);
  EXPECT_NEAR(Values<float>(v.value)[0], -moved, 1e-6f);
  EXPECT_NEAR(Values<float>(v.value)[1], moved, 1e-6f);
  EXPECT_EQ(Values<float>(v.value)[2], 0);
}

TEST_P(TrainingTest, PenaltiesOfTheWrongSignCostNothing) {
  Variable v = Var({1, 2}), a = Var({3, 3});
  const Result r =
      Kernel("ResourceApplyProximalAdagrad")
          .Run({Handle(v), Handle(a), Scalar(0.5f), Scalar(-0.25f), Scalar(0.1f), Vector<float>({1, 1})}, {});
  EXPECT_EQ(r.code, TENON_INVALID_ARGUMENT);
  EXPECT_EQ(Values<float>(v.value), (F{1, 2}));
  EXPECT_EQ(Values<float>(a.value), (F{3, 3}));
}

TEST_P(TrainingTest, ReferencesGiveTheVariableBack) {
  Variable v = Var({1});
  const Tensor out{TENON_DT_FLOAT + TENON_DT_REF, {}};
  const Result r =
      Kernel("ApplyGradientDescent").Run({Reference(v, TENON_DT_FLOAT), Scalar(1.f), Vector<float>({1})}, {out});
  EXPECT_EQ(testing::ResourceOf(r[0]), &v);
}

INSTANTIATE_TEST_SUITE_P(Memory, TrainingTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "InPlace" : "Copied"; });

// ---- Random numbers ----

// The known answers of the Random123 distribution for philox4x32-10.
TEST(Philox, GivesThePublishedAnswers) {
  EXPECT_EQ(Philox({0, 0}, {0, 0, 0, 0}).Next(), (Philox::Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox({~0u, ~0u}, {~0u, ~0u, ~0u, ~0u}).Next(),
            (Philox::Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox({0xa4093822, 0x299f31d0}, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}).Next(),
            (Philox::Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, SkipsAsManyBlocksAsItIsTold) {
  Philox a(7, 9), b(7, 9);
  for (int i = 0; i < 5; ++i) a.Next();
  b.Skip(5);
  EXPECT_EQ(a.Next(), b.Next());
}

TEST(Philox, GivesManyBlocksAsItGivesThemOneByOne) {
  for (uint32_t low : {0u, ~0u - 20}) {
    for (uint32_t high : {5u, ~0u}) {
      Philox many({3, 4}, {low, high, ~0u, 6}), one = many;
      for (int turn = 0; turn < 2; ++turn) {
        Philox::Many words;
        many.NextMany(words);
        for (size_t i = 0; i < Philox::kMany; ++i) ASSERT_EQ(Philox::Get(words, i), one.Next()) << i;
      }
    }
  }
}

Kernel Random(const char* op, int64_t seed) {
  Kernel kernel(op);
  kernel.Attr("seed", seed).Attr("seed2", int64_t{5});
  return kernel;
}

TEST(Random, IsTheSameStreamWhateverTheThreadsAndGoesOnWithEveryRun) {
  for (const char* op : {"RandomUniform", "RandomStandardNormal", "TruncatedNormal"}) {
    const Tensor shape = Vector<int32_t>({5003});
    Kernel one = Random(op, 1), other = Random(op, 1), third = Random(op, 2);
    other.Threads(4);
    const auto a = Values<float>(one.Run({shape}, {Out<float>({5003})})[0]);
    EXPECT_EQ(a, Values<float>(other.Run({shape}, {Out<float>({5003})})[0])) << op;
    const auto next = Values<float>(one.Run({shape}, {Out<float>({5003})})[0]);
    EXPECT_NE(a, next) << op;
    EXPECT_EQ(next, Values<float>(other.Run({shape}, {Out<float>({5003})})[0])) << op;
    EXPECT_NE(a, Values<float>(third.Run({shape}, {Out<float>({5003})})[0])) << op;
  }
}

TEST(Random, TakesUniformNumbersFromTheLowBitsOfEachWord) {
  Kernel kernel = Random("RandomUniform", 3);
  const auto got = Values<float>(kernel.Run({Vector<int32_t>({8})}, {Out<float>({8})})[0]);
  Philox generator(3, 5);
  for (size_t group = 0; group < 2; ++group) {
    const Philox::Block block = generator.Next();
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(got[4 * group + i], static_cast<float>(block[i] & 0x7fffff) * 0x1p-23f);
    }
  }
  // The next run begins 256 blocks an element later.
  const auto next = Values<float>(kernel.Run({Vector<int32_t>({1})}, {Out<float>({1})})[0]);
  Philox later(3, 5);
  later.Skip(8 * 256);
  EXPECT_EQ(next[0], static_cast<float>(later.Next()[0] & 0x7fffff) * 0x1p-23f);
}

TEST(Random, HasTheMomentsOfItsDistribution) {
  const auto moments = [](const char* op, double* mean, double* variance, float* largest) {
    const auto x = Values<double>(Random(op, 11).Run({Vector<int32_t>({40000})}, {Out<double>({40000})})[0]);
    *mean = *variance = *largest = 0;
    for (double v : x) *mean += v / 40000, *largest = std::max(*largest, static_cast<float>(std::fabs(v)));
    for (double v : x) *variance += (v - *mean) * (v - *mean) / 40000;
  };
  double mean, variance;
  float largest;
  moments("RandomUniform", &mean, &variance, &largest);
  EXPECT_NEAR(mean, 0.5, 0.01);
  EXPECT_NEAR(variance, 1.0 / 12, 0.003);
  EXPECT_LT(largest, 1.f);
  moments("RandomStandardNormal", &mean, &variance, &largest);
  EXPECT_NEAR(mean, 0, 0.02);
  EXPECT_NEAR(variance, 1, 0.03);
  moments("TruncatedNormal", &mean, &variance, &largest);
  EXPECT_NEAR(variance, 0.774, 0.03);
  EXPECT_LT(largest, 2.f);
}

TEST(Random, KeepsIntegersInTheirRange) {
  Kernel kernel = Random("RandomUniformInt", 4);
  for (int32_t v : Values<int32_t>(
           kernel.Run({Vector<int32_t>({1001}), Scalar<int32_t>(-3), Scalar<int32_t>(4)}, {Out<int32_t>({1001})})[0])) {
    EXPECT_TRUE(v >= -3 && v < 4);
  }
  EXPECT_EQ(kernel.Run({Vector<int32_t>({1}), Scalar<int64_t>(4), Scalar<int64_t>(4)}, {Out<int64_t>({1})}).message,
            "Need minval < maxval, got 4 >= 4");
}

}  // namespace
}  // namespace tenon::cpu::state_test
