// SPDX-License-Identifier: Apache-2.0
// Accumulators: which take waits for which gradients, and what they refuse. Covers B7, M7, M9.
#include "testing/steps.h"

#include <gtest/gtest.h>

#include <random>

#include "accumulator.h"
#include "handle.h"
#include "tenon/testing/linked.h"

namespace tenon::ops {
extern const tenon_kernel_registration kResourceAccumulatorApplyGradientKernel, kResourceAccumulatorTakeGradientKernel,
    kResourceAccumulatorNumAccumulatedKernel, kSparseAccumulatorApplyGradientKernel,
    kSparseAccumulatorTakeGradientKernel;
}  // namespace tenon::ops

namespace tenon::ops::accumulator_test {
namespace {

// The fake host has no attribute that is one shape: these make accumulators of the first of a list.
template <bool kSparse>
struct MakeFromList {
  explicit MakeFromList(sdk::CreateContext& c)
      : named(c, "accumulator"), options{"Accumulator",
                                         named.name,
                                         kFloat,
                                         c.Shapes("shapes")[0],
                                         c.String("reduction_type") == "MEAN",
                                         kSparse} {}
  void Run(sdk::RunContext c) const {
    PlaceOf<Accumulator>(c, named.handle, kAccumulatorType, options);
    *c.output<tenon_resource*>(0) = named.handle;
  }
  const NamedHandle named;
  const AccumulatorOptions options;
};
constinit const tenon_kernel_registration kMakeDense =
    sdk::Registration<MakeFromList<false>>("Dense", {.flags = TENON_KERNEL_STATEFUL});
constinit const tenon_kernel_registration kMakeSparse =
    sdk::Registration<MakeFromList<true>>("Sparse", {.flags = TENON_KERNEL_STATEFUL});

class Gradients : public Steps {
 public:
  explicit Gradients(std::string reduction = "MEAN")
      : Steps(kMakeDense, {{"shapes", Shapes{{2}}}, {"reduction_type", std::move(reduction)}}) {}
  Pending Apply(int64_t step, std::vector<float> values) {
    return Start(kResourceAccumulatorApplyGradientKernel, {}, {testing::Scalar(step), Floats(std::move(values))});
  }
  Pending Take(int32_t count) {
    return Start(kResourceAccumulatorTakeGradientKernel, {{"dtype", testing::Type{kFloat}}}, {testing::Scalar(count)},
                 {kFloat});
  }
  int32_t Count() { return Number(kResourceAccumulatorNumAccumulatedKernel); }
};

TEST(Accumulator, ATakeWaitsForItsGradientsAndTakesAreServedInTheirOrder) {
  Gradients sum;
  const Pending first = sum.Take(2), second = sum.Take(1);
  ExpectDone(sum.Apply(0, {1, 2}));
  EXPECT_FALSE(first->done());
  EXPECT_FALSE(second->done()) << "the first in line comes first";
  ExpectDone(sum.Apply(0, {3, 6}));
  EXPECT_EQ(Got(first), (std::vector<float>{2, 4}));
  EXPECT_EQ(sum.Count(), 0);
  ExpectDone(sum.Apply(0, {9, 9}));
  EXPECT_EQ(sum.Count(), 0) << "it is stale: the step went on with the take";
  ExpectDone(sum.Apply(1, {5, 7}));
  EXPECT_EQ(Got(second), (std::vector<float>{5, 7}));
}

TEST(Accumulator, ACancelledTakeLetsTheNextOneGoOn) {
  Gradients sum("SUM");
  const Pending many = sum.Take(3), one = sum.Take(2);
  sum.Apply(0, {1, 2});
  sum.Apply(0, {3, 4});
  EXPECT_FALSE(one->done());
  many->Cancel(TENON_DEADLINE_EXCEEDED);
  ExpectFailed(many, TENON_DEADLINE_EXCEEDED, "cancelled");
  EXPECT_EQ(Got(one), (std::vector<float>{4, 6}));
}

TEST(Accumulator, TakenAwayItEndsWhatWaits) {
  Gradients sum;
  const Pending waits = sum.Take(1);
  sum.Remove();
  ExpectFailed(waits, TENON_CANCELLED, "waiting for 1 gradients of the Accumulator 'p': it was taken away");
}

TEST(Accumulator, RefusesAndKeepsWhatItHas) {
  Gradients sum;
  ExpectDone(sum.Apply(0, {1, 2}));
  ExpectFailed(sum.Apply(0, {1, 2, 3}), TENON_INVALID_ARGUMENT, "has shape [3]");
  ExpectFailed(sum.Take(0), TENON_INVALID_ARGUMENT, "at least 1");
  ExpectFailed(sum.Start(kResourceAccumulatorTakeGradientKernel, {{"dtype", testing::Type{TENON_DT_DOUBLE}}},
                         {testing::Scalar(1)}, {TENON_DT_DOUBLE}),
               TENON_INVALID_ARGUMENT, "of float, not of double");
  ExpectFailed(sum.Start(kSparseAccumulatorTakeGradientKernel, {{"dtype", testing::Type{kFloat}}}, {testing::Scalar(1)},
                         {TENON_DT_INT64, kFloat, TENON_DT_INT64}),
               TENON_INVALID_ARGUMENT, "holds dense gradients");
  EXPECT_EQ(Got(sum.Take(1)), (std::vector<float>{1, 2}));
}

// Any indices, values and shapes: an error or a sum, and never a byte outside.
TEST(Accumulator, TakesAnySparseGradientOrRefusesIt) {
  Steps sum(kMakeSparse, {{"shapes", Shapes{{-1, 2}}}, {"reduction_type", "MEAN"}});
  ASSERT_TRUE(sum.made().ok()) << sum.made().message;
  std::mt19937 random(7);
  const auto up_to = [&](int64_t most) { return static_cast<int64_t>(random() % static_cast<uint64_t>(most + 1)); };
  int added = 0;
  for (int i = 0; i < 3000; ++i) {
    const int64_t rows = up_to(4), width = up_to(5) == 0 ? up_to(3) : 2, given = up_to(9) == 0 ? up_to(5) : rows;
    std::vector<int64_t> indices(static_cast<size_t>(rows)), shape(static_cast<size_t>(up_to(3)), 2);
    for (int64_t& index : indices) index = up_to(9) == 0 ? INT64_MIN : up_to(5);
    const std::vector<float> values(static_cast<size_t>(given * width), 1);
    const std::vector<int64_t> dims =
        up_to(9) == 0 ? std::vector<int64_t>{given * width} : std::vector<int64_t>{given, width};
    const auto shape_rank = static_cast<int64_t>(shape.size());
    const Pending applied = sum.Start(kSparseAccumulatorApplyGradientKernel, {{"has_known_shape", up_to(1) == 0}},
                                      {testing::Scalar(int64_t{1} << 40), Make<int64_t>({rows}, indices),
                                       Make<float>(dims, values), Make<int64_t>({shape_rank}, shape)});
    ASSERT_EQ(applied->ends(), 1);
    added += applied->outcome().ok() ? 1 : 0;
    if (i % 100 != 99) continue;
    ASSERT_GT(added, 0);
    const Pending taken = sum.Start(kSparseAccumulatorTakeGradientKernel, {{"dtype", testing::Type{kFloat}}},
                                    {testing::Scalar(1)}, {TENON_DT_INT64, kFloat, TENON_DT_INT64});
    for (const float mean : Got(taken, 1)) ASSERT_EQ(mean, 1) << "the mean of ones";
  }
  EXPECT_GT(added, 500);
  EXPECT_LT(added, 2900);
}

}  // namespace
}  // namespace tenon::ops::accumulator_test
