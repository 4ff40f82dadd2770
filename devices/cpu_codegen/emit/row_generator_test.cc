// SPDX-License-Identifier: Apache-2.0
// Code of rows, without an engine: every node against the order of additions that devices/cpu's kernels have, written
// down here once more; against sums in double; and beside pages that nobody may touch.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <random>

#include "code/code.h"
#include "emit/generator.h"
#include "emit/row_plan.h"
#include "tenon/sdk/kernel/half.h"
#include "testing/generator_testing.h"

namespace tenon::cpu_codegen::row_generator_test {
namespace {

using Bytes = std::vector<char>;
size_t SizeOfType(uint32_t dtype) {
  return std::find_if(std::begin(kKinds), std::end(kKinds), [&](const Kind& kind) { return kind.dtype == dtype; })
      ->size;
}

// ---- One reduction, as the kernels do it ----

template <class A>
A Step(Function f, A x, A y) {
  using enum Function;
  switch (f) {
    case kProd:
      if constexpr (std::is_integral_v<A>)
        return static_cast<A>(static_cast<std::make_unsigned_t<A>>(x) * static_cast<std::make_unsigned_t<A>>(y));
      else return x * y;
    case kMax: return x != x ? x : x > y ? x : y;
    case kMin: return x != x ? x : x < y ? x : y;
    case kLargest: return y > x ? y : x;
    default:
      if constexpr (std::is_integral_v<A>)
        return static_cast<A>(static_cast<std::make_unsigned_t<A>>(x) + static_cast<std::make_unsigned_t<A>>(y));
      else return x + y;
  }
}
template <class A>
A First(Function f) {
  using enum Function;
  using Limits = std::numeric_limits<A>;
  if (f == kProd) return A(1);
  if (f == kMax || f == kLargest) return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  if (f == kMin) return Limits::has_infinity ? Limits::infinity() : Limits::max();
  return A(0);
}
template <class A>
A OfBlock(Function f, const std::vector<A>& x, size_t begin, size_t end) {
  using enum Function;
  const size_t many = f == kSum || f == kMean ? 512 : f == kProd ? 128 : 64, count = end - begin < many ? 16 : 64;
  std::vector<A> lanes(count, First<A>(f));
  for (size_t i = begin; i < end; ++i) lanes[(i - begin) % count] = Step(f, lanes[(i - begin) % count], x[i]);
  for (size_t half = count / 2; half > 0; half /= 2)
    for (size_t l = 0; l < half; ++l) lanes[l] = Step(f, lanes[l], lanes[l + half]);
  return lanes[0];
}
template <class A, class S>
S OfRow(Function f, const std::vector<A>& x) {
  S total = First<S>(f);
  for (size_t i = 0; i < x.size(); i += 1024)
    total = Step(f, total, static_cast<S>(OfBlock(f, x, i, std::min(x.size(), i + 1024))));
  return f == Function::kMean ? static_cast<S>(total / static_cast<S>(x.size())) : total;
}

template <class T, class A>
void ReduceAs(Function f, const char* row, size_t count, char* out) {
  std::vector<A> x(count);
  for (size_t i = 0; i < count; ++i) {
    T element;
    std::memcpy(&element, row + i * sizeof(T), sizeof(T));
    x[i] = static_cast<A>(element);
  }
  A result;
  if constexpr (std::is_same_v<A, float>)
    result =
        f == Function::kSum || f == Function::kMean ? static_cast<float>(OfRow<A, double>(f, x)) : OfRow<A, A>(f, x);
  else result = OfRow<A, A>(f, x);
  const T rounded = static_cast<T>(result);
  std::memcpy(out, &rounded, sizeof rounded);
}
void Reduce(Function f, uint32_t dtype, const char* row, size_t count, char* out) {
  switch (dtype) {
    case TENON_DT_FLOAT: return ReduceAs<float, float>(f, row, count, out);
    case TENON_DT_DOUBLE: return ReduceAs<double, double>(f, row, count, out);
    case TENON_DT_HALF: return ReduceAs<sdk::Half, float>(f, row, count, out);
    case TENON_DT_BFLOAT16: return ReduceAs<sdk::Bfloat16, float>(f, row, count, out);
    case TENON_DT_INT32: return ReduceAs<int32_t, int32_t>(f, row, count, out);
    default: return ReduceAs<int64_t, int64_t>(f, row, count, out);
  }
}

// ---- Comparing ----

bool IsNanOf(uint32_t dtype, const char* at) {
  if (dtype == TENON_DT_FLOAT) return std::isnan(*reinterpret_cast<const float*>(at));
  if (dtype == TENON_DT_DOUBLE) return std::isnan(*reinterpret_cast<const double*>(at));
  uint16_t bits;
  std::memcpy(&bits, at, 2);
  const int infinity = dtype == TENON_DT_HALF ? 0x7c00 : 0x7f80;
  return (dtype == TENON_DT_HALF || dtype == TENON_DT_BFLOAT16) && (bits & 0x7fff) > infinity;
}
// The first element in which they differ, of NaNs any is as good as another; -1: none.
int64_t Difference(uint32_t dtype, const Bytes& a, const Bytes& b) {
  const size_t size = SizeOfType(dtype);
  for (size_t at = 0; at < a.size(); at += size)
    if (std::memcmp(a.data() + at, b.data() + at, size) != 0 &&
        !(IsNanOf(dtype, a.data() + at) && IsNanOf(dtype, b.data() + at)))
      return static_cast<int64_t>(at / size);
  return -1;
}

// Values of a few kinds; the rare ones too.
void Fill(uint32_t dtype, std::mt19937& random, Bytes* to, bool with_specials) {
  const size_t size = SizeOfType(dtype);
  const float special[] = {0.f,
                           -0.f,
                           std::numeric_limits<float>::infinity(),
                           -std::numeric_limits<float>::infinity(),
                           std::numeric_limits<float>::quiet_NaN(),
                           1e-39f,
                           3e38f};
  for (size_t at = 0; at < to->size(); at += size) {
    const auto number = static_cast<float>(static_cast<double>(random() % 20001) / 2000 - 5);
    const float real = with_specials && random() % 60 == 0 ? special[random() % std::size(special)] : number;
    const auto put = [&](auto value) { std::memcpy(to->data() + at, &value, sizeof value); };
    switch (dtype) {
      case TENON_DT_FLOAT: put(real); break;
      case TENON_DT_DOUBLE: put(static_cast<double>(real) * 1.0000001); break;
      case TENON_DT_HALF: put(sdk::Half(real)); break;
      case TENON_DT_BFLOAT16: put(sdk::Bfloat16(real)); break;
      case TENON_DT_INT32: put(static_cast<int32_t>(random())); break;
      case TENON_DT_INT64: put(static_cast<int64_t>(random()) << 20); break;
      default: put(static_cast<char>(random() & 1));
    }
  }
}

// ---- Running a program over rows ----

struct Buffers {
  std::vector<Bytes> inputs, outputs;
};
// Of `rows` rows; single inputs have one element for each of them.
void RunRows(const Program& program, const Buffers& from, int64_t first, int64_t rows, std::vector<Bytes>* outputs) {
  const auto code = CodeOf(program);
  ASSERT_NE(code, nullptr);
  const std::vector<bool> of_row = program.OfRows();
  std::vector<char> scratch(static_cast<size_t>(PlanRows(program).scratch_bytes) + 64);
  Call call;
  call.count = program.row;
  call.rows = rows;
  call.scratch = scratch.data();
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    call.input_steps[i] =
        static_cast<int64_t>(SizeOfType(program.inputs[i].dtype)) * (program.inputs[i].is_single ? 1 : program.row);
    call.inputs[i] = from.inputs[i].data() + first * call.input_steps[i];
  }
  for (size_t k = 0; k < program.outputs.size(); ++k) {
    call.output_steps[k] = static_cast<int64_t>(SizeOfType(program.DtypeOf(program.outputs[k]))) *
                           (of_row[static_cast<size_t>(program.outputs[k])] ? 1 : program.row);
    call.outputs[k] = (*outputs)[k].data() + first * call.output_steps[k];
  }
  code->Run(call);
}
std::vector<Bytes> OutputsOf(const Program& program, int64_t rows) {
  const std::vector<bool> of_row = program.OfRows();
  std::vector<Bytes> outputs;
  for (const int output : program.outputs)
    outputs.emplace_back(SizeOfType(program.DtypeOf(output)) *
                             static_cast<size_t>(rows * (of_row[static_cast<size_t>(output)] ? 1 : program.row)),
                         0x5a);
  return outputs;
}

// Node by node: those of elements by the code of single nodes, reductions as above.
std::vector<Bytes> NodeByNode(const Program& program, const Buffers& from, int64_t rows) {
  const std::vector<bool> of_row = program.OfRows();
  std::vector<Bytes> values = from.inputs;
  for (size_t n = 0; n < program.nodes.size(); ++n) {
    const Node& node = program.nodes[n];
    const size_t value = program.inputs.size() + n, size = SizeOfType(node.dtype);
    const int64_t count = of_row[value] ? 1 : program.row;
    values.emplace_back(size * static_cast<size_t>(rows * count));
    for (int64_t row = 0; row < rows; ++row) {
      char* const to = values[value].data() + static_cast<size_t>(row * count) * size;
      const auto at = [&](int operand) {
        return values[static_cast<size_t>(operand)].data() +
               static_cast<size_t>(row * (of_row[static_cast<size_t>(operand)] ? 1 : program.row)) *
                   SizeOfType(program.DtypeOf(operand));
      };
      if (IsReduction(node.function)) {
        Reduce(node.function, program.DtypeOf(node.operands[0]), at(node.operands[0]), static_cast<size_t>(program.row),
               to);
        continue;
      }
      Program single{program.level, false, {}, {node}, {}};
      Call call;
      call.count = count;
      call.outputs[0] = to;
      for (size_t i = 0; i < node.operands.size(); ++i) {
        single.inputs.push_back({program.DtypeOf(node.operands[i]), of_row[static_cast<size_t>(node.operands[i])]});
        single.nodes[0].operands[i] = static_cast<int>(i);
        call.inputs[i] = at(node.operands[i]);
      }
      single.outputs = {static_cast<int>(node.operands.size())};
      CodeOf(single)->Run(call);
    }
  }
  std::vector<Bytes> outputs;
  for (const int output : program.outputs) outputs.push_back(values[static_cast<size_t>(output)]);
  return outputs;
}

// As it is asked for, over `rows` rows: as a whole, row by row, and node by node.
void Check(const Program& program, std::mt19937& random, int64_t rows, bool with_specials, const std::string& what) {
  Buffers buffers;
  for (const Input& input : program.inputs) {
    buffers.inputs.emplace_back(SizeOfType(input.dtype) *
                                static_cast<size_t>(rows * (input.is_single ? 1 : program.row)));
    Fill(input.dtype, random, &buffers.inputs.back(), with_specials);
  }
  std::vector<Bytes> whole = OutputsOf(program, rows), single = whole;
  RunRows(program, buffers, 0, rows, &whole);
  if (::testing::Test::HasFatalFailure()) return;
  for (int64_t row = 0; row < rows; ++row) RunRows(program, buffers, row, 1, &single);
  EXPECT_EQ(whole, single) << what << ", row by row";
  const std::vector<Bytes> nodes = NodeByNode(program, buffers, rows);
  for (size_t k = 0; k < whole.size(); ++k)
    EXPECT_EQ(Difference(program.DtypeOf(program.outputs[k]), whole[k], nodes[k]), -1)
        << what << ", result " << k << " of type " << program.DtypeOf(program.outputs[k]) << ", level "
        << static_cast<int>(program.level);
}

constexpr int64_t kRows[] = {1,   2,   3,    7,    8,    15,   16,   17,   31,   33,   47,  63,
                             64,  65,  100,  127,  128,  129,  200,  255,  256,  300,  511, 512,
                             513, 576, 1000, 1023, 1024, 1025, 1100, 1536, 2048, 2049, 3000};

TEST(RowGenerator, ReductionsHaveTheOrderOfTheKernels) {
  std::mt19937 random(11);
  using enum Function;
  for (const Level level : Levels())
    for (const Function f : {kSum, kMean, kProd, kMax, kMin, kLargest})
      for (const Kind& kind : kKinds) {
        if (!IsGeneratedReduction(f, kind.dtype, level)) continue;
        for (const int64_t row : kRows) {
          const Program program{level, false, {{kind.dtype, false}}, {{f, kind.dtype, {0}}}, {1}, row};
          for (const bool with_specials : {false, true})
            Check(program, random, 3, with_specials,
                  "function " + std::to_string(static_cast<int>(f)) + ", rows of " + std::to_string(row));
          if (HasFailure()) return;
        }
      }
}

// In places of the sum of magnitudes, which bounds what any order can do.
TEST(RowGenerator, SumsAreNearThoseInDouble) {
  std::mt19937 random(5);
  for (const Level level : Levels())
    for (const int64_t row : {16, 100, 768, 1024, 5000, 65536}) {
      const Program program{level, false, {{TENON_DT_FLOAT, false}}, {{Function::kSum, TENON_DT_FLOAT, {0}}}, {1}, row};
      Buffers buffers;
      buffers.inputs.emplace_back(static_cast<size_t>(row) * 4);
      Fill(TENON_DT_FLOAT, random, &buffers.inputs[0], false);
      std::vector<Bytes> out = OutputsOf(program, 1);
      RunRows(program, buffers, 0, 1, &out);
      double sum = 0, magnitude = 0;
      for (int64_t i = 0; i < row; ++i) {
        const auto x = static_cast<double>(reinterpret_cast<const float*>(buffers.inputs[0].data())[i]);
        sum += x;
        magnitude += std::fabs(x);
      }
      // 64 elements one after the other at most, 6 halvings, and one rounding of the total.
      EXPECT_LE(std::fabs(static_cast<double>(*reinterpret_cast<const float*>(out[0].data())) - sum),
                0x1p-24 * (std::min<double>(70, static_cast<double>(row)) * magnitude))
          << row;
    }
}

// A row at either end of its memory, of every length up to some registers; one of 8 bytes beside it changes how many
// are computed at once.
TEST(RowGenerator, NothingBesideTheRowsIsTouched) {
  const Guarded in, out, sums;
  std::mt19937 random(2);
  for (const Level level : Levels())
    for (const Kind& kind : kKinds) {
      if (!IsGeneratedReduction(Function::kMax, kind.dtype, level) ||
          !IsGenerated(Function::kSub, {kind.dtype, kind.dtype}, kind.dtype, level))
        continue;
      for (int64_t row = 1; row <= 150; ++row) {
        // x - max x, and the greatest of those.
        const Program program{level,
                              false,
                              {{kind.dtype, false}},
                              {{Function::kMax, kind.dtype, {0}},
                               {Function::kSub, kind.dtype, {0, 1}},
                               {Function::kMax, kind.dtype, {2}}},
                              {2, 3},
                              row};
        const auto code = CodeOf(program);
        ASSERT_NE(code, nullptr);
        const size_t bytes = 2 * static_cast<size_t>(row) * kind.size;
        for (const bool at_end : {false, true}) {
          char *const x = at_end ? in.end() - bytes : in.begin(), *const y = at_end ? out.end() - bytes : out.begin(),
                      *const z = at_end ? sums.end() - 2 * kind.size : sums.begin();
          Bytes numbers(bytes);
          Fill(kind.dtype, random, &numbers, false);
          std::memcpy(x, numbers.data(), bytes);
          for (const Guarded* each : {&out, &sums}) std::memset(each->begin(), 0x5a, each->size());
          Call call{{x},
                    {y, z},
                    row,
                    2,
                    {static_cast<int64_t>(bytes / 2)},
                    {static_cast<int64_t>(bytes / 2), static_cast<int64_t>(kind.size)}};
          code->Run(call);
          const auto is_untouched = [](const char* begin, const char* end) {
            return std::all_of(begin, end, [](char c) { return c == 0x5a; });
          };
          ASSERT_TRUE(is_untouched(out.begin(), y) && is_untouched(y + bytes, out.end()))
              << "of type " << kind.dtype << ", rows of " << row;
          ASSERT_TRUE(is_untouched(sums.begin(), z) && is_untouched(z + 2 * kind.size, sums.end()))
              << "of type " << kind.dtype << ", rows of " << row;
        }
      }
    }
}

// x -> softmax, as a region makes it.
Program Softmax(Level level, int64_t row) {
  using enum Function;
  constexpr uint32_t f = TENON_DT_FLOAT;
  return {
      level,
      false,
      {{f, false}},
      {{kLargest, f, {0}}, {kSub, f, {0, 1}}, {kExp, f, {2}}, {kSum, f, {3}}, {kReciprocal, f, {4}}, {kMul, f, {3, 5}}},
      {6},
      row};
}

TEST(RowGenerator, SoftmaxIsNearThatInDouble) {
  std::mt19937 random(3);
  double most = 0;
  for (const Level level : Levels())
    for (const int64_t row : kRows) {
      const Program program = Softmax(level, row);
      EXPECT_EQ(PlanRows(program).scratch_bytes, 0) << "exponentials wait where the results will stand";
      std::vector<float> x(static_cast<size_t>(row));
      for (float& each : x) each = static_cast<float>(static_cast<double>(random() % 20001) / 400 - 25);
      Buffers buffers;
      buffers.inputs.emplace_back(reinterpret_cast<const char*>(x.data()),
                                  reinterpret_cast<const char*>(x.data() + x.size()));
      std::vector<Bytes> out = OutputsOf(program, 1);
      RunRows(program, buffers, 0, 1, &out);
      const double max = static_cast<double>(*std::max_element(x.begin(), x.end()));
      double sum = 0;
      for (const float each : x) sum += std::exp(static_cast<double>(each) - max);
      for (size_t i = 0; i < x.size(); ++i) {
        const double right = std::exp(static_cast<double>(x[i]) - max) / sum,
                     got = static_cast<double>(reinterpret_cast<const float*>(out[0].data())[i]);
        // The difference from the largest is rounded before it is an exponent.
        most = std::max(most, std::fabs(got - right) / right * 0x1p24 - std::fabs(static_cast<double>(x[i]) - max));
      }
    }
  EXPECT_LE(most, 8) << "as GENERATED_CODE.md says";
  std::printf("Softmax: %g times 2^-24 at most, and what the exponents lack\n", most);
}

TEST(RowGenerator, SoftmaxOfWhatIsNoNumberIsNone) {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (const Level level : Levels())
    for (const float special : {infinity, -infinity, nan}) {
      std::vector<float> x(40, 1.f), y(40);
      x[33] = special;
      Call call{{x.data()}, {y.data()}, 40, 1, {}, {}};
      CodeOf(Softmax(level, 40))->Run(call);
      for (size_t i = 0; i < y.size(); ++i)
        EXPECT_EQ(std::isnan(y[i]), special != -infinity) << special << ", element " << i;
      EXPECT_TRUE(special != -infinity || y[33] == 0.f);
      std::fill(x.begin(), x.end(), -infinity);
      CodeOf(Softmax(level, 40))->Run(call = Call{{x.data()}, {y.data()}, 40, 1, {}, {}});
      EXPECT_TRUE(std::all_of(y.begin(), y.end(), [](float each) { return std::isnan(each); }));
    }
}

// Where a value is kept is where nobody reads what stood there: a program writes over its input as it may.
TEST(RowGenerator, InputsMayLieWhereResultsDo) {
  std::mt19937 random(9);
  for (const Level level : Levels()) {
    using enum Function;
    constexpr uint32_t f = TENON_DT_FLOAT;
    // A residual's sum, normalised.
    const Program norm{level,
                       false,
                       {{f, false}, {f, false}, {f, true}, {f, false}},
                       {{kAdd, f, {0, 1}},
                        {kMean, f, {4}},
                        {kSquaredDifference, f, {4, 5}},
                        {kMean, f, {6}},
                        {kAdd, f, {7, 2}},
                        {kRsqrt, f, {8}},
                        {kMul, f, {9, 3}},
                        {kMul, f, {4, 10}},
                        {kMul, f, {5, 10}},
                        {kSub, f, {11, 12}}},
                       {13},
                       200};
    const RowPlan plan = PlanRows(norm);
    EXPECT_EQ(plan.passes, 3);
    EXPECT_EQ(plan.scratch_bytes, 0);
    EXPECT_TRUE(MayLieInPlace(norm, plan, 0, 0));
    EXPECT_TRUE(MayLieInPlace(norm, plan, 1, 0));
    EXPECT_TRUE(MayLieInPlace(norm, plan, 3, 0) == false) << "it is read in the last pass, when the sum stands there";
    Buffers buffers;
    for (const Input& input : norm.inputs) {
      buffers.inputs.emplace_back(4 * static_cast<size_t>(3 * (input.is_single ? 1 : norm.row)));
      Fill(f, random, &buffers.inputs.back(), false);
    }
    std::vector<Bytes> apart = OutputsOf(norm, 3);
    RunRows(norm, buffers, 0, 3, &apart);
    Call call{{buffers.inputs[0].data(), buffers.inputs[1].data(), buffers.inputs[2].data(), buffers.inputs[3].data()},
              {buffers.inputs[0].data()},
              200,
              3,
              {800, 800, 4, 800},
              {800}};
    CodeOf(norm)->Run(call);
    EXPECT_EQ(buffers.inputs[0], apart[0]);
  }
}

// Programs of any functions and types, of which reductions read some and feed others.
TEST(RowGenerator, RandomProgramsAreTheirNodes) {
  std::mt19937 random(17);
  const auto up = [&](size_t end) { return static_cast<size_t>(random()) % end; };
  const char* const asked = std::getenv("TENON_CHAINS");
  int tried = 0, reduced = 0;
  for (int round = 0; round < (asked == nullptr ? 500 : std::atoi(asked)) && !Levels().empty(); ++round) {
    const Level level = Levels()[up(Levels().size())];
    Program program{level, false, {}, {}, {}};
    // Of one type mostly, or of many.
    const bool is_mixed = up(3) == 0;
    const uint32_t main = kKinds[up(6)].dtype;
    const auto type = [&] { return is_mixed || up(8) == 0 ? kKinds[up(std::size(kKinds))].dtype : main; };
    program.row = kRows[up(std::size(kRows))];
    for (size_t i = 0, count = 2 + up(5); i < count; ++i) program.inputs.push_back({type(), i > 0 && up(4) == 0});
    size_t reductions = 0;
    for (size_t n = 0, count = 2 + up(24); n < count; ++n) {
      const std::vector<bool> of_row = program.OfRows();
      const size_t values = program.inputs.size() + program.nodes.size();
      for (int attempt = 0; attempt < 60; ++attempt) {
        Node node{Function::kUnknown, type(), {}, 0.3f};
        if (up(4) == 0 && reductions < static_cast<size_t>(kMostReductions)) {
          node.function = static_cast<Function>(static_cast<size_t>(Function::kSum) + up(6));
          node.operands = {static_cast<int>(up(values))};
          node.dtype = program.DtypeOf(node.operands[0]);
          if (of_row[static_cast<size_t>(node.operands[0])] || !IsGeneratedReduction(node.function, node.dtype, level))
            continue;
          ++reductions;
        } else {
          node.function = static_cast<Function>(up(static_cast<size_t>(Function::kSum)));
          const size_t arity = node.function <= Function::kCast   ? 1
                               : node.function <= Function::kOr   ? 2
                               : node.function == Function::kAddN ? 2 + up(3)
                                                                  : 3;
          std::vector<uint32_t> types;
          for (size_t i = 0; i < arity; ++i) {
            node.operands.push_back(static_cast<int>(up(values)));
            types.push_back(program.DtypeOf(node.operands.back()));
          }
          if (!IsGenerated(node.function, types, node.dtype, level)) continue;
        }
        program.nodes.push_back(std::move(node));
        break;
      }
    }
    if (reductions == 0 || program.nodes.empty()) continue;
    for (size_t n = 0; n < program.nodes.size() && program.outputs.size() < kMostOutputs; ++n)
      if (n + 1 == program.nodes.size() || up(4) == 0)
        program.outputs.push_back(static_cast<int>(program.inputs.size() + n));
    ++tried;
    reduced += static_cast<int>(reductions);
    Check(program, random, 2, up(2) == 0,
          "round " + std::to_string(round) + ", rows of " + std::to_string(program.row));
    if (HasFailure()) return;
  }
  EXPECT_TRUE(Levels().empty() || (tried > 200 && reduced > 400)) << tried << ", " << reduced;
}

}  // namespace
}  // namespace tenon::cpu_codegen::row_generator_test
