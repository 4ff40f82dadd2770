// SPDX-License-Identifier: Apache-2.0
// The networks that bench-gpu times, made tiny, under a session's precision policy on an emulated GPU with its vendor's
// emulated libraries, beside the same graph in strict float32 on the CPU: the loss and the gradients of one step,
// against bounds that follow from the type. A table of it is printed. Covers N4.
//
// What a policy allows on a GPU: products round their factors to p bits (bfloat16: 8, float16: 11, of which the first
// is not stored; convolutions 11 under either, since cuDNN multiplies floats as TF32), and add in float32. All else,
// the weights too, is float32. float32's own roundings (2^-24) are 2^13 times smaller than those of 11 bits, so that
// the reference need not be of float64, in which these networks cannot be had: normalisation of batches and the first
// values of weights are float32's. ROCm's libraries are asked for strict float32 under every policy, but of what is
// kept in bfloat16.
//
// Bounds. One rounding of a number whose logarithm lies anywhere changes it by up to 2^-p, and has a root mean square
// of r = 0.42 * 2^-p (the mean of 1/m^2 over such mantissas m in [1, 2) is 0.54; an error that lies anywhere in +-2^-p
// has a mean square of 2^-2p / 3). A sum of products whose factors are rounded is off by sqrt(2) r, whatever its
// length, since the terms' errors are independent; if sums were rounded to p bits too, one of k terms would be off by
// another sqrt(k / 2) r or so, and BERT's gradients by nearly twice their bound. If weights were kept in p bits, most
// of a step would be lost: gradients would be off by more than their size. Errors of one product after another add as a
// random walk does; a branch's, which is added to a value that goes past it, count half. So what stands behind L
// products is off by e = sqrt(2 L) r, and so is the loss at the most. A gradient is a product of two: what the forward
// pass gave there, and what the backward pass did. Together they have the L products of the longest chain behind them
// once, and their own: sqrt((2 L + 2) r^2). What the loss's own gradient is off by is less than either: logits begin
// near zero. A rectifier, and a pooling's choice, lets a gradient through or not. An error e of what it is given turns
// it over for 0.32 e of its elements (0.4 is the density of a normal distribution at 0, 0.8 the mean size of an error),
// which is a mean square of 0.64 e of the half that passes: it is added for each.
//
// Kept in 16 bits (the option `storage` of the plugin, here `always`: of networks so small it pays nowhere), all that
// stands between products is rounded whenever it is stored, once more for each node that computes, and convolutions
// multiply the same halves as products do. So every link counts its weights (r^2), and each stored result r^2: s in the
// chains below, which says how many there are behind a product on the longest way (the product, the bias or
// normalisation, the sum with what goes past; of BERT the nodes of Gelu and of the normalisation of layers, of a cell
// of LSTM its functions, products and sum). Gradients go back over as many, which are counted once, as above; sums that
// update weights are float32 still, and so are normalisations' statistics, softmax and the loss.
//
// ResNet-50's gradients have no bound here: fifty normalisations over a few numbers each enlarge whatever comes in.
// float32's own error is forty times the other networks' there, and 2^13 times that is most of a gradient. Its loss has
// one.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>

#include "networks.h"
#include "tests/device/gpu.h"

