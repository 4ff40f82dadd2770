// SPDX-License-Identifier: Apache-2.0
// Code of loops, without an engine, of all levels that this machine has: against loops in C++.
#include "loop/loop.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "emit/generator.h"
#include "tenon/dtype.h"

namespace tenon::cpu_codegen::loop_test {
namespace {


// A loop that is being written, and what it is called with: each value its number.
class Maker {
 public:
  Maker(Level level, bool is_single) {
    loop_.body.level = level;
    if (is_single) loop_.body.lanes = 4;
  }
  int Input(uint32_t dtype) {
    loop_.body.inputs.push_back({dtype, true});
    return static_cast<int>(loop_.body.inputs.size()) - 1;
  }
  int Add(Function function, uint32_t dtype, std::vector<int> operands) {
    loop_.body.nodes.push_back({function, dtype, std::move(operands), 0});
    return static_cast<int>(loop_.body.inputs.size() + loop_.body.nodes.size()) - 1;
  }
  void Condition(int value) {
    loop_.condition = value;
    loop_.condition_nodes = static_cast<int>(loop_.body.nodes.size());
  }
  void Next(std::vector<int> next) { loop_.next = std::move(next); }
  const Loop& loop() const { return loop_; }

 private:
  Loop loop_;
};

// Registers of elements, and calls of so many turns until the condition fails; how many calls.
class States {
 public:
  template <class Number>
  void Set(size_t input, const std::vector<Number>& elements) {
    std::memcpy(states_.at(input).data(), elements.data(), elements.size() * sizeof(Number));
  }
  template <class Number>
  Number Get(size_t input, size_t lane = 0) const {
    Number number;
    std::memcpy(&number, states_.at(input).data() + lane * sizeof number, sizeof number);
    return number;
  }
  int Run(const Code& code, size_t inputs, int64_t turns) {
    Call call;
    for (size_t i = 0; i < inputs; ++i) call.inputs[i] = states_[i].data();
    for (int calls = 1;; ++calls) {
      call.count = turns;
      code.Run(call);
      if (call.count > 0) return calls;
      if (calls > 100000) return -1;
    }
  }

