// SPDX-License-Identifier: Apache-2.0
// The code itself, without an engine: against functions of the C++ library, of all levels that this machine has; at
// every count and alignment, between pages that nobody may touch.
#include "emit/generator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <random>

#include "code/code.h"
#include "run/chain_stages.h"
#include "tenon/dtype.h"
#include "tenon/sdk/kernel/half.h"
#include "testing/generator_testing.h"

namespace tenon::cpu_codegen::generator_test {
namespace {

Program Unary(Level level, Function function, uint32_t dtype) {
  return {level, false, {{dtype, false}}, {{function, dtype, {0}}}, {1}};
}

struct Accuracy {
  double most = 0;  // places between results and the right numbers, rounded
  float at = 0;
};

// Every `step`-th float there is.
Accuracy Try(Level level, Function function, uint32_t step, const std::function<double(double)>& right) {
  const auto code = CodeOf(Unary(level, function, TENON_DT_FLOAT));
  constexpr size_t kMany = 4096;
  std::vector<float> in(kMany), out(kMany);
  Accuracy accuracy;
  for (uint64_t bits = 0; bits < (UINT64_C(1) << 32);) {
    int64_t count = 0;
    for (; count < static_cast<int64_t>(kMany) && bits < (UINT64_C(1) << 32); bits += step)
      in[static_cast<size_t>(count++)] = std::bit_cast<float>(static_cast<uint32_t>(bits));
    Call call{{in.data()}, {out.data()}, count, 1, {}, {}};
    code->Run(call);
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
      const auto want = static_cast<float>(right(static_cast<double>(in[i])));
      if (std::isnan(want) || std::isnan(out[i])) {
        if (std::isnan(want) != std::isnan(out[i])) return {1e9, in[i]};
        continue;
      }
      // Where e^-x may be infinite.
      if (function == Function::kSigmoid && std::fabs(want) < 0x1p-126f && std::fabs(out[i]) < 0x1p-126f) continue;
      const auto rank = [](float x) {
        return std::bit_cast<int32_t>(x) < 0 ? -static_cast<double>(std::bit_cast<uint32_t>(x) & 0x7fffffffu)
                                             : static_cast<double>(std::bit_cast<uint32_t>(x));
      };
      if (const double places = std::fabs(rank(want) - rank(out[i])); places > accuracy.most)
        accuracy = {places, in[i]};
      if (want == 0 && out[i] == 0 && std::signbit(want) != std::signbit(out[i])) return {1e8, in[i]};
    }
  }
  return accuracy;
}

// TENON_FLOAT_STEP=1: all floats there are, which takes an hour.
uint32_t Step() {
  const char* const asked = std::getenv("TENON_FLOAT_STEP");
  return asked == nullptr ? 997 : static_cast<uint32_t>(std::max(1, std::atoi(asked)));
}

struct Known {
  Function function;
  const char* name;
  double most;  // as GENERATED_CODE.md says
  double (*right)(double);
};
double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double Softplus(double x) { return x > 13.942385 ? x : x < -13.942385 ? std::exp(x) : std::log1p(std::exp(x)); }

TEST(Generator, FunctionsAreAsExactAsTheReadmeSays) {
  const Known all[] = {{Function::kExp, "Exp", 1, std::exp},          {Function::kExpm1, "Expm1", 2, std::expm1},
                       {Function::kLog, "Log", 2, std::log},          {Function::kLog1p, "Log1p", 2, std::log1p},
                       {Function::kTanh, "Tanh", 5, std::tanh},       {Function::kSigmoid, "Sigmoid", 3, Sigmoid},
                       {Function::kErf, "Erf", 1, std::erf},          {Function::kSqrt, "Sqrt", 0, std::sqrt},
                       {Function::kSoftplus, "Softplus", 4, Softplus}};
  for (const Level level : Levels())
    for (const Known& known : all) {
      const Accuracy found = Try(level, known.function, Step(), known.right);
      EXPECT_LE(found.most, known.most) << known.name << " of " << found.at << ", level " << static_cast<int>(level);
      std::printf("%s, level %d: %g places at most, at %.9g\n", known.name, static_cast<int>(level), found.most,
                  static_cast<double>(found.at));
    }
}

// Casts between all types: an input and a result of each, at both ends of their memory, of every count up to some
// registers and every offset.
TEST(Generator, NothingBesideTheElementsIsTouched) {
  const Guarded in, out;
  for (const Level level : Levels())
    for (const Kind& from : kKinds)
      for (const Kind& to : kKinds) {
        if (!IsGenerated(Function::kCast, {from.dtype}, to.dtype, level)) continue;
        const auto code = CodeOf({level, false, {{from.dtype, false}}, {{Function::kCast, to.dtype, {0}}}, {1}});
        ASSERT_NE(code, nullptr);
        std::memset(in.begin(), 0, in.size());
        for (int64_t count = 0; count <= 40; ++count) {
          for (size_t shift = 0; shift < 64; shift += from.size) {
            const auto n = static_cast<size_t>(count);
            for (const bool at_end : {false, true}) {
              char* const x = at_end ? in.end() - n * from.size - (shift == 0 ? 0 : shift) : in.begin() + shift;
              const size_t out_shift = shift / from.size * to.size;
              char* const y = at_end ? out.end() - n * to.size - out_shift : out.begin() + out_shift;
              std::memset(out.begin(), 0x5a, out.size());
              Call call{{x}, {y}, count, 1, {}, {}};
              code->Run(call);
              const auto is_untouched = [](const char* begin, const char* end) {
                return std::all_of(begin, end, [](char c) { return c == 0x5a; });
              };
              ASSERT_TRUE(is_untouched(out.begin(), y) && is_untouched(y + n * to.size, out.end()))
                  << "from " << from.dtype << " to " << to.dtype << ", " << count << " elements";
              ASSERT_TRUE(std::all_of(y, y + n * to.size, [](char c) { return c == 0; }));
            }
          }
        }
      }
}

// More values that live at once than there are registers, and more operands than pointers.
TEST(Generator, ValuesThatDoNotFitIntoRegistersGoToTheStack) {
  for (const Level level : Levels()) {
    Program program{level, false, {}, {}, {}};
    constexpr int kInputs = static_cast<int>(kMostInputs);
    for (int i = 0; i < kInputs; ++i) program.inputs.push_back({TENON_DT_FLOAT, i % 5 == 1});
    // Sums from both ends: all inputs, then all sums, are needed to the last.
    for (int i = 0; i < kInputs; ++i) program.nodes.push_back({Function::kAdd, TENON_DT_FLOAT, {i, kInputs - 1 - i}});
    for (int i = 0; i + 1 < kInputs; ++i)
      program.nodes.push_back(
          {Function::kSub, TENON_DT_FLOAT, {i == 0 ? kInputs : 2 * kInputs + i - 1, kInputs + (i * 7) % kInputs}});
    for (size_t k = 0; k < kMostOutputs; ++k)
      program.outputs.push_back(2 * kInputs + kInputs - 2 - static_cast<int>(k));
    const auto code = CodeOf(program);
    ASSERT_NE(code, nullptr);
    for (const int64_t count : {1, 7, 16, 100}) {
      std::vector<std::vector<float>> values;
      for (int i = 0; i < kInputs; ++i) {
        values.emplace_back(static_cast<size_t>(count));
        for (int64_t e = 0; e < count; ++e)
          values.back()[static_cast<size_t>(e)] = static_cast<float>((i * 31 + e * 17) % 101) / 8;
      }
      std::vector<std::vector<float>> results(kMostOutputs, std::vector<float>(static_cast<size_t>(count)));
      Call call;
      for (int i = 0; i < kInputs; ++i) call.inputs[i] = values[static_cast<size_t>(i)].data();
      for (size_t k = 0; k < kMostOutputs; ++k) call.outputs[k] = results[k].data();
      call.count = count;
      code->Run(call);
      for (size_t e = 0; e < static_cast<size_t>(count); ++e) {
        std::vector<float> all;
        for (size_t i = 0; i < values.size(); ++i) all.push_back(values[i][program.inputs[i].is_single ? 0 : e]);
        for (const Node& node : program.nodes) {
          const float a = all[static_cast<size_t>(node.operands[0])], b = all[static_cast<size_t>(node.operands[1])];
          all.push_back(node.function == Function::kAdd ? a + b : a - b);
        }
        for (size_t k = 0; k < kMostOutputs; ++k)
          ASSERT_EQ(results[k][e], all[static_cast<size_t>(program.outputs[k])])
              << "element " << e << " of result " << k << ", level " << static_cast<int>(level);
      }
    }
  }
}

// Random bits through conversions and back: the processor's are the language's.
TEST(Generator, HalvesAreRoundedToNearestEven) {
  std::mt19937 random(1);
  std::vector<float> in;
  for (int i = 0; i < 100000; ++i) in.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  for (const float special : {0.f, -0.f, 65504.f, 65519.f, 65520.f, 1e-8f, 6e-8f, 5.96e-8f, 2.98e-8f, 3.4e38f})
    in.push_back(special);
  const auto count = static_cast<int64_t>(in.size());
  std::vector<uint16_t> out(in.size());
  for (const Level level : Levels()) {
    const auto check = [&]<class Half>(uint32_t dtype, Half) {
      const auto code = CodeOf({level, false, {{TENON_DT_FLOAT, false}}, {{Function::kCast, dtype, {0}}}, {1}});
      Call call{{in.data()}, {out.data()}, count, 1, {}, {}};
      code->Run(call);
      for (size_t i = 0; i < in.size(); ++i) {
        if (std::isnan(in[i])) {
          EXPECT_TRUE(std::isnan(static_cast<float>(std::bit_cast<Half>(out[i]))));
        } else {
          ASSERT_EQ(out[i], Half(in[i]).bits) << in[i];
        }
      }
    };
    check(TENON_DT_HALF, sdk::Half());
    check(TENON_DT_BFLOAT16, sdk::Bfloat16());
  }
}

// Programs of any functions and types, with more values than registers: an element has the same bits wherever it
// stands, in whole registers and among the last.
TEST(Generator, ElementsDoNotDependOnTheirPlace) {
  std::mt19937 random(3);
  const auto up = [&](size_t end) { return static_cast<size_t>(random()) % end; };
  int tried = 0;
  for (int round = 0; round < 400; ++round) {
    const Level level = Levels()[up(Levels().size())];
    Program program{level, false, {}, {}, {}};
    for (size_t i = 0, count = 1 + up(kMostInputs); i < count; ++i)
      program.inputs.push_back({kKinds[up(std::size(kKinds))].dtype, up(5) == 0});
    for (size_t n = 0, count = 1 + up(kMostNodes); n < count; ++n) {
      const size_t values = program.inputs.size() + program.nodes.size();
      for (int attempt = 0; attempt < 40; ++attempt) {
        const auto function = static_cast<Function>(up(static_cast<size_t>(Function::kUnknown)));
        const size_t arity = function <= Function::kCast   ? 1
                             : function <= Function::kOr   ? 2
                             : function == Function::kAddN ? 2 + up(3)
                                                           : 3;
        Node node{function, kKinds[up(std::size(kKinds))].dtype, {}, 0.3f};
        std::vector<uint32_t> types;
        for (size_t i = 0; i < arity; ++i) {
          node.operands.push_back(static_cast<int>(up(values)));
          types.push_back(program.DtypeOf(node.operands.back()));
        }
        if (!IsGenerated(function, types, node.dtype, level)) continue;
        program.nodes.push_back(node);
        break;
      }
    }
    if (program.nodes.empty()) continue;
    for (size_t n = 0; n < program.nodes.size() && program.outputs.size() < kMostOutputs; ++n)
      if (n + 1 == program.nodes.size() || up(4) == 0)
        program.outputs.push_back(static_cast<int>(program.inputs.size() + n));
    const auto code = CodeOf(program);
    ASSERT_NE(code, nullptr);
    ++tried;
    constexpr int64_t kCount = 53;
    const auto size_of = [](uint32_t dtype) {
      return std::find_if(std::begin(kKinds), std::end(kKinds), [&](const Kind& kind) { return kind.dtype == dtype; })
          ->size;
    };
    std::vector<std::vector<char>> in, whole, single;
    for (const Input& input : program.inputs) {
      in.emplace_back(size_of(input.dtype) * kCount);
      for (char& byte : in.back()) byte = static_cast<char>(input.dtype == TENON_DT_BOOL ? random() & 1 : random());
    }
    for (const int output : program.outputs) {
      whole.emplace_back(size_of(program.DtypeOf(output)) * kCount, 0);
      single.push_back(whole.back());
    }
    const auto run = [&](std::vector<std::vector<char>>& out, int64_t at, int64_t count, int64_t rows = 1) {
      Call call;
      call.rows = rows;
      for (size_t i = 0; i < in.size(); ++i)
        call.input_steps[i] =
            program.inputs[i].is_single ? 0 : count * static_cast<int64_t>(size_of(program.inputs[i].dtype));
      for (size_t k = 0; k < out.size(); ++k)
        call.output_steps[k] = count * static_cast<int64_t>(size_of(program.DtypeOf(program.outputs[k])));
      for (size_t i = 0; i < in.size(); ++i)
        call.inputs[i] = in[i].data() +
                         (program.inputs[i].is_single ? 0 : static_cast<size_t>(at) * size_of(program.inputs[i].dtype));
      for (size_t k = 0; k < out.size(); ++k)
        call.outputs[k] = out[k].data() + static_cast<size_t>(at) * size_of(program.DtypeOf(program.outputs[k]));
      call.count = count;
      code->Run(call);
    };
    run(whole, 0, kCount);
    for (int64_t at = 0; at < kCount;) {
      const int64_t count = std::min<int64_t>(kCount - at, 1 + static_cast<int64_t>(up(9)));
      run(single, at, count);
      at += count;
    }
    std::vector<std::vector<char>> rows = whole;
    for (auto& result : rows) std::fill(result.begin(), result.end(), 0);
    run(rows, 0, 13, 4);
    run(rows, 52, 1);
    ASSERT_EQ(rows, whole) << "round " << round << ", in rows, level " << static_cast<int>(level);
    for (size_t k = 0; k < whole.size(); ++k)
      ASSERT_EQ(whole[k], single[k]) << "round " << round << ", result " << k << " of type "
                                     << program.DtypeOf(program.outputs[k]) << ", level " << static_cast<int>(level);
  }
  EXPECT_GT(tried, Levels().empty() ? -1 : 300);
}

// Rows that add to sums, beside a result that ends where nobody may touch: of every count, the sums' own registers'
// worth behind the last of them.
TEST(Generator, RowsAddToSums) {
  const Guarded x, y;
  for (const Level level : Levels())
    for (const bool is_half : {false, true})
      for (const bool stores : {false, true})
        for (int64_t count = 1; count <= 70; ++count) {
          constexpr int64_t kRows = 5;
          const uint32_t dtype = is_half ? TENON_DT_BFLOAT16 : TENON_DT_FLOAT;
          const int64_t size = is_half ? 2 : 4;
          Program program{
              level, false, {{dtype, false}, {TENON_DT_FLOAT, false, true}}, {{Function::kRelu, dtype, {0}}}, {}};
          if (is_half) program.nodes.push_back({Function::kCast, TENON_DT_FLOAT, {2}});
          const int last = is_half ? 3 : 2;
          program.nodes.push_back({Function::kAdd, TENON_DT_FLOAT, {1, last}});
          program.outputs = {last + 1};
          if (stores) program.outputs.push_back(2);
          const Stages stages(program);
          char *const from = x.end() - kRows * count * size, *const to = y.end() - kRows * count * size;
          std::vector<float> sums(80, 0.f), right(80, 0.f);
          for (int64_t i = 0; i < kRows * count; ++i) {
            const float value = static_cast<float>((i * 37) % 64) - 32;
            if (is_half) reinterpret_cast<sdk::Bfloat16*>(from)[i] = sdk::Bfloat16(value);
            else reinterpret_cast<float*>(from)[i] = value;
            right[static_cast<size_t>(i % count)] += std::max(0.f, value);
          }
          Operands operands{};
          operands.at = {from, reinterpret_cast<char*>(sums.data()), reinterpret_cast<char*>(sums.data()), to};
          operands.row = {count * size, 0, 0, count * size};
          stages.Run(operands, kRows, count);
          for (int64_t j = 0; j < count; ++j)
            ASSERT_EQ(sums[static_cast<size_t>(j)], right[static_cast<size_t>(j)])
                << count << " columns, level " << static_cast<int>(level);
          for (int64_t i = 0; stores && i < kRows * count; ++i) {
            const float got =
                is_half ? static_cast<float>(reinterpret_cast<sdk::Bfloat16*>(to)[i]) : reinterpret_cast<float*>(to)[i];
            ASSERT_EQ(got, std::max(0.f, static_cast<float>((i * 37) % 64) - 32))
                << count << " columns, level " << static_cast<int>(level);
          }
        }
}

// x y + z, x y - z and z - x y, at the end of pages, the result in the memory of z.
TEST(Generator, ProductsAndWhatIsAddedAreRoundedOnce) {
  const Guarded x, y, z;
  std::mt19937 random(11);
  const auto number = [&]<class T>(T) {
    const T special[] = {T(0),
                         -T(0),
                         std::numeric_limits<T>::infinity(),
                         -std::numeric_limits<T>::infinity(),
                         std::numeric_limits<T>::quiet_NaN(),
                         std::numeric_limits<T>::denorm_min()};
    return random() % 12 == 0 ? special[random() % std::size(special)]
                              : static_cast<T>(random() % 4096) / T(37) - T(55);
  };
  const auto check = [&]<class T>(T zero, uint32_t dtype) {
    for (const Level level : Levels())
      for (const Function function : {Function::kPlusProduct, Function::kProductMinus, Function::kMinusProduct})
        for (size_t count = 1; count <= 70; ++count) {
          T *const a = reinterpret_cast<T*>(x.end()) - count, *const b = reinterpret_cast<T*>(y.end()) - count,
                   *const c = reinterpret_cast<T*>(z.end()) - count;
          std::vector<T> right(count);
          for (size_t i = 0; i < count; ++i) {
            a[i] = number(zero), b[i] = number(zero), c[i] = number(zero);
            right[i] = function == Function::kPlusProduct    ? std::fma(a[i], b[i], c[i])
                       : function == Function::kProductMinus ? std::fma(a[i], b[i], -c[i])
                                                             : std::fma(-a[i], b[i], c[i]);
          }
          const auto code = CodeOf(
              {level, false, {{dtype, false}, {dtype, false}, {dtype, false}}, {{function, dtype, {0, 1, 2}}}, {3}});
          ASSERT_NE(code, nullptr);
          Call call{{a, b, c}, {c}, static_cast<int64_t>(count), 1, {}, {}};
          code->Run(call);
          for (size_t i = 0; i < count; ++i)
            ASSERT_TRUE(std::memcmp(&c[i], &right[i], sizeof(T)) == 0 || (std::isnan(c[i]) && std::isnan(right[i])))
                << a[i] << " " << b[i] << ": " << c[i] << ", not " << right[i];
        }
  };
  check(0.f, TENON_DT_FLOAT);
  check(0.0, TENON_DT_DOUBLE);
}

TEST(Generator, EqualProgramsAreOne) {
  for (const Level level : Levels()) {
    const auto a = CodeOf(Unary(level, Function::kNeg, TENON_DT_FLOAT)),
               b = CodeOf(Unary(level, Function::kNeg, TENON_DT_FLOAT));
    EXPECT_EQ(a, b);
    EXPECT_NE(a, CodeOf(Unary(level, Function::kAbs, TENON_DT_FLOAT)));
    Program leaky = Unary(level, Function::kLeakyRelu, TENON_DT_FLOAT), other = leaky;
    other.nodes[0].number = 0.5;
    EXPECT_NE(leaky.Key(), other.Key());
  }
}

}  // namespace
}  // namespace tenon::cpu_codegen::generator_test
