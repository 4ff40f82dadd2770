// SPDX-License-Identifier: Apache-2.0
#include "tests/hostile/lasting.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <ctime>
#include <memory>

namespace tenon::hostile {
namespace {

using host::DType;
using host::Shape;
using host::Tensor;
using host::View;
using Dims = std::vector<int64_t>;

// In [0, 1), of its index.
double Mixed(int64_t i) {
  uint64_t x = static_cast<uint64_t>(i) * 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return static_cast<double>((x ^ (x >> 31)) >> 11) * 0x1p-53;
}
double Signed(int64_t i) { return 2 * Mixed(i) - 1; }

constexpr int64_t kPeriod = 1000003;  // a prime: no two rows are equal

Fed Random(DType dtype, Dims dims) { return {dtype, std::move(dims), Signed, "", kPeriod}; }
Fed Filled(DType dtype, Dims dims, double value) {
  return {dtype, std::move(dims), [value](int64_t) { return value; }, "", 1};
}
Fed Picture(Dims dims) {
  return {DType::kUint8, std::move(dims), [](int64_t i) { return std::floor(Mixed(i) * 256); }, "", kPeriod};
}
Fed Below(DType dtype, Dims dims, double bound) {
  return {dtype, std::move(dims), [bound](int64_t i) { return std::floor(Mixed(i) * bound); }};
}
// Of `side` rows, with so much on the diagonal: positive definite where that is more than the rows.
Fed Square(DType dtype, int64_t side, double diagonal) {
  return {dtype, {side, side}, [side, diagonal](int64_t i) {
            const int64_t row = i / side, column = i % side;
            return row == column ? diagonal : Signed(std::min(row, column) * side + std::max(row, column));
          }};
}
Fed Texts(Dims dims, std::string text) { return {DType::kString, std::move(dims), nullptr, std::move(text)}; }
Fed Numbers(DType dtype, std::vector<double> values) {
  return {dtype, {static_cast<int64_t>(values.size())}, [values](int64_t i) { return values[static_cast<size_t>(i)]; }};
}
Fed Number(DType dtype, double value) { return Filled(dtype, {}, value); }

std::string Words(int64_t bytes) {
  std::string text(static_cast<size_t>(bytes), 'a');
  for (int64_t i = 0; i < bytes; ++i) text[static_cast<size_t>(i)] = Mixed(i) < 0.5 ? 'a' : 'b';
  return text;
}

// What is fed, and the memory in which it stands.
struct Value {
  std::shared_ptr<const void> memory;
  View view;
};
template <class T>
Value Made(const Fed& fed, int64_t count) {
  auto memory = std::make_shared_for_overwrite<T[]>(static_cast<size_t>(count));
  T* const values = memory.get();
  int64_t made = std::min(count, fed.period);
  for (int64_t i = 0; i < made; ++i) values[i] = static_cast<T>(fed.element(i));
  for (; made < count; made += std::min(made, count - made))
    std::copy_n(values, std::min(made, count - made), values + made);
  return {std::move(memory), View(fed.dtype, Shape(fed.dims), values, static_cast<uint64_t>(count) * sizeof(T))};
}
host::Result<Value> ValueOf(const Fed& fed) {
  int64_t count = 1;
  for (const int64_t dim : fed.dims) count *= dim;
  switch (fed.dtype) {
    case DType::kFloat: return Made<float>(fed, count);
    case DType::kDouble: return Made<double>(fed, count);
    case DType::kComplex64: return Made<std::complex<float>>(fed, count);
    case DType::kComplex128: return Made<std::complex<double>>(fed, count);
    case DType::kInt32: return Made<int32_t>(fed, count);
    case DType::kInt64: return Made<int64_t>(fed, count);
    case DType::kUint8: return Made<uint8_t>(fed, count);
    default: break;
  }
  TENON_TRY_ASSIGN(Tensor texts,
                   Tensor::Strings(std::vector<std::string>(static_cast<size_t>(count), fed.text), Shape(fed.dims)));
  return Value{nullptr, View(std::move(texts))};
}

constexpr DType kF = DType::kFloat, kD = DType::kDouble, kC = DType::kComplex128, kI = DType::kInt32,
                kL = DType::kInt64;
const Dims kOnes = {1, 1, 1, 1};

host::Attrs Convolves() { return {{"strides", kOnes}, {"padding", "SAME"}}; }

}  // namespace

const std::vector<Lasting>& AllLasting() {
  static const std::vector<Lasting> all = {
      // Matrices.
      {"Cholesky", "complex128 4500", {}, {Square(kC, 4500, 9000)}},
      {"CholeskyGrad", "double 5000", {}, {Square(kD, 5000, 10000), Random(kD, {5000, 5000})}},
      {"Lu", "complex128 3500", {}, {Random(kC, {3500, 3500})}},
      {"MatrixInverse", "complex128 2500", {}, {Random(kC, {2500, 2500})}},
      {"MatrixSolve", "complex128 2500", {}, {Random(kC, {2500, 2500}), Random(kC, {2500, 2500})}},
      {"MatrixTriangularSolve", "complex128 3500", {}, {Square(kC, 3500, 4000), Random(kC, {3500, 3500})}},
      {"MatrixDeterminant", "complex128 4000", {}, {Random(kC, {4000, 4000})}},
      {"LogMatrixDeterminant", "complex128 4000", {}, {Random(kC, {4000, 4000})}},
      {"Qr", "double 4000", {}, {Random(kD, {4000, 4000})}},
      {"MatrixSolveLs",
       "complex128 2500, fast",
       {{"fast", true}},
       {Random(kC, {2500, 2500}), Random(kC, {2500, 2500}), Number(kD, 1)}},
      {"MatrixSolveLs",
       "double 3500",
       {{"fast", false}},
       {Random(kD, {3500, 3500}), Random(kD, {3500, 100}), Number(kD, 0)}},
      {"SelfAdjointEigV2", "double 2500", {}, {Square(kD, 2500, 0)}},
      {"SelfAdjointEig", "double 2500", {}, {Square(kD, 2500, 0)}},
      {"Eig", "double 900", {{"Tout", DType::kComplex128}}, {Random(kD, {900, 900})}},
      {"Svd", "double 2500", {}, {Random(kD, {2500, 2500})}},
      {"MatrixExponential", "double 2200", {}, {Random(kD, {2200, 2200})}},
      {"MatrixSquareRoot", "double 900", {}, {Square(kD, 900, 50)}},
      {"MatrixLogarithm", "complex128 500", {}, {Square(kC, 500, 40)}},
      {"BandedTriangularSolve",
       "double 300 bands of 30000, 2000 columns",
       {},
       {Filled(kD, {300, 30000}, 2), Random(kD, {30000, 2000})}},
      {"TridiagonalSolve", "double 2000000, 50 columns", {}, {Filled(kD, {3, 2000000}, 2), Random(kD, {2000000, 50})}},
      {"MatMul", "double 6000", {}, {Random(kD, {6000, 6000}), Random(kD, {6000, 6000})}},
      {"BatchMatMulV2", "complex128 3500", {}, {Random(kC, {3500, 3500}), Random(kC, {3500, 3500})}},
      {"Einsum", "double 5000", {{"equation", "ij,kj->ik"}}, {Random(kD, {5000, 5000}), Random(kD, {5000, 5000})}},
      {"SparseMatMul", "float 9000", {{"a_is_sparse", true}}, {Random(kF, {9000, 9000}), Random(kF, {9000, 9000})}},
      {"SparseTensorDenseMatMul",
       "float 2000000 by 2000",
       {},
       {Below(kL, {2000000, 2}, 2000), Random(kF, {2000000}), Numbers(kL, {2000, 2000}), Random(kF, {2000, 2000})}},
      // Windows.
      {"Conv2D", "float 512x512x64, 31x31", Convolves(), {Random(kF, {1, 512, 512, 64}), Random(kF, {31, 31, 64, 64})}},
      {"DepthwiseConv2dNative",
       "float 1024x1024x16, 101x101",
       Convolves(),
       {Random(kF, {1, 1024, 1024, 16}), Random(kF, {101, 101, 16, 1})}},
      {"MaxPool",
       "float 1024x1024x8, 1023x1023",
       {{"ksize", Dims{1, 1023, 1023, 1}}, {"strides", kOnes}, {"padding", "SAME"}},
       {Random(kF, {1, 1024, 1024, 8})}},
      {"Dilation2D",
       "float 1024x1024x8, 101x101",
       {{"strides", kOnes}, {"rates", kOnes}, {"padding", "SAME"}},
       {Random(kF, {1, 1024, 1024, 8}), Random(kF, {101, 101, 8})}},
      {"LRN", "float 1048576, radius 262144", {{"depth_radius", int64_t{1} << 18}}, {Random(kF, {1, 1, 1, 1 << 20})}},
      // Orders.
      {"TopKV2", "float 67108864, all", {}, {Random(kF, {1 << 26}), Number(kI, 1 << 26)}},
      {"NthElement", "float 200 rows of 5000000", {}, {Random(kF, {40, 5000000}), Number(kI, 2500000)}},
      {"Unique", "int64 50000000", {}, {Below(kL, {50000000}, 1e9)}},
      {"DenseToDenseSetOperation",
       "int64 12000000",
       {{"set_operation", "union"}},
       {Below(kL, {1, 12000000}, 1e9), Below(kL, {1, 12000000}, 1e9)}},
      {"SparseReorder",
       "int64 16000000",
       {},
       {Below(kL, {16000000, 2}, 1e6), Random(kF, {16000000}), Numbers(kL, {1e6, 1e6})}},
      {"SparseReduceSum",
       "float 16000000",
       {},
       {Below(kL, {16000000, 2}, 1e6), Random(kF, {16000000}), Numbers(kL, {1e6, 1e6}), Numbers(kI, {1})}},
      {"NonMaxSuppressionV3",
       "float 100000 boxes",
       {},
       {{kF, {100000, 4}, [](int64_t i) { return static_cast<double>(i / 4 * 2 + (i % 4) / 2); }},
        Random(kF, {100000}),
        Number(kI, 100000),
        Number(kF, 0.5),
        Number(kF, -2)}},
      {"IsotonicRegression", "float 100000000", {}, {Random(kF, {1, 100000000})}},
      {"RandomShuffle", "float 200000000", {}, {Random(kF, {200000000})}},
      // Numbers.
      {"Multinomial", "float 1000, 30000000 samples", {}, {Random(kF, {1, 1000}), Number(kI, 30000000)}},
      {"RandomPoissonV2", "double 100000000", {{"dtype", DType::kFloat}}, {Numbers(kI, {100000000}), Number(kD, 5)}},
      {"Betainc",
       "double 20000000",
       {},
       {Filled(kD, {20000000}, 50), Filled(kD, {20000000}, 60), {kD, {20000000}, Mixed}}},
      {"FFT", "complex64 one of 33554393", {}, {Random(DType::kComplex64, {33554393})}},
      {"CTCBeamSearchDecoder",
       "float 2000 steps, 100 classes, width 1000",
       {{"beam_width", 1000}, {"top_paths", 1}},
       {Random(kF, {2000, 1, 100}), Filled(kI, {1}, 2000)}},
      // Texts and pictures.
      {"StaticRegexFullMatch",
       "100 texts of 1000000",
       {{"pattern", "(a|b)*a(a|b){12}"}},
       {Texts({100}, Words(1000000))}},
      {"StaticRegexReplace",
       "300 texts of 400000, groups",
       {{"pattern", "(a|b)*a(a|b){12}"}, {"rewrite", R"(\2\1)"}},
       {Texts({300}, Words(400000))}},
      {"StringNGrams",
       "4000000 texts, four widths",
       {{"separator", " "},
        {"ngram_widths", Dims{3, 5, 7, 9}},
        {"left_pad", ""},
        {"right_pad", ""},
        {"pad_width", 0},
        {"preserve_short_sequences", false}},
       {Texts({4000000}, "abcdefghijklmnop"), Numbers(kL, {0, 4000000})}},
      {"EncodePng", "uint8 10000x10000x3", {{"compression", 9}}, {Picture({10000, 10000, 3})}},
      {"EncodeJpeg", "uint8 30000x30000x1", {}, {Picture({30000, 30000, 1})}},
  };
  return all;
}

Ended RunLasting(const host::Runtime& runtime, const Lasting& lasting, std::chrono::nanoseconds deadline) {
  const auto now = [](clockid_t clock) {
    timespec time = {};
    clock_gettime(clock, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  };
  Ended ended = {};
  ended.status = [&]() -> host::Status {
    host::Graph graph(runtime);
    std::vector<host::Output> inputs;
    std::vector<std::shared_ptr<const void>> memory;
    std::vector<View> feeds;
    std::vector<host::Name> names;
    for (const Fed& fed : lasting.inputs) {
      TENON_TRY_ASSIGN(Value value, ValueOf(fed));
      memory.push_back(std::move(value.memory));
      feeds.push_back(std::move(value.view));
      names.emplace_back("x" + std::to_string(inputs.size()));
      inputs.push_back(graph.Placeholder(names.back().text(), fed.dtype, Shape(fed.dims)));
    }
    graph.AddNode(lasting.op, inputs, lasting.attributes, "lasts");
    TENON_TRY(graph.status());
    TENON_TRY_ASSIGN(const host::Session session, host::Session::Create(runtime, graph));
    TENON_TRY_ASSIGN(const host::Callable step, session.Prepare(names, {"lasts:0"}));
    const auto begin = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID);
    host::RunOptions options;
    options.timeout = deadline;
    const host::Status status = step.Run(feeds, options).status();
    ended.took = now(CLOCK_MONOTONIC) - begin;
    ended.cpu = now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    return status;
  }();
  return ended;
}

}  // namespace tenon::hostile
