// SPDX-License-Identifier: Apache-2.0
// Convolutions with what follows them as one operation: the numbers are those of the nodes one by one, and what must
// stay apart does. Covers N5, Q2.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "tests/engine/chains.h"

namespace tenon::engine::chain_test {
namespace {

// Without code for what follows no convolution: the compiler in question is oneDNN's.
Runtime& ChainRuntime() { return *RuntimeOf("none"); }

struct Form {
  const char* name;
  const char* convolution = "Conv2D";
  const char* format = "NHWC";
  int64_t batch = 1;
  bool bias = false, bias_as_sum = false;
  const char* normalization = "";
  bool addend = false, addend_first = false;
  const char* activation = "";
  bool constant = true;  // the filter and all vectors; else they are fed
  int stride = 1;
};

std::ostream& operator<<(std::ostream& out, const Form& form) { return out << form.name; }

// Sessions with and without compilers over one graph, with the same feeds.
class ChainTest : public ::testing::TestWithParam<Form> {
 protected:
  static constexpr int64_t kSide = 12, kIn = 16, kOut = 32;  // enough work for oneDNN

  Tensor Numbers(std::vector<int64_t> dims, double from, double to) {
    int64_t count = 1;
    for (int64_t dim : dims) count *= dim;
    std::vector<float> values;
    for (int64_t i = 0; i < count; ++i) {
      seed_ = seed_ * 1664525u + 1013904223u;
      values.push_back(static_cast<float>(from + (to - from) * (seed_ >> 8) / (1u << 24)));
    }
    return *Tensor::From(values, Shape(dims));
  }
  Output Fed(const Tensor& value) {
    const Output made = g_.Op("Placeholder", {}, {{"dtype", DType::kFloat}, {"shape", value.shape()}});
    feeds_.emplace_back(made, value);
    return made;
  }
  Output Given(const Tensor& value, bool constant) { return constant ? g_.Const(value) : Fed(value); }
  Output Vector(bool constant, double from = -1, double to = 1) { return Given(Numbers({kOut}, from, to), constant); }

  std::vector<int64_t> Image(int64_t batch, int64_t side, int64_t channels, std::string_view format) {
    return format == "NHWC" ? std::vector<int64_t>{batch, side, side, channels}
                            : std::vector<int64_t>{batch, channels, side, side};
  }
  Output Convolve(const Form& f, const Output& x) {
    const bool depthwise = std::string_view(f.convolution) == "DepthwiseConv2dNative";
    const bool last = std::string_view(f.format) == "NHWC";
    const Output filter = Given(Numbers({3, 3, kIn, depthwise ? kOut / kIn : kOut}, -0.3, 0.3), f.constant);
    const std::vector<int64_t> strides =
        last ? std::vector<int64_t>{1, f.stride, f.stride, 1} : std::vector<int64_t>{1, 1, f.stride, f.stride};
    return g_.Op(f.convolution, {x, filter}, {{"strides", strides}, {"padding", "SAME"}, {"data_format", f.format}});
  }
  Output Chain(const Form& f, int64_t side) {
    Output y = Convolve(f, Fed(Numbers(Image(f.batch, side, kIn, f.format), -1, 1)));
    if (f.bias) y = g_.Op("BiasAdd", {y, Vector(f.constant)}, {{"data_format", f.format}});
    if (f.bias_as_sum) y = g_.Op("AddV2", {Vector(f.constant), y});
    if (f.normalization[0] != '\0')
      y = Output(g_.AddNode(
          f.normalization,
          {y, Vector(f.constant, 0.5, 2), Vector(f.constant), Vector(f.constant), Vector(f.constant, 0.2, 3)},
          {{"is_training", false}, {"data_format", f.format}}));
    if (f.addend) {
      // Made by the step and read by nobody else: the sum may take its memory.
      const Output other = g_.Op("Tanh", {Fed(Numbers(Image(f.batch, side / f.stride, kOut, f.format), -2, 2))});
      y = g_.Op("AddV2", f.addend_first ? std::vector<Output>{other, y} : std::vector<Output>{y, other});
    }
    if (f.activation[0] != '\0') y = g_.Op(f.activation, {y});
    return y;
  }

