// SPDX-License-Identifier: Apache-2.0
// Factors multiplied together again, of matrices larger than the golden cases', where Eigen works by blocks; and
// matrices of zeros, NaN, huge and tiny numbers, and without elements, of which nothing is asked but an end and no
// memory of others.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <functional>
#include <limits>
#include <random>

#include "tenon/testing/kernel_case.h"
#include "tenon/testing/library.h"

namespace tenon::ops::linalg_test {
namespace {

using testing::KernelCase;
using testing::Make;
using testing::Out;
using testing::Result;
using testing::Scalar;
using testing::Tensor;
using testing::Type;
using testing::Values;

const tenon_kernel_package& Package() {
  static const testing::Library library(TENON_TEST_LINALG);
  static const testing::Loaded loaded(library);
  return *library.Capability<tenon_kernel_package>(TENON_CAPABILITY_KERNELS);
}

template <class T>
KernelCase Kernel(const std::string& op) {
  KernelCase kernel(Package(), op, sdk::DtypeOf<T>::value);
  kernel.Attr("T", Type{sdk::DtypeOf<T>::value});
  return kernel;
}

// ---- Matrices, rows first ----

template <class T>
struct Dense {
  int64_t rows = 0, columns = 0;
  std::vector<T> values = {};
  T& at(int64_t i, int64_t k) { return values[static_cast<size_t>(i * columns + k)]; }
  T at(int64_t i, int64_t k) const { return values[static_cast<size_t>(i * columns + k)]; }
  Tensor tensor() const { return Make<T>({rows, columns}, values); }
};

template <class T>
Dense<T> Zeros(int64_t rows, int64_t columns) {
  return {rows, columns, std::vector<T>(static_cast<size_t>(rows * columns))};
}
template <class T>
Dense<T> Of(const Tensor& tensor) {
  return {tensor.dims[0], tensor.dims[1], Values<T>(tensor)};
}
template <class T>
T Conjugate(T x) {
  if constexpr (sdk::kIsComplex<T>) return std::conj(x);
  else return x;
}
template <class T>
Dense<T> Adjoint(const Dense<T>& a) {
  Dense<T> out = Zeros<T>(a.columns, a.rows);
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t k = 0; k < a.columns; ++k) out.at(k, i) = Conjugate(a.at(i, k));
  return out;
}
template <class T>
Dense<T> Product(const Dense<T>& a, const Dense<T>& b) {
  Dense<T> out = Zeros<T>(a.rows, b.columns);
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t j = 0; j < a.columns; ++j)
      for (int64_t k = 0; k < b.columns; ++k) out.at(i, k) += a.at(i, j) * b.at(j, k);
  return out;
}
template <class T>
Dense<T> Diagonal(const std::vector<T>& values) {
  const auto n = static_cast<int64_t>(values.size());
  Dense<T> out = Zeros<T>(n, n);
  for (int64_t i = 0; i < n; ++i) out.at(i, i) = values[static_cast<size_t>(i)];
  return out;
}
template <class T>
double Distance(const Dense<T>& a, const Dense<T>& b) {
  if (a.rows != b.rows || a.columns != b.columns) return std::numeric_limits<double>::infinity();
  double most = 0;
  for (size_t i = 0; i < a.values.size(); ++i)
    most = std::max(most, static_cast<double>(std::abs(a.values[i] - b.values[i])));
  return most;
}

template <class T>
Dense<T> Random(int64_t rows, int64_t columns, unsigned seed, double diagonal = 0) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  Dense<T> out = Zeros<T>(rows, columns);
  for (T& value : out.values) {
    if constexpr (sdk::kIsComplex<T>) {
      const double real = uniform(random);
      value = T(static_cast<typename T::value_type>(real), static_cast<typename T::value_type>(uniform(random)));
    } else {
      value = static_cast<T>(uniform(random));
    }
  }
  for (int64_t i = 0; i < std::min(rows, columns); ++i) out.at(i, i) += T(static_cast<float>(diagonal));
  return out;
}

