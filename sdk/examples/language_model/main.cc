// SPDX-License-Identifier: Apache-2.0
// A language model whose softmax is large: an LSTM that says the next word, with the weights of its classes in shards,
// as in sections 4.2 and 6.4 of "TensorFlow: A System for Large-Scale Machine Learning" (OSDI 2016).
//   --softmax full      the loss over all words, computed beside the shards of the weights
//   --softmax sampled   over the next word and a sample of others; what a step touches does not grow with the
//   vocabulary
// The text is made by a Markov chain, so the best perplexity that any model can have is known. What is learned is
// measured with all words either way.
//
//   language_model --softmax sampled --vocabulary 20000       # in this process
//   tenon cluster up --workers 1 --ps 2                       # says the words for:
//   language_model --shards 2 --master ADDRESS --credentials FILE
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "tenon/tenon.h"
#include "tenon/train/embedding.h"
#include "tenon/train/optimizer.h"
#include "tenon/train/recurrent.h"
#include "tenon/train/sampled_loss.h"
#include "tenon/train/sharded_softmax.h"

using namespace tenon::host;
using namespace tenon::train;

namespace {

constexpr int64_t kBatch = 32, kTime = 8, kWidth = 32, kUnits = 64;

struct Settings {
  std::string softmax = "full";
  int64_t vocabulary = 200;
  int64_t sampled = 32;
  int64_t shards = 1;
  int64_t steps = 400;
  std::string master, credentials;
};

// After each word one of four may come. Words of small numbers are frequent, as a log-uniform sample wants them.
class Chain {
 public:
  explicit Chain(int64_t words) : next_(static_cast<size_t>(words)) {
    std::mt19937_64 random(7);
    for (auto& next : next_) {
      while (next.size() < kChances.size()) {
        const double uniform = static_cast<double>(random() >> 11) * 0x1p-53;
        const auto word = std::min<int64_t>(
            static_cast<int64_t>(std::exp(uniform * std::log(static_cast<double>(words + 1)))) - 1, words - 1);
        if (std::find(next.begin(), next.end(), word) == next.end()) next.push_back(word);
      }
    }
  }
  // No model can do better, since it cannot know what chance will choose.
  static double Perplexity() {
    double entropy = 0;
    for (const double chance : kChances) entropy -= chance * std::log(chance);
    return std::exp(entropy);
  }
  // [batch, time + 1], made by a seed.
  std::vector<int64_t> Text(uint64_t seed) const {
    std::mt19937_64 random(seed);
    std::vector<int64_t> text;
    for (int64_t row = 0; row < kBatch; ++row) {
      text.push_back(static_cast<int64_t>(random() % next_.size()));
      for (int64_t i = 0; i < kTime; ++i) {
        double left = static_cast<double>(random() >> 11) * 0x1p-53;
        size_t which = 0;
        while (which + 1 < kChances.size() && left >= kChances[which]) left -= kChances[which++];
        text.push_back(next_[static_cast<size_t>(text.back())][which]);
      }
    }
    return text;
  }

