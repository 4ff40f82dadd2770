// SPDX-License-Identifier: Apache-2.0
// Every committed case against what TensorFlow computed or refused, with each set of kernels. It takes half a minute
// and more: the cases are some 28,000 graphs, each with a session of its own. Covers A8, B1 to B5, B7, B8, B10 to B13,
// B15 to B19, E8.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "tests/device/gpu.h"
#include "tests/fakes/whole.h"
#include "tests/golden/replay.h"

namespace tenon::golden {
namespace {

const std::string kFolder = TENON_TEST_SOURCE_DIR "/tests/golden";

// Who has kernels for what.
class Offers {
 public:
  explicit Offers(Kernels kernels) {
    auto runtime = MakeRuntime(kernels);
    if (!runtime.ok()) return;  // as the test says
    runtime->OpenAll();
    for (const tenon_kernel_info& kernel : runtime->Kernels())
      ops_[std::string(host::Text(kernel.plugin))].emplace(host::Text(kernel.op));
  }
  static const Offers& Of(Kernels kernels) {
    static std::map<Kernels, Offers> all;
    return all.try_emplace(kernels, kernels).first->second;
  }
  bool Has(const std::string& plugin) const { return ops_.contains(plugin); }
  // Whether that plugin has a kernel for an op of the case, or may have.
  bool ForOpOf(const Ran& ran, const std::string& plugin) const {
    const auto own = ops_.find(plugin);
    if (own == ops_.end()) return false;
    return (ran.functions && ran.differentiated) ||
           std::ranges::any_of(ran.ops, [&](const std::string& op) { return own->second.contains(op); });
  }
  // The same of any plugin that those others are without.
  bool ForOpOf(const Ran& ran, const Offers& others) const {
    return std::ranges::any_of(ops_,
                               [&](const auto& one) { return !others.Has(one.first) && ForOpOf(ran, one.first); });
  }

 private:
  std::map<std::string, std::set<std::string>> ops_;  // by plugin
};

// Whether steps of functions, or of other shapes, ran beside those that are told.
bool MoreRan(const Ran& ran) { return ran.functions || ran.several; }
bool RanPlainKernels(const Ran& ran) {
  const Offers& plain = Offers::Of(Kernels::kPlain);
  return !MoreRan(ran) && !ran.compiled && !ran.chained &&
         std::ranges::all_of(ran.plugins, [&](const std::string& plugin) { return plain.Has(plugin); });
}

// Whether a manner would run, of what ran in the first manner, the same again: the same kernels by the same executor.
bool RunsAgainPlain(const Ran& ran) {
  if (MoreRan(ran) || ran.compiled || ran.chained) return false;
  return !Offers::Of(Kernels::kAll).ForOpOf(ran, Offers::Of(Kernels::kPlain)) || (!ran.refused && RanPlainKernels(ran));
}
// oneDNN decides for each node that it is asked about.
bool RunsAgainWithOneDnnAlways(const Ran& ran) {
  constexpr char kOneDnn[] = "tenon.cpu_onednn";
  return !Offers::Of(Kernels::kAll).ForOpOf(ran, kOneDnn) ||
         (!MoreRan(ran) && !ran.refused && !ran.plugins.contains(kOneDnn));
}
bool RunsAgainAsItStands(const Ran& ran) { return !MoreRan(ran) && !ran.optimized; }
// A GPU has nodes of every op in its memory, also those for which it has no kernel of its own (constants, what hands
// its input on): what ran elsewhere says nothing of them.
bool RunsAgainOnAGpu(const Ran&) { return false; }

class Cases : public ::testing::TestWithParam<std::string> {
 protected:
  static std::string Path() { return kFolder + "/cases/" + GetParam() + ".jsonl"; }
  static Tally ReplayWith(Kernels kernels, const Manner& manner = {}, const Choice& choice = {}) {
    SayCaseOnCrash();
    Tally tally;
    const auto runtime = MakeRuntime(kernels);
    if (!runtime.ok()) {
      ADD_FAILURE() << runtime.status().message();
      return tally;
    }
    std::ifstream text(Path());
    tally = ReplayAll(*runtime, text, Differences::Read(kFolder + "/differences.json"), manner, choice);
    EXPECT_GT(tally.cases, 10u) << Path();
    return tally;
  }
  static void ExpectNone(const Tally& tally) {
    for (const std::string& failure : tally.failures) ADD_FAILURE() << Path() << ", " << failure;
  }
  static Tally ReplayFirst() {
    std::vector<Ran>& all = first_[GetParam()];
    all.clear();
    return ReplayWith(Kernels::kAll, {}, {.judge = [&](size_t, const Ran& ran) {
                        all.push_back(ran);
                        return std::string();
                      }});
  }
  // What differs from the first manner, by what ran in that; all of it, where that manner was not asked for. The whole:
  // everything, and what would have been left out is held to run as it did in the first manner.
  static void ReplayWhatDiffers(Kernels kernels, const Manner& manner, bool (*runs_again)(const Ran&)) {
    const std::vector<Ran>& first = first_[GetParam()];
    const auto leaves_out = [&](size_t number) { return number < first.size() && runs_again(first[number]); };
    const auto judge = [&](size_t number, const Ran& ran) -> std::string {
      return leaves_out(number) && ran.told != first[number].told
                 ? "would be left out, and runs otherwise than in the first manner"
                 : "";
    };
    Choice choice;
    if (fakes::IsWhole()) choice.judge = judge;
    else choice.leaves_out = leaves_out;
    const Tally tally = ReplayWith(kernels, manner, choice);
    ExpectNone(tally);
    const std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    Tally& sum = sums_[name.substr(0, name.find('/'))];
    sum.cases += tally.cases;
    sum.left_out += tally.left_out;
  }
  static void TearDownTestSuite() {
    for (const auto& [name, sum] : sums_)
      std::printf("%s: %zu cases replayed, %zu left out, since what runs is what ran in the first manner\n",
                  name.c_str(), sum.cases - sum.left_out, sum.left_out);
    sums_.clear();
  }