namespace tenon::perf {
namespace {

using host::Graph;
using host::Name;
using host::Output;
using host::Precision;
using host::Runtime;
using host::Session;
using host::SessionOptions;
using host::Status;
using host::Tensor;
using host::View;

const std::string kPlugins = TENON_TEST_BUILD_DIR "/tests/plugins/";

// The longest chain of a network: d a product of matrices, c a convolution; D and C those of a branch; r a rectifier, p
// a pooling.
const std::map<std::string_view, std::string>& Chains() {
  const auto times = [](int count, const std::string& part) {
    std::string out;
    for (int i = 0; i < count; ++i) out += part;
    return out;
  };
  static const auto* const chains = new std::map<std::string_view, std::string>{
      {"alexnet", "crp crp cr cr crp dr dr d"},
      {"overfeat", "crp crp cr cr crp dr dr d"},
      {"vgg_a", "crp crp cr crp cr crp cr crp dr dr d"},
      {"googlenet", "crp cr cr p" + times(2, "crcr") + "p" + times(5, "crcr") + "p" + times(2, "crcr") + "d"},
      {"resnet50", "c" + times(16, "CCC") + "d"},
      {"bert_base",
       times(2, "DDD DD") + "dd"},  // two layers: attention's products, and those behind it; the masked words'
      {"lstm", "d" + times(5, "D") + "d" + times(5, "D") +
                   "d"},  // two layers of five steps, half of whose state goes past them; the logits
  };
  return *chains;
}

// Results that are stored behind each product of a network.
const std::map<std::string_view, int>& StoredResults() {
  static const auto* const results = new std::map<std::string_view, int>{
      {"alexnet", 2}, {"overfeat", 2}, {"vgg_a", 2}, {"googlenet", 2}, {"resnet50", 3}, {"bert_base", 6}, {"lstm", 6}};
  return *results;
}

struct Bounds {
  double loss, gradients;
};
// stored: results in 16 bits behind each product; 0: all is float32 but the products' factors.
Bounds BoundsOf(const std::string& chain, int bits_of_products, int stored) {
  const auto rounding = [](int bits) { return 0.42 * std::ldexp(1.0, -bits); };
  double square = 0, turned = 0, largest = 0;
  for (const char link : chain) {
    const double r = rounding(link == 'd' || link == 'D' || stored > 0 ? bits_of_products : 11);
    if (link == 'd' || link == 'c') square += (stored > 0 ? 1 + stored : 2) * r * r;
    if (link == 'D' || link == 'C') square += (stored > 0 ? 1 + stored : 1) * r * r;
    if (link == 'r' || link == 'p') turned += 0.64 * std::sqrt(square);
    if (std::isalpha(static_cast<unsigned char>(link)) != 0 && link != 'r' && link != 'p')
      largest = std::max(largest, r);
  }
  return {std::sqrt(square), std::sqrt(square + 2 * largest * largest + turned)};
}

// Gradients stand in the weights: one step of gradient descent leaves them there, exact to the last bit of a weight,
// which is 2^-24 of it. With a weight in 16 bits they would be lost.
constexpr float kRate = 1.0f / 256;
// Widths are multiples of eight where the tiny ones are not: cuBLASLt multiplies halves of no others.
NetworkKind Sized(NetworkKind kind) {
  kind.optimizer = train::OptimizerOptions::Kind::kGradientDescent;
  kind.rate = kRate;
  if (kind.tiny.words > 0) kind.tiny.words = 48;
  if (kind.name == "lstm") kind.tiny.shrink = 62;
  return kind;
}

struct Outcome {
  double loss = 0;
  std::vector<std::vector<float>> before, after;  // of all trainable variables
};

Runtime MakeRuntime(const std::string& vendor, const char* storage) {
  host::RuntimeOptions options = device_test::GpuOptions();
  options.plugins = {kPlugins + "tenon_gpu_emulated_" + vendor + ".so"};
  options.plugin_options.push_back({device_test::GpuPlugin(), "libraries", kPlugins + "libraries"});
  options.plugin_options.push_back({device_test::GpuPlugin(), "storage", storage});
  auto made = Runtime::Create(options);
  if (!made.ok()) {
    ADD_FAILURE() << made.status();
    std::abort();  // NOLINT: nothing can be tested without a runtime
  }
  return std::move(*made);
}

// A step of a network from given weights; its own where there are none.
class Step {
 public:
  Step(const Runtime& runtime, const NetworkKind& kind)
      : runtime_(runtime), graph_(runtime), network_(graph_, kind, kind.tiny) {
    for (const train::Variable* variable : network_.model().trainable()) {
      given_.push_back(graph_.Placeholder("given/" + variable->name, variable->dtype, variable->shape));
      give_.push_back(
          graph_.AddNode("AssignVariableOp", {variable->handle, given_.back()}, {{"dtype", variable->dtype}}));
      read_.emplace_back(graph_.Op("ReadVariableOp", {variable->handle}, {{"dtype", variable->dtype}}));
    }
  }
  host::Result<Outcome> Run(const SessionOptions& options, const std::vector<std::vector<float>>& weights) const {
    TENON_TRY_ASSIGN(const Session session, Session::Create(runtime_, graph_, options));
    TENON_TRY(network_.Begin(session));
    std::vector<host::Feed> feeds;
    for (size_t i = 0; i < weights.size(); ++i) feeds.push_back({given_[i], View(weights[i], given_[i].shape())});
    if (!weights.empty()) TENON_TRY(session.RunTargets({give_.begin(), give_.end()}, feeds));
    Outcome out;
    TENON_TRY_ASSIGN(out.before, Read(session));
    TENON_TRY_ASSIGN(const std::vector<Tensor> loss, session.Run({}, {network_.loss()}, {network_.update()}));
    out.loss = loss[0].scalar<float>();
    TENON_TRY_ASSIGN(out.after, Read(session));
    return out;
  }
  std::string NameOf(size_t variable) const { return network_.model().trainable()[variable]->name; }