 private:
  static constexpr std::array<double, 4> kChances = {0.55, 0.25, 0.15, 0.05};
  std::vector<std::vector<int64_t>> next_;
};

Status Run(const Settings& settings) {
  TENON_TRY_ASSIGN(Runtime runtime, Runtime::Create());
  Graph graph(runtime);
  Model model(graph, 1);
  const bool cluster = !settings.master.empty();
  const std::string worker = cluster ? "/job:worker/task:0" : "";
  ClassShardsOptions parts;
  parts.devices.assign(static_cast<size_t>(settings.shards), "");
  for (size_t i = 0; cluster && i < parts.devices.size(); ++i) parts.devices[i] = "/job:ps/task:" + std::to_string(i);
  parts.by_rows = settings.softmax == "sampled";

  Output text, loss, whole;
  {
    const auto on = graph.Device(worker);
    text = graph.Placeholder("text", DType::kInt64, {kBatch, kTime + 1});
    const auto cut = [&](int32_t from) {
      return graph.Op("Slice", {text, graph.Const({0, from}),
                                graph.Const({static_cast<int32_t>(kBatch), static_cast<int32_t>(kTime)})});
    };
    const Output read = cut(0), next = graph.Op("Reshape", {cut(1), graph.Const({-1})});
    const Embedding words(model, "words", settings.vocabulary, kWidth, Initializer::TruncatedNormal(0.3f),
                          {parts.devices.front()});
    model.set_variable_devices({worker});
    const Rnn rnn = DynamicRnn(graph, LstmCell(model, "lstm", kWidth, kUnits), words.Lookup(read));
    if (!graph.status().ok()) return graph.status();
    const Output outputs = graph.Op("Reshape", {rnn.outputs, graph.Const({-1, static_cast<int32_t>(kUnits)})});
    const ClassShards classes =
        MakeClassShards(model, "softmax", settings.vocabulary, kUnits, Initializer::Constant(0), parts);
    whole = graph.Op("Mean", {ShardedSoftmaxLoss(graph, classes, outputs, next), graph.Const({0})});
    loss = whole;
    if (settings.softmax == "sampled") {
      SampledLossOptions options;
      options.sampled = settings.sampled;
      options.seed = 5;
      loss = graph.Op("Mean", {SampledSoftmaxLoss(graph, classes, outputs, next, options), graph.Const({0})});
    }
  }
  OptimizerOptions optimizer;
  optimizer.kind = OptimizerOptions::Kind::kAdagrad;  // it changes rows alone
  const Operation train = Minimize(model, loss, graph.Const(0.5f), optimizer);
  const Operation initial = model.InitializeAll();

  SessionOptions options;
  options.seed = 1;
  options.master = settings.master;
  options.soft_placement = false;
  if (!settings.credentials.empty()) {
    std::ifstream file(settings.credentials);
    if (!file) return Status(Code::kNotFound, "--credentials: '" + settings.credentials + "' cannot be read");
    options.credentials.assign(std::istreambuf_iterator<char>(file), {});
  }
  TENON_TRY_ASSIGN(Session session, Session::Create(runtime, graph, options));
  TENON_TRY(session.RunTargets({initial}));
  TENON_TRY_ASSIGN(const Callable step, session.Prepare({text}, {loss}, {train}));
  TENON_TRY_ASSIGN(const Callable measure, session.Prepare({text}, {whole}));
  const Chain chain(settings.vocabulary);
  const auto began = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < settings.steps; ++i) {
    const std::vector<int64_t> words = chain.Text(static_cast<uint64_t>(i));
    TENON_TRY_ASSIGN(const std::vector<Tensor> values, step.Run({View(words, {kBatch, kTime + 1})}));
    if (i % 100 == 0 || i + 1 == settings.steps)
      std::printf("step %5lld  loss %.6f\n", static_cast<long long>(i), values[0].scalar<float>());
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  double sum = 0;
  constexpr int kBatches = 10;
  for (int i = 0; i < kBatches; ++i) {
    const std::vector<int64_t> words = chain.Text(1000000 + static_cast<uint64_t>(i));
    TENON_TRY_ASSIGN(const std::vector<Tensor> values, measure.Run({View(words, {kBatch, kTime + 1})}));
    sum += values[0].scalar<float>();
  }
  std::printf("perplexity %.5f of words not seen; the text's own is %.5f\n", std::exp(sum / kBatches),
              Chain::Perplexity());
  std::printf("%.0f words a second\n", static_cast<double>(settings.steps * kBatch * kTime) / took.count());
  return Status();
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app("A language model with a large softmax, whole or sampled.");
  app.add_option("--softmax", settings.softmax, "full or sampled")
      ->check(CLI::IsMember({"full", "sampled"}))
      ->capture_default_str();
  app.add_option("--vocabulary", settings.vocabulary, "words")->check(CLI::Range(16, 10000000))->capture_default_str();
  app.add_option("--sampled", settings.sampled, "words in a step's sample")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--shards", settings.shards, "of the softmax's weights; on a cluster each is a parameter server's")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--steps", settings.steps, "of training")->check(CLI::Range(1, 100000000))->capture_default_str();
  auto* const master =
      app.add_option("--master", settings.master, "address of a task of the cluster; none: this process");
  app.add_option("--credentials", settings.credentials, "file, of the cluster")->needs(master);
  CLI11_PARSE(app, argc, argv);
  const Status status = Run(settings);
  if (!status.ok()) std::fprintf(stderr, "language_model: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