  static inline std::map<std::string, Tally> sums_;  // by manner
  static inline std::map<std::string, std::vector<Ran>> first_;  // by file, what ran in the first manner
};

TEST_P(Cases, AreTensorFlows) { ExpectNone(ReplayFirst()); }
TEST_P(Cases, AreTensorFlowsWithPlainKernelsAlone) { ReplayWhatDiffers(Kernels::kPlain, {}, RunsAgainPlain); }
TEST_P(Cases, AreTensorFlowsWithOneDnnAtAnySize) {
  ReplayWhatDiffers(Kernels::kOneDnnAlways, {}, RunsAgainWithOneDnnAlways);
}
TEST_P(Cases, AreTensorFlowsInGraphsAsTheyStand) {
  ReplayWhatDiffers(Kernels::kAll, {.optimize = false}, RunsAgainAsItStands);
}
TEST_P(Cases, AreTensorFlowsOnAGpu) {
  if (const std::string why = device_test::WhyNoGpu(); !why.empty()) GTEST_SKIP() << why;
  ReplayWhatDiffers(Kernels::kGpu, {.device = device_test::kGpu}, RunsAgainOnAGpu);
}

class Pipelines : public Cases {};
TEST_P(Pipelines, GoOnFromTheirStateInAnotherSessionAfterEachElement) {
  ExpectNone(ReplayWith(Kernels::kAll, {.resume = true}));
}
TEST_P(Pipelines, TakeNoHarmFromDamagedStates) { ExpectNone(ReplayWith(Kernels::kAll, {.resume = true, .damage = 8})); }
INSTANTIATE_TEST_SUITE_P(Of, Pipelines,
                         ::testing::Values("dataset", "dataset_files", "dataset_names", "dataset_others",
                                           "dataset_parse"),
                         [](const auto& test) { return test.param; });

std::vector<std::string> Packages() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder + "/cases"))
    names.push_back(entry.path().stem());
  std::sort(names.begin(), names.end());
  return names;
}
INSTANTIATE_TEST_SUITE_P(Of, Cases, ::testing::ValuesIn(Packages()), [](const auto& test) { return test.param; });

// The measure itself: what would let everything pass would show here.
class Measure : public ::testing::Test {
 protected:
  static host::Tensor Floats(std::vector<float> values) {
    return *host::Tensor::From(values, host::Shape{static_cast<int64_t>(values.size())});
  }
};
TEST_F(Measure, TakesUnitsOfTheLastPlaceAndNoMore) {
  EXPECT_EQ(Compare(Floats({1}), Floats({1 + 0x1p-21f}), {}), "");
  EXPECT_NE(Compare(Floats({1}), Floats({1 + 0x1p-19f}), {}), "");
  EXPECT_NE(Compare(Floats({1, 1000}), Floats({1 + 0x1p-19f, 1000}), {}), "");
  EXPECT_EQ(Compare(Floats({1, 1000}), Floats({1 + 0x1p-19f, 1000}), {.of_largest = true}), "");
}
TEST_F(Measure, TellsNanInfinitiesAndZerosApart) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(Compare(Floats({nan, infinity, -0.0f}), Floats({nan, infinity, -0.0f}), {}), "");
  EXPECT_NE(Compare(Floats({nan}), Floats({1}), {}), "");
  EXPECT_NE(Compare(Floats({1}), Floats({nan}), {}), "");
  EXPECT_NE(Compare(Floats({infinity}), Floats({-infinity}), {}), "");
  EXPECT_NE(Compare(Floats({infinity}), Floats({3e38f}), {}), "");
  EXPECT_NE(Compare(Floats({0.0f}), Floats({-0.0f}), {}), "");
  EXPECT_EQ(Compare(Floats({0.0f}), Floats({-0.0f}), {.signed_zero = false}), "");
}
TEST_F(Measure, LooksAtShapeAndDtype) {
  EXPECT_NE(Compare(Floats({}), *host::Tensor::Scalar(1.0f), {}), "");
  EXPECT_NE(Compare(*host::Tensor::Scalar(1), *host::Tensor::Scalar(1.0f), {}), "");
  EXPECT_NE(Compare(*host::Tensor::String("a"), *host::Tensor::String("b"), {}), "");
}

}  // namespace
}  // namespace tenon::golden