template <class T>
struct Factors : ::testing::Test {
  using Real = decltype(std::abs(T()));
  // What a few hundred operations round.
  static constexpr double kNear = 2e4 * static_cast<double>(std::numeric_limits<Real>::epsilon());
};
using Numbers = ::testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(Factors, Numbers);

constexpr int64_t kSide = 70;

TYPED_TEST(Factors, OfInversesAndSolutionsAreTheMatrix) {
  using T = TypeParam;
  const Dense<T> a = Random<T>(kSide, kSide, 1, 10), b = Random<T>(kSide, 3, 2);
  for (const bool adjoint : {false, true}) {
    const Dense<T> matrix = adjoint ? Adjoint(a) : a;
    const Result inverse =
        Kernel<T>("MatrixInverse").Attr("adjoint", adjoint).Run({a.tensor()}, {Out<T>({kSide, kSide})});
    ASSERT_EQ(inverse.text(), "");
    EXPECT_LT(Distance(Product(matrix, Of<T>(inverse[0])), Diagonal(std::vector<T>(kSide, T(1)))), this->kNear);
    const Result solved =
        Kernel<T>("MatrixSolve").Attr("adjoint", adjoint).Run({a.tensor(), b.tensor()}, {Out<T>({kSide, 3})});
    ASSERT_EQ(solved.text(), "");
    EXPECT_LT(Distance(Product(matrix, Of<T>(solved[0])), b), this->kNear);
    for (const bool lower : {false, true}) {
      Dense<T> triangle = a;
      for (int64_t i = 0; i < kSide; ++i)
        for (int64_t k = 0; k < kSide; ++k)
          if (lower ? k > i : k < i) triangle.at(i, k) = 0;
      const Result by_triangle = Kernel<T>("MatrixTriangularSolve")
                                     .Attr("lower", lower)
                                     .Attr("adjoint", adjoint)
                                     .Run({a.tensor(), b.tensor()}, {Out<T>({kSide, 3})});
      ASSERT_EQ(by_triangle.text(), "");
      EXPECT_LT(Distance(Product(adjoint ? Adjoint(triangle) : triangle, Of<T>(by_triangle[0])), b), this->kNear);
    }
  }
}

TYPED_TEST(Factors, OfLowerUpperAndOrder) {
  using T = TypeParam;
  const Dense<T> a = Random<T>(kSide, kSide, 3);
  const Result r = Kernel<T>("Lu")
                       .Attr("output_idx_type", Type{TENON_DT_INT32})
                       .Run({a.tensor()}, {Out<T>({kSide, kSide}), Out<int32_t>({kSide})});
  ASSERT_EQ(r.text(), "");
  Dense<T> lower = Of<T>(r[0]), upper = lower, ordered = a;
  const std::vector<int32_t> order = Values<int32_t>(r[1]);
  for (int64_t i = 0; i < kSide; ++i)
    for (int64_t k = 0; k < kSide; ++k) {
      if (k > i) lower.at(i, k) = 0;
      if (k < i) upper.at(i, k) = 0;
      if (k == i) lower.at(i, k) = 1;
      ordered.at(i, k) = a.at(order[static_cast<size_t>(i)], k);
    }
  EXPECT_LT(Distance(Product(lower, upper), ordered), this->kNear);
}

TYPED_TEST(Factors, OfCholeskyAndOfEigenvalues) {
  using T = TypeParam;
  const Dense<T> some = Random<T>(kSide, kSide, 4, 10), a = Product(some, Adjoint(some));
  const Result lower = Kernel<T>("Cholesky").Run({a.tensor()}, {Out<T>({kSide, kSide})});
  ASSERT_EQ(lower.text(), "");
  const Dense<T> factor = Of<T>(lower[0]);
  EXPECT_EQ(factor.at(0, 1), T(0));
  EXPECT_LT(Distance(Product(factor, Adjoint(factor)), a), 100 * this->kNear);
  const Result eigen = Kernel<T>("SelfAdjointEigV2")
                           .Attr("compute_v", true)
                           .Run({a.tensor()}, {Out<T>({kSide}), Out<T>({kSide, kSide})});
  ASSERT_EQ(eigen.text(), "");
  const Dense<T> vectors = Of<T>(eigen[1]);
  EXPECT_LT(Distance(Product(Product(vectors, Diagonal(Values<T>(eigen[0]))), Adjoint(vectors)), a), 100 * this->kNear);
}