  struct Answer {
    std::vector<Tensor> values;
    std::map<std::string, int> how;  // nodes by how they run
  };
  Answer Run(const std::vector<Name>& fetches, bool compile, std::vector<Name> targets = {}) {
    SessionOptions options;
    options.compile = compile;
    auto session = Session::Create(ChainRuntime(), g_, options);
    if (!session.ok()) return ADD_FAILURE() << session.status().message(), Answer{};
    std::vector<Name> names;
    std::vector<View> views;
    for (const auto& [name, value] : feeds_) {
      names.emplace_back(name);
      views.emplace_back(value);
    }
    auto callable = session->Prepare(names, fetches, targets);
    if (!callable.ok()) return ADD_FAILURE() << callable.status().message(), Answer{};
    auto first = callable->Run(views);
    auto values = callable->Run(views);  // the memory is another step's by now
    if (!first.ok() || !values.ok())
      return ADD_FAILURE() << first.status().message() << values.status().message(), Answer{};
    Answer answer{std::move(*values), {}};
    const std::string text = *callable->Explain();
    for (size_t at = text.find("\"runs\":\""); at != std::string::npos; at = text.find("\"runs\":\"", at)) {
      at += 8;
      ++answer.how[text.substr(at, text.find('"', at) - at)];
    }
    return answer;
  }
  // The same values, compiled and not; gives how many nodes were compiled. of_largest: the error that an element may
  // have over the largest; 0: over its own.
  int Compare(const std::vector<Name>& fetches, float of_largest = 0) {
    const Answer one_by_one = Run(fetches, false), compiled = Run(fetches, true);
    EXPECT_EQ(one_by_one.how.count("compiled"), 0u);
    if (one_by_one.values.size() != compiled.values.size()) return ADD_FAILURE() << "values are missing", 0;
    for (size_t k = 0; k < compiled.values.size(); ++k) {
      const auto want = Values<float>(one_by_one.values[k]), got = Values<float>(compiled.values[k]);
      if (want.size() != got.size()) return ADD_FAILURE() << "output " << k << " has another shape", 0;
      float largest = 0;
      for (const float value : want) largest = std::max(largest, std::fabs(value));
      for (size_t i = 0; i < got.size(); ++i)
        if (!(std::fabs(want[i] - got[i]) <=
              (of_largest > 0 ? of_largest * largest : 2e-5f * (1 + std::fabs(want[i])))))
          return ADD_FAILURE() << "output " << k << ", element " << i << ": " << got[i] << " instead of " << want[i], 0;
    }
    const auto found = compiled.how.find("compiled");
    return found == compiled.how.end() ? 0 : found->second;
  }

