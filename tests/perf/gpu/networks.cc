// SPDX-License-Identifier: Apache-2.0
// The networks themselves. A change here is a change in peers.py too: bench-gpu compares their losses before it times
// them.
#include "networks.h"

#include <algorithm>
#include <cmath>

#include "builder.h"

namespace tenon::perf {
namespace {

using host::DType;
using host::Operation;
using host::Output;
using host::Session;
using host::Status;
using host::View;
using train::Initializer;
using Kind = train::OptimizerOptions::Kind;

constexpr int64_t kClasses = 1000;

Output Pictures(Builder& b) { return b.Normal("x", {b.size().batch, b.size().side, b.size().side, 3}); }

// Logits of kClasses / shrink classes, and their loss.
Output Classified(Builder& b, Output features) {
  const int64_t classes = b.Of(kClasses);
  const Output labels = b.Integers("labels", {b.size().batch}, classes);
  return b.CrossEntropy(b.Dense("logits", features, classes, 0.01f), labels);
}

// ---- OSDI'16, Table 1, as soumith/convnet-benchmarks has them ----

// Krizhevsky 2014, "one weird trick".
Output AlexNet(Builder& b) {
  Output x = b.ConvRelu("conv1", Pictures(b), b.Of(64), {11, 4, 2});
  x = b.MaxPool(x, 3, 2);
  x = b.ConvRelu("conv2", x, b.Of(192), {5, 1, 2});
  x = b.MaxPool(x, 3, 2);
  x = b.ConvRelu("conv3", x, b.Of(384), {3, 1, 1});
  x = b.ConvRelu("conv4", x, b.Of(256), {3, 1, 1});
  x = b.ConvRelu("conv5", x, b.Of(256), {3, 1, 1});
  x = b.Flatten(b.MaxPool(x, 3, 2));
  x = b.Relu(b.Dense("dense6", x, b.Of(4096)));
  x = b.Relu(b.Dense("dense7", x, b.Of(4096)));
  return Classified(b, x);
}

// Sermanet 2013, the fast model.
Output Overfeat(Builder& b) {
  Output x = b.ConvRelu("conv1", Pictures(b), b.Of(96), {11, 4, 0});
  x = b.MaxPool(x, 2, 2);
  x = b.ConvRelu("conv2", x, b.Of(256), {5, 1, 0});
  x = b.MaxPool(x, 2, 2);
  x = b.ConvRelu("conv3", x, b.Of(512), {3, 1, 1});
  x = b.ConvRelu("conv4", x, b.Of(1024), {3, 1, 1});
  x = b.ConvRelu("conv5", x, b.Of(1024), {3, 1, 1});
  x = b.Flatten(b.MaxPool(x, 2, 2));
  x = b.Relu(b.Dense("dense6", x, b.Of(3072)));
  x = b.Relu(b.Dense("dense7", x, b.Of(4096)));
  return Classified(b, x);
}

// Simonyan 2014, model A: the paper's "OxfordNet".
Output VggA(Builder& b) {
  Output x = Pictures(b);
  int number = 0;
  for (const int64_t filters : {64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0})  // 0: a pool
    x = filters == 0 ? b.MaxPool(x, 2, 2) : b.ConvRelu("conv" + std::to_string(++number), x, b.Of(filters), {3, 1, 1});
  x = b.Relu(b.Dense("dense1", b.Flatten(x), b.Of(4096)));
  x = b.Relu(b.Dense("dense2", x, b.Of(4096)));
  return Classified(b, x);
}

struct Inception {
  int64_t narrow, three_before, three, five_before, five, pooled;
};

Output InceptionModule(Builder& b, const std::string& name, Output x, const Inception& width) {
  const Output narrow = b.ConvRelu(name + "/narrow", x, b.Of(width.narrow), {1});
  Output three = b.ConvRelu(name + "/three_before", x, b.Of(width.three_before), {1});
  three = b.ConvRelu(name + "/three", three, b.Of(width.three), {3, 1, 1});
  Output five = b.ConvRelu(name + "/five_before", x, b.Of(width.five_before), {1});
  five = b.ConvRelu(name + "/five", five, b.Of(width.five), {5, 1, 2});
  const Output pooled = b.ConvRelu(name + "/pooled", b.MaxPool(x, 3, 1, "SAME"), b.Of(width.pooled), {1});
  return b.Op("ConcatV2", {narrow, three, five, pooled, b.graph().Const(3)});
}

// Szegedy 2014, without the two classifiers on its way.
Output GoogleNet(Builder& b) {
  constexpr Inception kThree[] = {{64, 96, 128, 16, 32, 32}, {128, 128, 192, 32, 96, 64}};
  constexpr Inception kFour[] = {{192, 96, 208, 16, 48, 64},
                                 {160, 112, 224, 24, 64, 64},
                                 {128, 128, 256, 24, 64, 64},
                                 {112, 144, 288, 32, 64, 64},
                                 {256, 160, 320, 32, 128, 128}};
  constexpr Inception kFive[] = {{256, 160, 320, 32, 128, 128}, {384, 192, 384, 48, 128, 128}};
  Output x = b.ConvRelu("conv1", Pictures(b), b.Of(64), {7, 2, 3});
  x = b.MaxPool(x, 3, 2, "SAME");
  x = b.ConvRelu("conv2", x, b.Of(64), {1});
  x = b.ConvRelu("conv3", x, b.Of(192), {3, 1, 1});
  const std::span<const Inception> stages[] = {kThree, kFour, kFive};
  for (size_t stage = 0; stage < 3; ++stage) {
    x = b.MaxPool(x, 3, 2, "SAME");
    for (size_t i = 0; i < stages[stage].size(); ++i)
      x = InceptionModule(b, "inception" + std::to_string(stage + 3) + static_cast<char>('a' + i), x, stages[stage][i]);
  }
  return Classified(b, b.Mean(x, {1, 2}));
}

// ---- Later ones ----

Output ConvNorm(Builder& b, const std::string& name, Output x, int64_t filters, const Window& window) {
  return b.BatchNorm(name + "/norm", b.Conv(name, x, filters, window, false));
}

// He 2015, with the stride in the 3x3 convolution, as everybody trains it now.
Output Bottleneck(Builder& b, const std::string& name, Output x, int64_t width, int64_t stride) {
  const int64_t wide = b.Of(4 * width);
  const bool same = x.shape().dims().back() == wide && stride == 1;
  const Output shortcut = same ? x : ConvNorm(b, name + "/shortcut", x, wide, {1, stride});
  Output y = b.Relu(ConvNorm(b, name + "/narrow", x, b.Of(width), {1}));
  y = b.Relu(ConvNorm(b, name + "/window", y, b.Of(width), {3, stride, 1}));
  return b.Relu(b.Add(ConvNorm(b, name + "/wide", y, wide, {1}), shortcut));
}

Output ResNet50(Builder& b) {
  Output x = b.Relu(ConvNorm(b, "first", Pictures(b), b.Of(64), {7, 2, 3}));
  x = b.MaxPool(x, 3, 2, "SAME");
  constexpr int64_t kBlocks[] = {3, 4, 6, 3};
  for (int64_t stage = 0; stage < 4; ++stage) {
    for (int64_t i = 0; i < kBlocks[stage]; ++i) {
      const std::string name = "stage" + std::to_string(stage + 2) + "_" + std::to_string(i);
      x = Bottleneck(b, name, x, int64_t{64} << stage, i == 0 && stage > 0 ? 2 : 1);
    }
  }
  return Classified(b, b.Mean(x, {1, 2}));
}

// Devlin 2018: masked words and the next sentence, on texts of full length. The heads are 64 wide.
class Bert {
 public:
  explicit Bert(Builder& b)
      : b_(b),
        batch_(b.size().batch),
        steps_(b.size().steps),
        heads_(std::max<int64_t>(1, 12 / b.size().shrink)),
        width_(64 * heads_) {}