TYPED_TEST(Factors, OfOrthogonalAndOfSingularValues) {
  using T = TypeParam;
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{kSide, 30}, {30, kSide}, {40, 40}, {1, 9}}) {
    const Dense<T> a = Random<T>(rows, columns, 5);
    const int64_t thin = std::min(rows, columns);
    for (const bool full : {false, true}) {
      const int64_t width = full ? rows : thin;
      const Result r = Kernel<T>("Qr")
                           .Attr("full_matrices", full)
                           .Run({a.tensor()}, {Out<T>({rows, width}), Out<T>({width, columns})});
      ASSERT_EQ(r.text(), "");
      const Dense<T> q = Of<T>(r[0]);
      EXPECT_LT(Distance(Product(q, Of<T>(r[1])), a), this->kNear);
      EXPECT_LT(Distance(Product(Adjoint(q), q), Diagonal(std::vector<T>(static_cast<size_t>(width), T(1)))),
                this->kNear);
      const int64_t left = full ? rows : thin, right = full ? columns : thin;
      const Result s = Kernel<T>("Svd")
                           .Attr("compute_uv", true)
                           .Attr("full_matrices", full)
                           .Run({a.tensor()}, {Out<T>({thin}), Out<T>({rows, left}), Out<T>({columns, right})});
      ASSERT_EQ(s.text(), "");
      const Dense<T> u = Of<T>(s[1]), v = Of<T>(s[2]);
      Dense<T> values = Zeros<T>(left, right);
      for (int64_t i = 0; i < thin; ++i) values.at(i, i) = Values<T>(s[0])[static_cast<size_t>(i)];
      EXPECT_LT(Distance(Product(Product(u, values), Adjoint(v)), a), this->kNear);
      EXPECT_LT(Distance(Product(Adjoint(u), u), Diagonal(std::vector<T>(static_cast<size_t>(left), T(1)))),
                this->kNear);
      EXPECT_LT(Distance(Product(Adjoint(v), v), Diagonal(std::vector<T>(static_cast<size_t>(right), T(1)))),
                this->kNear);
    }
  }
}

TYPED_TEST(Factors, OfSquareRootsAndLogarithmsAreTheMatrix) {
  using T = TypeParam;
  constexpr int64_t kFew = 24;
  const Dense<T> a = Random<T>(kFew, kFew, 6, 8);
  const Result root = Kernel<T>("MatrixSquareRoot").Run({a.tensor()}, {Out<T>({kFew, kFew})});
  ASSERT_EQ(root.text(), "");
  EXPECT_LT(Distance(Product(Of<T>(root[0]), Of<T>(root[0])), a), this->kNear);
  if constexpr (sdk::kIsComplex<T>) {
    const Result log = Kernel<T>("MatrixLogarithm").Run({a.tensor()}, {Out<T>({kFew, kFew})});
    ASSERT_EQ(log.text(), "");
    const Result back = Kernel<T>("MatrixExponential").Run({log[0]}, {Out<T>({kFew, kFew})});
    ASSERT_EQ(back.text(), "");
    EXPECT_LT(Distance(Of<T>(back[0]), a), this->kNear);
  }
}

// ---- What no factor is of ----

