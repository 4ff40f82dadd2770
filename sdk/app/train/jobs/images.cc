// SPDX-License-Identifier: Apache-2.0
#include "tenon/train/images.h"

#include <algorithm>

#include "sdk/app/train/jobs/image_input.h"
#include "tenon/train/learning_rate.h"

namespace tenon::train {
namespace {

constexpr float kImagesRateAtEnd = 0.02f;  // of the learning rate at the beginning

}  // namespace

ImageNetwork::ImageNetwork(Graph& graph, const ImageSource& source, const ImageOptions& options)
    : source_(source), options_(options), model_(graph, options.seed) {
  if (options.side < 8 || options.side % 8 != 0 || options.side > 512) {
    graph.Fail(Status(Code::kInvalidArgument, "pictures of " + std::to_string(options.side) +
                                                  " pixels; the network takes multiples of 8, up to 512"));
    return;
  }
  const Output step = model_.Counter("global_step").value;
  const ImageInput training =
      TrainingInput(graph, source, options, graph.Op("Mul", {step, graph.Const(options.batch)}, {}, "input/skip"));
  begin_ = training.begin;
  input_ = {training.images, training.labels};
  const Output logits = Tower(training.images);
  loss_ = SparseSoftmaxLoss(graph, logits, training.labels);
  accuracy_ = Accuracy(graph, logits, training.labels);
  const LearningRate rate = PolynomialDecay(options.learning_rate, std::max<int64_t>(options.steps, 1),
                                            options.learning_rate * kImagesRateAtEnd);
  update_ = Minimize(model_, loss_, rate(graph, step), options.optimizer);

  const ImageInput held_out = HeldOutInput(graph, source, options);
  begin_held_out_ = held_out.begin;
  const Output best = graph.Op("ArgMax", {Tower(held_out.images), graph.Const(1)}, {{"output_type", DType::kInt64}},
                               "held_out/answers");
  const Output equal = graph.Op("Cast", {graph.Op("Equal", {best, held_out.labels})}, {{"DstT", DType::kInt64}});
  right_ = graph.Op("Sum", {equal, graph.Const({0})}, {}, "held_out/right");
  count_ = graph.Op("Size", {held_out.labels}, {{"out_type", DType::kInt64}}, "held_out/count");

  const Output pictures = graph.Placeholder(kImages, DType::kUint8, {-1, options.side, options.side, 3});
  const Output answers = Tower(ScaledPixels(graph, pictures));
  graph.Op("ArgMax", {answers, graph.Const(1)}, {{"output_type", DType::kInt64}}, kAnswers);
  graph.Op("Softmax", {answers}, {}, kProbabilities);
}

Output ImageNetwork::Tower(Output pixels) {
  Output x = pixels;
  int64_t channels = 3;
  for (const int64_t filters : {24, 48, 64}) {
    const std::string name = "conv" + std::to_string(filters);
    x = model_.MaxPool(model_.Relu(model_.Conv2D(name, x, 3, channels, filters, Initializer::He(9 * channels))), 2);
    channels = filters;
  }
  const int64_t features = options_.side / 8 * (options_.side / 8) * channels;
  x = model_.graph().Op("Reshape", {x, model_.graph().Const({-1, static_cast<int32_t>(features)})});
  x = model_.Relu(model_.Dense("dense1", x, features, 96, Initializer::He(features)));
  return model_.Dense("dense2", x, 96, static_cast<int64_t>(source_.classes.size()), Initializer::He(96));
}

TrainingStep ImageNetwork::Step() {
  TrainingStep step;
  step.loss = loss_;
  step.metrics = {{"accuracy", accuracy_}};
  step.update = update_;
  step.begin = [begin = Name(begin_)](const Session& session, int64_t) { return session.RunTargets({begin}); };
  step.input = input_;
  step.examples = options_.batch;
  return step;
}

Result<ImageNetwork::Score> ImageNetwork::Evaluate(const Session& session) const {
  TENON_TRY(session.RunTargets({Name(begin_held_out_)}));
  TENON_TRY_ASSIGN(const host::Callable next, session.Prepare({}, {Name(right_), Name(count_)}));
  Score score;
  for (;;) {
    const Result<std::vector<Tensor>> values = next.Run({});
    if (values.status().code() == Code::kOutOfRange) return score;
    TENON_TRY(values.status());
    score.right += (*values)[0].scalar<int64_t>();
    score.pictures += (*values)[1].scalar<int64_t>();
  }
}

}  // namespace tenon::train