 private:
  host::Result<std::vector<std::vector<float>>> Read(const Session& session) const {
    TENON_TRY_ASSIGN(const std::vector<Tensor> values, session.Run({}, read_));
    std::vector<std::vector<float>> out;
    for (const Tensor& value : values) out.emplace_back(value.data<float>().begin(), value.data<float>().end());
    return out;
  }
  const Runtime& runtime_;
  Graph graph_;
  const Network network_;
  std::vector<Output> given_;
  std::vector<host::Operation> give_;
  std::vector<Name> read_;
};

// The root of the mean square of the difference of all gradients, over that of the gradients.
double OffBy(const Outcome& exact, const Outcome& found) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < exact.before.size(); ++i)
    for (size_t j = 0; j < exact.before[i].size(); ++j) {
      const double wanted = double{exact.before[i][j]} - exact.after[i][j],
                   got = double{found.before[i][j]} - found.after[i][j];
      difference += (got - wanted) * (got - wanted);
      size += wanted * wanted;
    }
  return std::sqrt(difference / size);
}

struct Policy {
  const char* name;
  Precision precision;
  int bits;
  const char* storage;
};
constexpr std::array kPolicies = {Policy{"bfloat16", Precision::kAllowBfloat16, 8, "off"},
                                  Policy{"float16", Precision::kAllowFloat16, 11, "off"},
                                  Policy{"bfloat16, stored", Precision::kAllowBfloat16, 8, "always"},
                                  Policy{"float16, stored", Precision::kAllowFloat16, 11, "always"}};

double LossOffBy(const Outcome& exact, const Outcome& found) { return std::abs(found.loss / exact.loss - 1); }

// Every other number is the next one.
std::vector<std::vector<float>> Nudged(std::vector<std::vector<float>> values) {
  for (std::vector<float>& each : values)
    for (size_t i = 0; i < each.size(); i += 2) each[i] = std::nextafter(each[i], INFINITY);
  return values;
}

// On the CPU, with variables that are off by their last bit too, and on a GPU by the vendor's libraries: as it is, and
// under each policy.
struct Outcomes {
  Outcome exact, nudged, strict;
  std::array<Outcome, kPolicies.size()> reduced;
};
host::Result<Outcomes> RunAll(const std::string& vendor, const NetworkKind& kind) {
  const Runtime runtime = MakeRuntime(vendor, "off"), storing = MakeRuntime(vendor, "always");
  const Step step(runtime, kind), stored(storing, kind);
  SessionOptions options;
  options.compile = false;  // each chain is compiled when a test runs, which takes longer than all else
  options.device = "/device:CPU:0";
  Outcomes out;
  TENON_TRY_ASSIGN(out.exact, step.Run(options, {}));
  TENON_TRY_ASSIGN(out.nudged, step.Run(options, Nudged(out.exact.before)));
  options.device = device_test::kGpu;
  TENON_TRY_ASSIGN(out.strict, step.Run(options, out.exact.before));
  for (size_t i = 0; i < kPolicies.size(); ++i) {
    options.precision = kPolicies[i].precision;
    TENON_TRY_ASSIGN(
        out.reduced[i],
        (kPolicies[i].storage == std::string_view("always") ? stored : step).Run(options, out.exact.before));
  }
  return out;
}