// Calls run(matrix) with matrices of four rows that are hard.
template <class T>
void ForEachHard(const std::function<void(const Tensor&)>& run) {
  using Real = decltype(std::abs(T()));
  const Real largest = std::numeric_limits<Real>::max(), least = std::numeric_limits<Real>::denorm_min(),
             none = std::numeric_limits<Real>::quiet_NaN(), infinite = std::numeric_limits<Real>::infinity();
  for (const Real odd : {Real(0), largest, -largest, least, none, infinite, -infinite})
    for (const int64_t place : {-1, 0, 1, 4, 15}) {
      Dense<T> matrix = place < 0 ? Zeros<T>(4, 4) : Random<T>(4, 4, 7);
      if (place < 0) std::fill(matrix.values.begin(), matrix.values.end(), T(odd));
      else matrix.values[static_cast<size_t>(place)] = T(odd);
      run(matrix.tensor());
    }
  // Nilpotent, and defective.
  Dense<T> shift = Zeros<T>(4, 4);
  for (int64_t i = 0; i < 3; ++i) shift.at(i, i + 1) = T(1);
  run(shift.tensor());
  for (int64_t i = 0; i < 4; ++i) shift.at(i, i) = T(std::sqrt(std::numeric_limits<Real>::min()));
  run(shift.tensor());
}

void ExpectAnEnd(const Result& result, const std::string& op) {
  if (result.text().empty()) return;
  EXPECT_EQ(result.code, static_cast<uint32_t>(TENON_INVALID_ARGUMENT)) << op << ": " << result.text();
}

TYPED_TEST(Factors, OfHardMatricesEnd) {
  using T = TypeParam;
  ForEachHard<T>([](const Tensor& a) {
    const std::vector<Tensor> one = {Out<T>({4, 4})};
    for (const char* op : {"MatrixInverse", "Cholesky", "MatrixExponential", "MatrixSquareRoot"}) {
      KernelCase kernel = Kernel<T>(op);
      if (std::string(op) == "MatrixInverse") kernel.Attr("adjoint", false);
      ExpectAnEnd(kernel.Run({a}, one), op);
    }
    if constexpr (sdk::kIsComplex<T>) ExpectAnEnd(Kernel<T>("MatrixLogarithm").Run({a}, one), "MatrixLogarithm");
    ExpectAnEnd(Kernel<T>("MatrixDeterminant").Run({a}, {Out<T>()}), "MatrixDeterminant");
    ExpectAnEnd(
        Kernel<T>("Lu").Attr("output_idx_type", Type{TENON_DT_INT32}).Run({a}, {Out<T>({4, 4}), Out<int32_t>({4})}),
        "Lu");
    ExpectAnEnd(Kernel<T>("Qr").Attr("full_matrices", true).Run({a}, {Out<T>({4, 4}), Out<T>({4, 4})}), "Qr");
    ExpectAnEnd(Kernel<T>("Svd")
                    .Attr("compute_uv", true)
                    .Attr("full_matrices", true)
                    .Run({a}, {Out<T>({4}), Out<T>({4, 4}), Out<T>({4, 4})}),
                "Svd");
    ExpectAnEnd(Kernel<T>("SelfAdjointEigV2").Attr("compute_v", true).Run({a}, {Out<T>({4}), Out<T>({4, 4})}),
                "SelfAdjointEigV2");
    for (const bool fast : {false, true})
      ExpectAnEnd(Kernel<T>("MatrixSolveLs").Attr("fast", fast).Run({a, a, Scalar<double>(0)}, one), "MatrixSolveLs");
  });
}

// No element, whatever the other dims are: their product need not be a number.
TEST(Empty, MatricesAreNotRead) {
  constexpr int64_t kHuge = int64_t{1} << 40;
  const Tensor none = Make<float>({0, kHuge, kHuge}, {});
  for (const char* op : {"MatrixInverse", "Cholesky", "MatrixExponential", "MatrixSquareRoot"}) {
    KernelCase kernel = Kernel<float>(op);
    if (std::string(op) == "MatrixInverse") kernel.Attr("adjoint", false);
    EXPECT_EQ(kernel.Run({none}, {Out<float>({0, kHuge, kHuge})}).text(), "") << op;
  }
  EXPECT_EQ(Kernel<float>("MatrixDeterminant").Run({none}, {Out<float>({0})}).text(), "");
  EXPECT_EQ(Kernel<float>("MatrixDiagPart").Run({none}, {Out<float>({0, kHuge})}).text(), "");
  EXPECT_EQ(
      Kernel<float>("MatrixSetDiag").Run({none, Make<float>({0, kHuge}, {})}, {Out<float>({0, kHuge, kHuge})}).text(),
      "");
}