  Output Loss() {
    Output x = Embedded();
    for (int64_t i = 0; i < b_.size().layers; ++i) x = Layer("layer" + std::to_string(i), x);
    return b_.Add(MaskedWords(x), NextSentence(x));
  }

 private:
  static constexpr float kDeviation = 0.02f;

  Output Table(const char* name, int64_t rows) {
    return b_.Weight(name, {rows, width_}, Initializer::TruncatedNormal(kDeviation));
  }
  Output Dense(const std::string& name, Output x, int64_t units) { return b_.Dense(name, x, units, kDeviation); }

  // All texts as rows, [batch * steps, width].
  Output Embedded() {
    words_ = Table("words", b_.size().words);
    const Output kinds = Table("kinds", 2), places = Table("places", steps_);
    std::vector<int64_t> kind(static_cast<size_t>(batch_ * steps_));
    for (size_t i = 0; i < kind.size(); ++i) kind[i] = static_cast<int64_t>(i) % steps_ >= steps_ / 2 ? 1 : 0;
    const Output ids = b_.Integers("ids", {batch_, steps_}, b_.size().words);
    Output x = b_.Add(b_.Rows(words_, ids), b_.Rows(kinds, b_.Given("kind", kind, {batch_, steps_})));
    x = b_.Reshape(b_.Add(x, places), {batch_ * steps_, width_});
    return b_.LayerNorm("norm", x);
  }