bool IsEmulated(const std::string& vendor) {
  return std::filesystem::exists(kPlugins + "tenon_gpu_emulated_" + vendor + ".so");
}

class PrecisionOf : public testing::TestWithParam<const NetworkKind*> {};

TEST_P(PrecisionOf, AStepIsWithinTheTypesBound) {
  if (!IsEmulated("cuda")) GTEST_SKIP() << "there is no toolkit with cuBLASLt and cuDNN";
  const NetworkKind kind = Sized(*GetParam());
  const auto all = RunAll("cuda", kind);
  ASSERT_TRUE(all.ok()) << all.status();
  const double strict = OffBy(all->exact, all->strict);
  // What a last bit of the variables is to the gradients: no two orders of float32 sums can be nearer.
  const double last_bit = OffBy(all->exact, all->nudged);
  EXPECT_LT(strict, std::max(1e-4, 4 * last_bit)) << "float32 alone";
  for (size_t i = 0; i < kPolicies.size(); ++i) {
    const Policy& policy = kPolicies[i];
    Bounds bounds = BoundsOf(Chains().at(kind.name), policy.bits,
                             policy.storage == std::string_view("always") ? StoredResults().at(kind.name) : 0);
    if (kind.name == "resnet50") bounds.gradients = INFINITY;
    const double loss = LossOffBy(all->exact, all->reduced[i]), gradients = OffBy(all->exact, all->reduced[i]);
    std::printf("%s, %s: the loss is off by %.1e of %.1e, gradients by %.1e of %.1e, and strictly by %.1e; "
                "by a last bit %.1e\n",
                kind.name.data(), policy.name, loss, bounds.loss, gradients, bounds.gradients, strict, last_bit);
    EXPECT_LT(loss, bounds.loss) << policy.name;
    EXPECT_LT(gradients, bounds.gradients) << policy.name;
    EXPECT_GT(gradients, 4 * strict) << policy.name << ": nothing was rounded";
  }
}

TEST(Precision, RocmRoundsNothingButWhatItStores) {
  if (!IsEmulated("rocm")) GTEST_SKIP() << "there is no HIP";
  for (const char* name : {"alexnet", "bert_base"}) {
    const auto all = RunAll("rocm", Sized(**FindNetwork(name)));
    ASSERT_TRUE(all.ok()) << all.status();
    EXPECT_LT(OffBy(all->exact, all->strict), 1e-5);
    for (size_t i = 0; i < kPolicies.size(); ++i) {
      const Outcome& reduced = all->reduced[i];
      if (kPolicies[i].storage == std::string_view("always")) {
        EXPECT_LT(OffBy(all->exact, reduced),
                  BoundsOf(Chains().at(name), kPolicies[i].bits, StoredResults().at(name)).gradients)
            << name;
        continue;
      }
      EXPECT_EQ(reduced.loss, all->strict.loss);
      EXPECT_EQ(reduced.after, all->strict.after) << name;
    }
  }
}

// How often a part stands in a step's explanation: an op's name, perhaps beside the note that it is in bfloat16.
size_t CountOf(const std::string& explanation, const std::string& op, const std::string& note = "") {
  size_t count = 0;
  const std::string part = "\"op\":\"" + op + "\"";
  for (size_t at = explanation.find(part); at != std::string::npos; at = explanation.find(part, at + 1)) {
    const size_t end = explanation.find('}', explanation.find("\"inputs\"", at));
    if (explanation.substr(at, end - at).find(note) != std::string::npos) ++count;
  }
  return count;
}