TEST(Diagonals, ThatAMatrixDoesNotHaveAreRefused) {
  const Tensor a = Make<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  const auto part = [&](int32_t lower, int32_t upper, testing::Dimensions out) {
    return Kernel<float>("MatrixDiagPartV3")
        .Attr("align", std::string("LEFT_RIGHT"))
        .Run({a, testing::Vector<int32_t>({lower, upper}), Scalar<float>(9)}, {Out<float>(std::move(out))});
  };
  const Result good = part(-1, 1, {3, 2});
  ASSERT_EQ(good.text(), "");
  EXPECT_EQ(Values<float>(good[0]), (std::vector<float>{2, 6, 1, 5, 9, 4}));
  for (const auto& [lower, upper] : {std::pair<int32_t, int32_t>{-2, 0},
                                     {0, 3},
                                     {1, 0},
                                     {std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()}})
    EXPECT_EQ(part(lower, upper, {3, 2}).code, static_cast<uint32_t>(TENON_INVALID_ARGUMENT))
        << lower << " to " << upper;
}

// ---- Steps that are given up ----

// One matrix of which a kernel makes something, and how many operations that takes per cube of its side, at least.
struct Long {
  const char* op;
  double operations;
  int64_t side;
  std::function<Result(KernelCase*, const Dense<double>&)> run;
};
void PrintTo(const Long& c, std::ostream* out) { *out << c.op; }

class GivenUp : public ::testing::TestWithParam<Long> {
 public:
  // Asks of a run that is given up at number `last`.
  std::pair<Result, int64_t> RunUntil(int64_t last) {
    int64_t asks = 0;
    KernelCase kernel = Kernel<double>(GetParam().op);
    kernel.GivenUpWhen([&] { return ++asks >= last; });
    Dense<double> matrix = Random<double>(GetParam().side, GetParam().side, 8, 2);
    if (std::string_view(GetParam().op) == "Cholesky")
      for (int64_t i = 0; i < matrix.rows; ++i) matrix.at(i, i) += 4.0 * static_cast<double>(matrix.rows);
    Result result = GetParam().run(&kernel, matrix);
    return {std::move(result), asks};
  }
};

// What is between two questions is not the whole, and who is told goes on no more.
TEST_P(GivenUp, EndsInTheMiddleOfAMatrix) {
  const auto [whole, asks] = RunUntil(std::numeric_limits<int64_t>::max());
  ASSERT_EQ(whole.text(), "");
  const auto side = static_cast<double>(GetParam().side);
  EXPECT_LT(GetParam().operations * side * side * side / static_cast<double>(asks), 1e7);
  for (const int64_t last : {asks / 4, asks / 2, asks - 1}) {
    const auto [part, asked] = RunUntil(last);
    EXPECT_EQ(part.code, static_cast<uint32_t>(TENON_CANCELLED)) << part.text();
    EXPECT_EQ(asked, last);
  }
}

Result Square(KernelCase* kernel, const Dense<double>& a) {
  return kernel->Run({a.tensor()}, {Out<double>({a.rows, a.rows})});
}
Result Solved(KernelCase* kernel, const Dense<double>& a) {
  return kernel->Run({a.tensor(), a.tensor()}, {Out<double>({a.rows, a.rows})});
}
std::function<Result(KernelCase*, const Dense<double>&)> LeastSquares(bool fast) {
  return [fast](KernelCase* kernel, const Dense<double>& a) {
    return kernel->Attr("fast", fast).Run({a.tensor(), a.tensor(), Scalar<double>(1)}, {Out<double>({a.rows, a.rows})});
  };
}

constexpr int64_t kLong = 500;