 private:
  struct alignas(64) State : std::array<uint8_t, 64> {};
  std::array<State, kMostInputs> states_ = {};
};

class LoopCode : public ::testing::TestWithParam<std::tuple<Level, bool>> {
 protected:
  void SetUp() override {
    if (std::get<0>(GetParam()) > BestLevel() || BestLevel() == Level::kNone) GTEST_SKIP() << "not on this processor";
  }
  Maker Make() const { return {std::get<0>(GetParam()), std::get<1>(GetParam())}; }
};

// i, a, b = i + 1, b, a + b: the second is a copy of the first, as both change at once.
TEST_P(LoopCode, FibonacciNumbersWhereverTheCallsEnd) {
  Maker maker = Make();
  const int i = maker.Input(TENON_DT_INT32), a = maker.Input(TENON_DT_INT64), b = maker.Input(TENON_DT_INT64),
            limit = maker.Input(TENON_DT_INT32), one = maker.Input(TENON_DT_INT32);
  maker.Condition(maker.Add(Function::kLess, TENON_DT_BOOL, {i, limit}));
  const int next = maker.Add(Function::kAdd, TENON_DT_INT32, {i, one}),
            sum = maker.Add(Function::kAdd, TENON_DT_INT64, {a, b}),
            copy = maker.Add(Function::kCast, TENON_DT_INT64, {b});
  maker.Next({next, copy, sum});
  const auto code = CodeOfLoop(maker.loop());
  ASSERT_NE(code, nullptr);
  for (const int64_t turns : {1, 3, 60, 1000}) {
    States states;
    states.Set<int64_t>(static_cast<size_t>(b), {1});
    states.Set<int32_t>(static_cast<size_t>(limit), {60});
    states.Set<int32_t>(static_cast<size_t>(one), {1});
    EXPECT_EQ(states.Run(*code, 5, turns), turns > 60 ? 1 : 60 / turns + 1);
    EXPECT_EQ(states.Get<int32_t>(static_cast<size_t>(i)), 60);
    EXPECT_EQ(states.Get<int64_t>(static_cast<size_t>(a)), INT64_C(1548008755920));
    EXPECT_EQ(states.Get<int64_t>(static_cast<size_t>(b)), INT64_C(2504730781961));
  }
}

// More variables than there are registers, each of which hangs on two others.
TEST_P(LoopCode, MoreVariablesThanRegisters) {
  constexpr int kVariables = 22;
  Maker maker = Make();
  for (int v = 0; v < kVariables; ++v) maker.Input(TENON_DT_FLOAT);
  const int limit = maker.Input(TENON_DT_FLOAT), half = maker.Input(TENON_DT_FLOAT);
  maker.Condition(maker.Add(Function::kLess, TENON_DT_BOOL, {0, limit}));
  std::vector<int> products, next;
  for (int v = 0; v < kVariables; ++v) products.push_back(maker.Add(Function::kMul, TENON_DT_FLOAT, {v, half}));
  for (int v = 0; v < kVariables; ++v)
    next.push_back(maker.Add(Function::kAdd, TENON_DT_FLOAT,
                             {(v + 1) % kVariables, products[static_cast<size_t>((v + 7) % kVariables)]}));
  maker.Next(next);
  const auto code = CodeOfLoop(maker.loop());
  ASSERT_NE(code, nullptr);
  std::vector<float> right(kVariables);
  States states;
  for (int v = 0; v < kVariables; ++v)
    states.Set<float>(static_cast<size_t>(v), {right[static_cast<size_t>(v)] = static_cast<float>(v % 5)});
  states.Set<float>(static_cast<size_t>(limit), {1e4f});
  states.Set<float>(static_cast<size_t>(half), {0.5f});
  while (right[0] < 1e4f) {
    std::vector<float> turned;
    for (int v = 0; v < kVariables; ++v)
      turned.push_back(right[static_cast<size_t>((v + 1) % kVariables)] +
                       right[static_cast<size_t>((v + 7) % kVariables)] * 0.5f);
    right = turned;
  }
  EXPECT_GE(states.Run(*code, kVariables + 2, 4), 3);
  for (int v = 0; v < kVariables; ++v)
    EXPECT_EQ(states.Get<float>(static_cast<size_t>(v)), right[static_cast<size_t>(v)]) << v;
}

// Lanes of their own, a truth that is carried, and what is made before the condition is asked.
TEST_P(LoopCode, EveryLaneGoesItsOwnWay) {
  Maker maker = Make();
  const int x = maker.Input(TENON_DT_FLOAT), goes = maker.Input(TENON_DT_BOOL), i = maker.Input(TENON_DT_INT32),
            of = maker.Input(TENON_DT_FLOAT), half = maker.Input(TENON_DT_FLOAT), one = maker.Input(TENON_DT_INT32),
            limit = maker.Input(TENON_DT_INT32);
  const int ratio = maker.Add(Function::kDiv, TENON_DT_FLOAT, {of, x});
  maker.Condition(goes);
  const int sum = maker.Add(Function::kAdd, TENON_DT_FLOAT, {ratio, x}),
            better = maker.Add(Function::kMul, TENON_DT_FLOAT, {sum, half}),
            turn = maker.Add(Function::kAdd, TENON_DT_INT32, {i, one}),
            more = maker.Add(Function::kLess, TENON_DT_BOOL, {turn, limit});
  maker.Next({better, more, turn});
  const auto code = CodeOfLoop(maker.loop());
  ASSERT_NE(code, nullptr);
  const auto lanes = static_cast<size_t>(maker.loop().body.Lanes());
  EXPECT_EQ(lanes, std::get<1>(GetParam()) ? 4u : std::get<0>(GetParam()) == Level::kAvx512 ? 16u : 8u);
  States states;
  std::vector<float> numbers;
  for (size_t lane = 0; lane < lanes; ++lane) numbers.push_back(static_cast<float>(lane * lane + 2));
  states.Set(0, std::vector<float>(lanes, 1));
  states.Set(1, std::vector<int32_t>(lanes, -1));
  states.Set(3, numbers);
  states.Set(4, std::vector<float>(lanes, 0.5f));
  states.Set(5, std::vector<int32_t>(lanes, 1));
  states.Set(6, std::vector<int32_t>(lanes, 30));
  EXPECT_EQ(states.Run(*code, 7, 7), 5);
  EXPECT_EQ(states.Get<int32_t>(1), 0);
  EXPECT_EQ(states.Get<int32_t>(2), 30);
  for (size_t lane = 0; lane < lanes; ++lane) {
    float right = 1;
    for (int turn_now = 0; turn_now < 30; ++turn_now) right = (numbers[lane] / right + right) * 0.5f;
    EXPECT_EQ(states.Get<float>(0, lane), right) << lane;
  }
}

TEST_P(LoopCode, NoTurnAtAllLeavesAllAsItIs) {
  Maker maker = Make();
  const int x = maker.Input(TENON_DT_DOUBLE), never = maker.Input(TENON_DT_BOOL);
  maker.Condition(never);
  maker.Next({maker.Add(Function::kSquare, TENON_DT_DOUBLE, {x})});
  const auto code = CodeOfLoop(maker.loop());
  ASSERT_NE(code, nullptr);
  States states;
  states.Set<double>(0, {3.5});
  EXPECT_EQ(states.Run(*code, 2, 5), 1);
  EXPECT_EQ(states.Get<double>(0), 3.5);
}

INSTANTIATE_TEST_SUITE_P(Levels, LoopCode,
                         ::testing::Combine(::testing::Values(Level::kAvx2, Level::kAvx512), ::testing::Bool()),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param) == Level::kAvx2 ? "Avx2" : "Avx512") +
                                  (std::get<1>(info.param) ? "Single" : "Lanes");
                         });

// What decides about equal code is in the key.
TEST(LoopKey, TellsLoopsApart) {
  Maker a(Level::kAvx2, true), b(Level::kAvx2, false);
  EXPECT_NE(a.loop().Key(), b.loop().Key());
  EXPECT_NE(a.loop().Key(), a.loop().body.Key());
  Loop c = a.loop(), d = a.loop();
  c.condition = 1;
  d.condition_nodes = 1;
  EXPECT_NE(c.Key(), d.Key());
}

}  // namespace
}  // namespace tenon::cpu_codegen::loop_test