  // [batch, heads, steps, 64]
  Output Heads(const std::string& name, Output x) {
    return b_.Transpose(b_.Reshape(Dense(name, x, width_), {batch_, steps_, heads_, 64}), {0, 2, 1, 3});
  }

  Output Attention(const std::string& name, Output x) {
    const Output query = Heads(name + "/query", x), key = Heads(name + "/key", x), value = Heads(name + "/value", x);
    const Output scores = b_.Scale(b_.Product(query, key, true), 0.125f);
    const Output seen = b_.Product(b_.Op("Softmax", {scores}), value);
    return Dense(name + "/output", b_.Reshape(b_.Transpose(seen, {0, 2, 1, 3}), {batch_ * steps_, width_}), width_);
  }

  Output Layer(const std::string& name, Output x) {
    x = b_.LayerNorm(name + "/norm1", b_.Add(x, Attention(name, x)));
    const Output inner = b_.Gelu(Dense(name + "/inner", x, 4 * width_));
    return b_.LayerNorm(name + "/norm2", b_.Add(x, Dense(name + "/outer", inner, width_)));
  }

  // A sixth of the words are to be guessed.
  Output MaskedWords(Output x) {
    const int64_t guesses = std::max<int64_t>(1, steps_ / 6);
    std::vector<int64_t> places;
    for (int64_t text = 0; text < batch_; ++text)
      for (int64_t i = 0; i < guesses; ++i) places.push_back(text * steps_ + i * (steps_ / guesses));
    const int64_t count = batch_ * guesses;
    Output picked = b_.Rows(x, b_.Given("places", places, {count}));
    picked = b_.LayerNorm("masked/norm", b_.Gelu(Dense("masked", picked, width_)));
    const Output logits = b_.Product(picked, words_, true);
    const Output bias = b_.Weight("masked/words_bias", {b_.size().words}, Initializer::Constant(0));
    return b_.CrossEntropy(b_.Op("BiasAdd", {logits, bias}), b_.Integers("masked_words", {count}, b_.size().words));
  }

  Output NextSentence(Output x) {
    std::vector<int64_t> first;
    for (int64_t text = 0; text < batch_; ++text) first.push_back(text * steps_);
    const Output pooled = b_.Op("Tanh", {Dense("pooler", b_.Rows(x, b_.Given("first", first, {batch_})), width_)});
    return b_.CrossEntropy(Dense("next", pooled, 2), b_.Integers("next_sentence", {batch_}, 2));
  }