INSTANTIATE_TEST_SUITE_P(Kernels, GivenUp, ::testing::ValuesIn(std::vector<Long>{
  {"Cholesky", 1.0 / 3, kLong, Square},
  {"Lu", 2.0 / 3, kLong, [](KernelCase* kernel, const Dense<double>& a) {
     return kernel->Attr("output_idx_type", Type{TENON_DT_INT32}).Run({a.tensor()}, {Out<double>({a.rows, a.rows}), Out<int32_t>({a.rows})});
   }},
  {"MatrixInverse", 2, kLong, [](KernelCase* kernel, const Dense<double>& a) { return Square(&kernel->Attr("adjoint", false), a); }},
  {"MatrixSolve", 2, kLong, [](KernelCase* kernel, const Dense<double>& a) { return Solved(&kernel->Attr("adjoint", false), a); }},
  {"MatrixTriangularSolve", 1, kLong, [](KernelCase* kernel, const Dense<double>& a) { return Solved(&kernel->Attr("lower", true).Attr("adjoint", false), a); }},
  {"MatrixDeterminant", 2.0 / 3, kLong, [](KernelCase* kernel, const Dense<double>& a) { return kernel->Run({a.tensor()}, {Out<double>()}); }},
  {"LogMatrixDeterminant", 2.0 / 3, kLong, [](KernelCase* kernel, const Dense<double>& a) { return kernel->Run({a.tensor()}, {Out<double>(), Out<double>()}); }},
  {"Qr", 4.0 / 3, kLong, [](KernelCase* kernel, const Dense<double>& a) {
     return kernel->Attr("full_matrices", false).Run({a.tensor()}, {Out<double>({a.rows, a.rows}), Out<double>({a.rows, a.rows})});
   }},
  {"MatrixSolveLs", 2, kLong, LeastSquares(true)},
  {"MatrixSolveLs", 4.0 / 3, kLong, LeastSquares(false)},
  {"SelfAdjointEigV2", 9, 200, [](KernelCase* kernel, const Dense<double>& a) {
     return kernel->Attr("compute_v", true).Run({a.tensor()}, {Out<double>({a.rows}), Out<double>({a.rows, a.rows})});
   }},
  {"Eig", 25, 120, [](KernelCase* kernel, const Dense<double>& a) {
     return kernel->Attr("compute_v", true).Attr("Tout", Type{TENON_DT_COMPLEX128}).Run({a.tensor()}, {Out<std::complex<double>>({a.rows}), Out<std::complex<double>>({a.rows, a.rows})});
   }},
  {"Svd", 10, 200, [](KernelCase* kernel, const Dense<double>& a) {
     return kernel->Attr("compute_uv", true).Attr("full_matrices", false).Run({a.tensor()}, {Out<double>({a.rows}), Out<double>({a.rows, a.rows}), Out<double>({a.rows, a.rows})});
   }},
  {"MatrixExponential", 20, 200, Square},
  {"MatrixSquareRoot", 25, 120, Square},
}), [](const auto& info) { return std::string(info.param.op) + std::to_string(info.index); });

TEST(GivenUpLogarithm, EndsInTheMiddleOfAMatrix) {
  using T = std::complex<double>;
  const Dense<T> a = Random<T>(100, 100, 6, 20);
  const auto run = [&](int64_t last) {
    int64_t asks = 0;
    const Result result = Kernel<T>("MatrixLogarithm")
                              .GivenUpWhen([&] { return ++asks >= last; })
                              .Run({a.tensor()}, {Out<T>({100, 100})});
    return std::pair(result.code, asks);
  };
  const auto [whole, asks] = run(std::numeric_limits<int64_t>::max());
  EXPECT_EQ(whole, static_cast<uint32_t>(TENON_OK));
  EXPECT_GT(asks, 100);
  EXPECT_EQ(run(asks / 2), std::pair(static_cast<uint32_t>(TENON_CANCELLED), asks / 2));
}

}  // namespace
}  // namespace tenon::ops::linalg_test