// Of a training step of published widths, planned and not run: by what a card gains. As much of it as fits into an
// emulated one.
std::string PlanOf(const char* network, Precision precision) {
  const Runtime runtime = MakeRuntime("cuda", "auto");
  Graph graph(runtime);
  const NetworkKind& kind = **FindNetwork(network);
  Size size = kind.published;
  size.batch = 16;
  if (kind.name == "bert_base") size.layers = 2;
  const Network of(graph, kind, size);
  SessionOptions options;
  options.device = device_test::kGpu;
  options.precision = precision;
  const auto session = Session::Create(runtime, graph, options);
  EXPECT_TRUE(session.ok()) << session.status();
  if (!session.ok()) return "";
  const auto callable = session->Prepare({}, {of.loss()}, {of.update()});
  EXPECT_TRUE(callable.ok()) << callable.status();
  return callable.ok() ? *callable->Explain() : "";
}

TEST(Storage, TakesAllConvolutionsAndAttentionOfTheNetworks) {
  if (!IsEmulated("cuda")) GTEST_SKIP() << "there is no toolkit with cuBLASLt and cuDNN";
  for (const char* network : {"resnet50", "bert_base"}) {
    const std::string strict = PlanOf(network, Precision::kStrict),
                      reduced = PlanOf(network, Precision::kAllowBfloat16);
    for (const std::string* plan : {&strict, &reduced}) {
      std::printf("%s, %s:", network, plan == &strict ? "strict" : "bfloat16");
      for (const char* op :
           {"Cast", "Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter", "Tenon>Conv2DBackpropFilterSums", "MatMul",
            "BatchMatMulV2", "BatchMatMulV3", "Einsum", "Softmax", "FusedBatchNormV3", "FusedBatchNormGradV3", "Relu"})
        std::printf(" %s %zu (%zu in bfloat16)", op, CountOf(*plan, op), CountOf(*plan, op, "in bfloat16"));
      std::printf("\n");
    }
    EXPECT_EQ(CountOf(strict, "Cast", "bfloat16"), 0u);
    EXPECT_EQ(CountOf(reduced, "Conv2D"), CountOf(reduced, "Conv2D", "in bfloat16"));
    EXPECT_EQ(CountOf(reduced, "Conv2DBackpropFilter"), 0u) << "sums of filters' gradients are float32";
    EXPECT_LE(CountOf(reduced, "Cast"), std::string_view(network) == "resnet50" ? 2u : 58u)
        << "where what is in bfloat16 begins and ends";
    EXPECT_EQ(CountOf(reduced, "Tenon>CastN"), 1u) << "variables";
    EXPECT_EQ(CountOf(reduced, "IdentityN"), 0u)
        << "what stands for several outputs is read itself, and what nobody reads of them is not widened";
    EXPECT_EQ(CountOf(reduced, "Softmax"), CountOf(reduced, "Softmax", "in bfloat16")) << "attention is one type";
    if (std::string_view(network) == "bert_base") {
      EXPECT_GT(CountOf(reduced, "BatchMatMulV3", "in bfloat16"), 0u) << "products give float32 their sums";
    }
    EXPECT_EQ(PlanOf(network, Precision::kAllowFloat16).find("\"in float16\""), std::string::npos)
        << "the loss is not scaled";
  }
}

std::vector<const NetworkKind*> Kinds() {
  std::vector<const NetworkKind*> kinds;
  for (const NetworkKind& kind : Networks()) kinds.push_back(&kind);
  return kinds;
}
INSTANTIATE_TEST_SUITE_P(Networks, PrecisionOf, testing::ValuesIn(Kinds()),
                         [](const auto& info) { return std::string(info.param->name); });

}  // namespace
}  // namespace tenon::perf