  Builder& b_;
  const int64_t batch_, steps_, heads_, width_;
  Output words_;
};

Output BertBase(Builder& b) { return Bert(b).Loss(); }

// One layer of it over x [steps * batch, inputs]; the same, of its outputs. Gates stand as PyTorch has them: in,
// forget, new, out.
Output LstmLayer(Builder& b, const std::string& name, Output x, int64_t width) {
  const int64_t batch = b.size().batch, steps = b.size().steps, inputs = x.shape().dims().back();
  const auto initial = Initializer::TruncatedNormal(0.05f);
  const Output from_x = b.Weight(name + "/kernel", {inputs, 4 * width}, initial);
  const Output from_h = b.Weight(name + "/recurrent", {width, 4 * width}, initial);
  const Output bias = b.Weight(name + "/bias", {4 * width}, Initializer::Constant(0));
  const Output given = b.Reshape(b.Op("BiasAdd", {b.Product(x, from_x), bias}), {steps, batch, 4 * width});
  const Operation each = b.graph().AddNode("Unpack", {given}, {{"num", steps}, {"axis", 0}});
  Output h = b.graph().Const(std::vector<float>(static_cast<size_t>(batch * width)), {batch, width}), c = h;
  std::vector<Output> outputs;
  for (int64_t step = 0; step < steps; ++step) {
    const Output all = b.Add(each.output(static_cast<int32_t>(step)), b.Product(h, from_h));
    const Operation gate = b.graph().AddNode("Split", {b.graph().Const(1), all}, {{"num_split", 4}});
    const auto sigmoid = [&](int32_t i) { return b.Op("Sigmoid", {gate.output(i)}); };
    c = b.Add(b.Mul(sigmoid(1), c), b.Mul(sigmoid(0), b.Op("Tanh", {gate.output(2)})));
    h = b.Mul(sigmoid(3), b.Op("Tanh", {c}));
    outputs.push_back(h);
  }
  return b.Reshape(b.Op("Pack", outputs, {{"axis", 0}}), {steps * batch, width});
}

// Zaremba 2014, the large model of words: two layers, unrolled.
Output Lstm(Builder& b) {
  const int64_t width = b.Of(1500), words = b.size().words, steps = b.size().steps, batch = b.size().batch;
  const Output table = b.Weight("embedding", {words, width}, Initializer::TruncatedNormal(0.05f));
  Output x = b.Reshape(b.Rows(table, b.Integers("ids", {steps, batch}, words)), {steps * batch, width});
  for (const char* name : {"layer0", "layer1"}) x = LstmLayer(b, name, x, width);
  return b.CrossEntropy(b.Dense("logits", x, words, 0.05f), b.Integers("next_words", {steps * batch}, words));
}

constexpr NetworkKind kNetworks[] = {
    {"alexnet",
     "AlexNet, one tower",
     {128, 224, 0, 0, 0, 1},
     {4, 64, 0, 0, 0, 16},
     Kind::kGradientDescent,
     2e-4f,
     AlexNet},
    {"overfeat",
     "Overfeat, fast",
     {128, 231, 0, 0, 0, 1},
     {4, 71, 0, 0, 0, 16},
     Kind::kGradientDescent,
     2e-4f,
     Overfeat},
    {"vgg_a",
     "OxfordNet (VGG, model A)",
     {64, 224, 0, 0, 0, 1},
     {4, 32, 0, 0, 0, 16},
     Kind::kGradientDescent,
     2e-4f,
     VggA},
    {"googlenet",
     "GoogleNet (Inception, the first)",
     {128, 224, 0, 0, 0, 1},
     {4, 64, 0, 0, 0, 8},
     Kind::kGradientDescent,
     0.01f,
     GoogleNet},
    {"resnet50", "ResNet-50", {64, 224, 0, 0, 0, 1}, {8, 64, 0, 0, 0, 8}, Kind::kMomentum, 1e-5f, ResNet50},
    {"bert_base",
     "BERT-base, 128 words",
     {32, 0, 128, 30522, 12, 1},
     {4, 0, 12, 50, 2, 12},
     Kind::kAdam,
     1e-4f,
     BertBase},
    {"lstm",
     "LSTM 2 x 1500, 35 words",
     {20, 0, 35, 10000, 0, 1},
     {4, 0, 5, 50, 0, 50},
     Kind::kGradientDescent,
     1.0f,
     Lstm},
};

}  // namespace

std::span<const NetworkKind> Networks() { return kNetworks; }

host::Result<const NetworkKind*> FindNetwork(std::string_view name) {
  std::string known;
  for (const NetworkKind& kind : kNetworks) {
    if (kind.name == name) return &kind;
    known += (known.empty() ? "" : ", ") + std::string(kind.name);
  }
  return Status(host::Code::kNotFound, "there is no network '" + std::string(name) + "'; there are " + known);
}

Size Chosen(const Size& own, const Size& wished) {
  Size size = own;
  const auto choose = [](int64_t& chosen, int64_t other) { chosen = other > 0 ? other : chosen; };
  choose(size.batch, wished.batch);
  choose(size.side, wished.side);
  choose(size.steps, wished.steps);
  choose(size.words, wished.words);
  choose(size.layers, wished.layers);
  choose(size.shrink, wished.shrink);
  return size;
}

Network::Network(host::Graph& graph, const NetworkKind& kind, const Size& size)
    : model_(graph), size_(Chosen(kind.published, size)) {
  Builder builder(graph, *this);
  loss_ = kind.loss(builder);
  train::OptimizerOptions options;
  options.kind = kind.optimizer;
  const Operation applied = train::Minimize(model_, loss_, graph.Const(kind.rate), options);
  averages_.push_back(applied);
  update_ = train::Group(graph, averages_, "step");
  initialize_ = model_.InitializeAll();
}

Status Network::Begin(const Session& session) const {
  TENON_TRY(session.RunTargets({initialize_}));
  for (const BatchPart& part : batch_) TENON_TRY(session.RunTargets({part.assign}, {{part.fed, View(part.value)}}));
  return Status();
}

}  // namespace tenon::perf