  Graph g_{ChainRuntime()};
  std::vector<std::pair<Output, Tensor>> feeds_;
  uint32_t seed_ = 7;
};

// Whether a convolution is oneDNN's. It may not have been built, or have nothing fast for this machine. Loads it.
bool HasOnednn() {
  Graph g(ChainRuntime());
  const Output image = g.Const(*Tensor::From(std::vector<float>(32 * 32 * 16, 1), Shape{1, 32, 32, 16}));
  const Output filter = g.Placeholder("filter", DType::kFloat, {3, 3, 16, 16});
  const Output y =
      g.Op("Conv2D", {image, filter}, {{"strides", std::vector<int64_t>{1, 1, 1, 1}}, {"padding", "SAME"}});
  auto session = Session::Create(ChainRuntime(), g);
  auto callable = session->Prepare({filter}, {y});
  return callable.ok() && callable->Explain()->find("tenon.cpu_onednn") != std::string::npos;
}

#define NEEDS_ONEDNN() \
  if (!HasOnednn()) GTEST_SKIP() << "without oneDNN nothing is compiled; the numbers were compared"

class ChainForms : public ChainTest {};

TEST_P(ChainForms, GivesTheNumbersOfItsNodes) {
  const Form& f = GetParam();
  const int nodes = 1 + f.bias + f.bias_as_sum + (f.normalization[0] != '\0') + f.addend + (f.activation[0] != '\0');
  const int compiled = Compare({Chain(f, kSide * f.stride)});
  NEEDS_ONEDNN();
  if (compiled == 0 && !f.constant && f.normalization[0] != '\0' && !__builtin_cpu_supports("avx512f"))
    GTEST_SKIP() << "without AVX-512 oneDNN has only its reference for channels that are multiplied afterwards, which "
                    "is refused; the numbers were compared";
  EXPECT_EQ(compiled, nodes);
}

INSTANTIATE_TEST_SUITE_P(
    All, ChainForms,
    ::testing::Values(
        Form{.name = "bias", .bias = true}, Form{.name = "bias_relu", .bias = true, .activation = "Relu"},
        Form{.name = "bias_relu_batch", .batch = 3, .bias = true, .activation = "Relu"},
        Form{.name = "bias_relu_nchw", .format = "NCHW", .batch = 2, .bias = true, .activation = "Relu"},
        Form{.name = "bias_fed", .bias = true, .activation = "Tanh", .constant = false},
        Form{.name = "sum_of_vector", .bias_as_sum = true, .activation = "Sigmoid"},
        Form{.name = "two_sums", .bias = true, .bias_as_sum = true, .activation = "Elu", .constant = false},
        Form{.name = "relu6", .activation = "Relu6"}, Form{.name = "leaky", .bias = true, .activation = "LeakyRelu"},
        Form{.name = "normalized", .normalization = "FusedBatchNormV3"},
        Form{.name = "normalized_relu", .batch = 2, .normalization = "FusedBatchNormV3", .activation = "Relu"},
        Form{.name = "normalized_fed", .normalization = "FusedBatchNormV3", .activation = "Relu", .constant = false},
        Form{.name = "normalized_first_version", .bias = true, .normalization = "FusedBatchNorm", .activation = "Relu"},
        Form{.name = "normalized_nchw",
             .format = "NCHW",
             .normalization = "FusedBatchNormV2",
             .activation = "Relu",
             .constant = false},
        Form{.name = "everything",
             .batch = 2,
             .bias = true,
             .normalization = "FusedBatchNormV3",
             .addend = true,
             .activation = "Relu"},
        Form{.name = "everything_fed",
             .bias = true,
             .normalization = "FusedBatchNormV3",
             .addend = true,
             .addend_first = true,
             .activation = "Relu",
             .constant = false},
        Form{.name = "everything_nchw",
             .format = "NCHW",
             .bias = true,
             .normalization = "FusedBatchNormV3",
             .addend = true,
             .activation = "Relu"},
        Form{.name = "addend", .addend = true, .addend_first = true},
        Form{.name = "strides", .bias = true, .addend = true, .activation = "Relu", .stride = 2}),
    [](const auto& info) { return std::string(info.param.name); });

class DepthwiseForms : public ChainTest {};

// A depthwise convolution has less work, so that its images are larger.
TEST_P(DepthwiseForms, GiveTheNumbersOfTheirNodes) {
  const Form& f = GetParam();
  HasOnednn();  // which is loaded for convolutions that are not depthwise
  const int nodes = 1 + f.bias + (f.normalization[0] != '\0') + (f.activation[0] != '\0');
  const int compiled = Compare({Chain(f, 64 * f.stride)});
  NEEDS_ONEDNN();
  if (compiled == 0 && !f.constant && f.normalization[0] != '\0' && !__builtin_cpu_supports("avx512f"))
    GTEST_SKIP() << "without AVX-512 oneDNN has only its reference for channels that are multiplied afterwards, which "
                    "is refused; the numbers were compared";
  EXPECT_EQ(compiled, nodes);
}

INSTANTIATE_TEST_SUITE_P(All, DepthwiseForms,
                         ::testing::Values(Form{.name = "bias_relu",
                                                .convolution = "DepthwiseConv2dNative",
                                                .bias = true,
                                                .activation = "Relu"},
                                           Form{.name = "normalized",
                                                .convolution = "DepthwiseConv2dNative",
                                                .batch = 2,
                                                .normalization = "FusedBatchNormV3",
                                                .activation = "Relu6"},
                                           Form{.name = "normalized_fed",
                                                .convolution = "DepthwiseConv2dNative",
                                                .normalization = "FusedBatchNormV3",
                                                .activation = "Relu6",
                                                .constant = false},
                                           Form{.name = "strides",
                                                .convolution = "DepthwiseConv2dNative",
                                                .bias = true,
                                                .activation = "Relu",
                                                .stride = 2}),
                         [](const auto& info) { return std::string(info.param.name); });

// Large images of many channels go through Winograd's transforms on processors with AVX-512: shares begin at any row,
// edges are of part of a tile.
TEST_F(ChainTest, GivesTheNumbersOfItsNodesWhereWinogradIsFaster) {
  struct Case {
    int64_t batch, height, width, in, out;
    const char* padding;
    bool addend, normalized;
  };
  for (const Case& each : {Case{1, 28, 28, 64, 64, "SAME", false, false},
                           {1, 29, 31, 64, 80, "SAME", true, true},
                           {3, 17, 15, 96, 64, "VALID", true, false},
                           {9, 14, 14, 128, 64, "SAME", false, true}}) {
    SCOPED_TRACE(testing::Message() << each.batch << " x " << each.height << " x " << each.width << ", " << each.in
                                    << " to " << each.out);
    g_ = Graph(ChainRuntime());
    feeds_.clear();
    const Output x = Fed(Numbers({each.batch, each.height, each.width, each.in}, -1, 1));
    const auto vector = [&](double from, double to) { return g_.Const(Numbers({each.out}, from, to)); };
    Output y = g_.Op("Conv2D", {x, g_.Const(Numbers({3, 3, each.in, each.out}, -0.3, 0.3))},
                     {{"strides", std::vector<int64_t>{1, 1, 1, 1}}, {"padding", each.padding}});
    if (each.normalized)
      y = Output(g_.AddNode("FusedBatchNormV3", {y, vector(0.5, 2), vector(-1, 1), vector(-1, 1), vector(0.2, 3)},
                            {{"is_training", false}}));
    const int64_t less = std::string_view(each.padding) == "VALID" ? 2 : 0;
    if (each.addend)
      y = g_.Op(
          "AddV2",
          {y, g_.Op("Tanh", {Fed(Numbers({each.batch, each.height - less, each.width - less, each.out}, -2, 2))})});
    y = g_.Op("Relu", {y});
    const int compiled = Compare({y}, 6e-6f);
    if (HasOnednn()) {
      EXPECT_GE(compiled, 2);
    }
  }
}

// Nodes one by one go through the transforms, too: so the numbers of both are held against the definition's.
TEST_F(ChainTest, GivesTheDefinitionsNumbersWhereWinogradIsFaster) {
  constexpr int64_t kSize = 28, kChannels = 64;
  const Tensor image = Numbers({1, kSize, kSize, kChannels}, -1, 1),
               filter = Numbers({3, 3, kChannels, kChannels}, -0.3, 0.3);
  const Output y = g_.Op("Relu", {g_.Op("Conv2D", {Fed(image), g_.Const(filter)},
                                        {{"strides", std::vector<int64_t>{1, 1, 1, 1}}, {"padding", "SAME"}})});
  const auto x = Values<float>(image), f = Values<float>(filter), found = Values<float>(Run({y}, true).values[0]),
             by_nodes = Values<float>(Run({y}, false).values[0]);
  std::vector<double> sums(x.size());
  for (int64_t row = 0; row < kSize; ++row)
    for (int64_t column = 0; column < kSize; ++column)
      for (int64_t cell = 0; cell < 9; ++cell) {
        const int64_t v = row + cell / 3 - 1, u = column + cell % 3 - 1;
        if (v < 0 || v >= kSize || u < 0 || u >= kSize) continue;
        double* to = sums.data() + (row * kSize + column) * kChannels;
        for (int64_t i = 0; i < kChannels; ++i)
          for (int64_t o = 0; o < kChannels; ++o)
            to[o] += static_cast<double>(x[static_cast<size_t>((v * kSize + u) * kChannels + i)]) *
                     static_cast<double>(f[static_cast<size_t>((cell * kChannels + i) * kChannels + o)]);
      }
  double largest = 0;
  for (const double sum : sums) largest = std::max(largest, std::abs(sum));
  for (size_t i = 0; i < sums.size(); ++i) {
    ASSERT_NEAR(found[i], std::max(sums[i], 0.0), 1e-5 * largest) << i;
    ASSERT_NEAR(by_nodes[i], std::max(sums[i], 0.0), 1e-5 * largest) << i;
  }
}

TEST_F(ChainTest, LeavesAValueThatIsReadTwice) {
  const Form f{.name = ""};
  const Output y = Convolve(f, Fed(Numbers({1, kSide, kSide, kIn}, -1, 1)));
  const Output sum = g_.Op("BiasAdd", {y, Vector(true)});
  EXPECT_EQ(Compare({g_.Op("Relu", {sum}), g_.Op("Tanh", {y})}), 0);
}

TEST_F(ChainTest, GivesWhatIsFetchedFromItsMiddle) {
  const Form f{.name = ""};
  const Output sum = g_.Op("BiasAdd", {Convolve(f, Fed(Numbers({1, kSide, kSide, kIn}, -1, 1))), Vector(true)});
  EXPECT_EQ(Compare({g_.Op("Relu", {sum}), sum}), 0);
}

TEST_F(ChainTest, TakesWhatIsFedIntoItsMiddle) {
  const Form f{.name = ""};
  const Output sum = g_.Op("BiasAdd", {Convolve(f, Fed(Numbers({1, kSide, kSide, kIn}, -1, 1))), Vector(true)});
  feeds_.emplace_back(sum, Numbers({1, kSide, kSide, kOut}, -1, 1));
  EXPECT_EQ(Compare({g_.Op("Relu", {sum})}), 0);
}

TEST_F(ChainTest, TakesOneConvolutionOfTwoThatAreAdded) {
  const Form f{.name = ""};
  const Output x = Fed(Numbers({1, kSide, kSide, kIn}, -1, 1));
  const Output left = g_.Op("BiasAdd", {Convolve(f, x), Vector(true)}),
               right = g_.Op("BiasAdd", {Convolve(f, x), Vector(true)});
  const int compiled = Compare({g_.Op("Relu", {g_.Op("AddV2", {left, right})})});
  NEEDS_ONEDNN();
  EXPECT_EQ(compiled, 6);
}

// Whoever brings a better kernel has his way, whatever a compiler would take.
TEST_F(ChainTest, LeavesANodeToAKernelOfAHigherPriority) {
  auto runtime = Runtime::Create();
  ASSERT_TRUE(runtime.ok() && runtime->LoadPlugin(TENON_TEST_OUTRANKING_PLUGIN).ok());
  const auto run = [&](Runtime& where) {
    Graph g(where);
    const Output image =
        g.Const(*Tensor::From(std::vector<float>(kSide * kSide * kIn, 0.5f), Shape{1, kSide, kSide, kIn}));
    const Output filter = g.Const(*Tensor::From(std::vector<float>(9 * kIn * kOut, 0.25f), Shape{3, 3, kIn, kOut}));
    const Output y =
        g.Op("Conv2D", {image, filter}, {{"strides", std::vector<int64_t>{1, 1, 1, 1}}, {"padding", "SAME"}});
    const Output out =
        g.Op("Relu", {g.Op("BiasAdd", {y, g.Const(*Tensor::From(std::vector<float>(kOut, 1), Shape{kOut}))})});
    auto session = Session::Create(where, g);
    return Values<float>((*session->Run({}, {out}))[0]);
  };
  const auto plain = run(ChainRuntime()), better = run(*runtime);
  ASSERT_EQ(plain.size(), better.size());
  for (size_t i = 0; i < plain.size(); ++i) ASSERT_NEAR(plain[i] + 1, better[i], 1e-5f) << i;
}

// The sum may not take the image's memory, of which other rows are still read.
TEST_F(ChainTest, AddsTheImageItself) {
  const Output image = g_.Op("Tanh", {Fed(Numbers({1, kSide, kSide, kOut}, -1, 1))});
  const Output filter = g_.Const(Numbers({3, 3, kOut, kOut}, -0.3, 0.3));
  const Output y =
      g_.Op("Conv2D", {image, filter}, {{"strides", std::vector<int64_t>{1, 1, 1, 1}}, {"padding", "SAME"}});
  const int compiled = Compare({g_.Op("Relu", {g_.Op("AddV2", {image, y})})});
  NEEDS_ONEDNN();
  EXPECT_EQ(compiled, 3);
}

// What is added comes from a branch, the convolution does not: they are not dead together.
TEST_F(ChainTest, KeepsBranchesApart) {
  const Form f{.name = ""};
  const Output y = Convolve(f, Fed(Numbers({1, kSide, kSide, kIn}, -1, 1)));
  const Output other = Fed(Numbers({1, kSide, kSide, kOut}, -1, 1)),
               predicate = g_.Placeholder("predicate", DType::kBool, {});
  const Operation gate = g_.AddNode("Switch", {other, predicate});
  const Output taken = g_.Op("Relu", {g_.Op("AddV2", {y, gate.output(1)})});
  const Output merged = Output(g_.AddNode("Merge", {g_.Op("Neg", {gate.output(0)}), taken}));
  feeds_.emplace_back(predicate, *Tensor::Scalar(true));
  EXPECT_EQ(Compare({merged}), 0);
  feeds_.back().second = *Tensor::Scalar(false);
  EXPECT_EQ(Compare({merged}), 0);
}

TEST_F(ChainTest, RunsInALoop) {
  const Output zero = g_.Const(*Tensor::Scalar(int32_t{0})), image = Fed(Numbers({1, kSide, kSide, kIn}, -1, 1));
  const Output filter = g_.Const(Numbers({3, 3, kIn, kIn}, -0.1, 0.1)), bias = g_.Const(Numbers({kIn}, -1, 1));
  const auto last = While(
      g_, {zero, image}, {filter, bias},
      [&](const std::vector<Output>& in) {
        return g_.Op("Less", {in[0], g_.Const(*Tensor::Scalar(int32_t{3}))});
      },
      [&](const std::vector<Output>& in) {
        Output y =
            g_.Op("Conv2D", {in[1], in[2]}, {{"strides", std::vector<int64_t>{1, 1, 1, 1}}, {"padding", "SAME"}});
        y = g_.Op("Relu", {g_.Op("BiasAdd", {y, in[3]})});
        return std::vector<Output>{g_.Op("AddV2", {in[0], g_.Const(*Tensor::Scalar(int32_t{1}))}), y};
      });
  Compare({last[1]});
}

// Other shapes than those that it was bound to first; constants are packed once for both.
TEST_F(ChainTest, IsBoundToEachShape) {
  const Output x = g_.Op("Placeholder", {}, {{"dtype", DType::kFloat}});
  const Output filter = g_.Const(Numbers({3, 3, kIn, kOut}, -0.3, 0.3));
  const Output y =
      g_.Op("Relu", {g_.Op("BiasAdd", {g_.Op("Conv2D", {x, filter},
                                             {{"strides", std::vector<int64_t>{1, 1, 1, 1}}, {"padding", "SAME"}}),
                                       Vector(true)})});
  for (int64_t batch : {1, 4, 2}) {
    feeds_ = {{x, Numbers({batch, kSide, kSide, kIn}, -1, 1)}};
    Compare({y});
  }
}

}  // namespace
}  // namespace tenon::engine::chain_test
