// SPDX-License-Identifier: Apache-2.0
#include "tenon/train/digits.h"

#include <algorithm>
#include <span>
#include <utility>

#include "tenon/data/npy.h"

namespace tenon::train {
namespace {

constexpr uint64_t kSplitSeed = 20260101;  // of the split into training and held out; part of the job's meaning
constexpr int64_t kRow = kDigitPixels + 1;
constexpr int64_t kClasses = 10;
constexpr float kRateAtEnd = 0.02f;  // of the learning rate at the beginning

void Append(DigitSet& set, const uint8_t* row) {
  set.images.insert(set.images.end(), row, row + kDigitPixels);
  set.labels.push_back(row[kDigitPixels]);
}

}  // namespace

Result<Tensor> DigitSet::ImageTensor() const {
  return Tensor::From(std::span<const uint8_t>(images), {size(), kDigitSide, kDigitSide});
}

Result<Tensor> DigitSet::LabelTensor() const { return Tensor::From(std::span<const uint8_t>(labels), {size()}); }

Result<DigitData> DigitData::Load(const std::string& path) {
  TENON_TRY_ASSIGN(const Tensor array, data::ReadNpy(path));
  const Shape shape = array.shape();
  const std::span<const uint8_t> values = array.data<uint8_t>();
  if (shape.rank() != 2 || shape[1] != kRow || shape[0] < kClasses || values.empty()) {
    return Status(Code::kInvalidArgument, "'" + path + "' holds " + host::DTypeName(array.dtype()) + shape.ToString() +
                                              "; the digits are uint8[n,65]: 64 pixels and the label");
  }
  DigitData data;
  const std::vector<int64_t> order = ShuffledOrder(shape[0], kSplitSeed, 0);
  const auto held_out = order.size() / 5;
  for (size_t i = 0; i < order.size(); ++i) {
    const uint8_t* row = values.data() + order[i] * kRow;
    const bool usable = row[kDigitPixels] < kClasses && *std::max_element(row, row + kDigitPixels) <= kDigitInk;
    if (!usable) {
      return Status(Code::kInvalidArgument,
                    "'" + path + "', row " + std::to_string(order[i]) + ": a pixel above 16 or a label above 9");
    }
    Append(i < held_out ? data.held_out : data.training, row);
  }
  return data;
}

DigitNetwork::DigitNetwork(Graph& graph, const DigitData& data, const DigitOptions& options)
    : options_(options),
      model_(graph, options.seed),
      sampler_(data.training.size(), options.batch, options.seed) {
  const Result<Tensor> images = data.training.ImageTensor(), digits = data.training.LabelTensor();
  if (!images.ok() || !digits.ok()) {
    graph.Fail(images.ok() ? digits.status() : images.status());
    return;
  }
  training_images_ = RowGatherer(*images);
  training_labels_ = RowGatherer(*digits);
  images_ = graph.Placeholder(kImages, DType::kUint8, {-1, kDigitSide, kDigitSide});
  labels_ = graph.Placeholder("labels", DType::kUint8, {-1});
  shift_ = graph.Placeholder("shift", DType::kInt32, {4});
  Output flat = graph.Op("Cast", {images_}, {{"DstT", DType::kFloat}}, "pixels/float");
  Output scaled = graph.Op("Mul", {flat, graph.Const(1.0f / kDigitInk, "pixels/scale")}, {}, "pixels/scaled");
  Output pixels = graph.Op("Reshape", {scaled, graph.Const({-1, 8, 8, 1}, "pixels/shape")}, {}, "pixels");

  Output border = graph.Const(std::vector<int32_t>{0, 0, 1, 1, 1, 1, 0, 0}, {4, 2}, "moved/border");
  Output padded = graph.Op("Pad", {pixels, border}, {}, "moved/padded");
  Output moved =
      graph.Op("Slice", {padded, shift_, graph.Const({static_cast<int32_t>(own_batch()), 8, 8, 1}, "moved/size")}, {},
               "moved");

  Output labels = graph.Op("Cast", {labels_}, {{"DstT", DType::kInt64}}, "labels/int64");
  model_.set_variable_devices(options.variable_devices);
  Train(moved, labels);

  Output logits = Tower(pixels);
  graph.Op("ArgMax", {logits, graph.Const(1, "answers/axis")}, {{"output_type", DType::kInt64}}, kAnswers);
  graph.Op("Softmax", {logits}, {}, kProbabilities);
}

// The towers, each over its share of the batch, and the update.
void DigitNetwork::Train(Output moved, Output labels) {
  Graph& graph = model_.graph();
  const auto count = static_cast<int32_t>(options_.replicas);
  const int64_t sharers = shares() ? options_.between->replicas : count;
  if (sharers < 1 || options_.batch % sharers != 0) {
    graph.Fail(Status(Code::kInvalidArgument, "a batch of " + std::to_string(options_.batch) + " cannot be shared by " +
                                                  std::to_string(sharers) + " replicas; choose a multiple"));
    return;
  }
  const auto share = static_cast<int32_t>(own_batch()) / count;
  std::vector<Replica> replicas;
  std::vector<Output> losses, accuracies;
  for (int32_t i = 0; i < count; ++i) {
    const std::vector<std::string>& devices = options_.replica_devices;
    const std::string device =
        devices.empty() ? "" : devices[static_cast<size_t>(i + options_.number) % devices.size()];
    const auto on = graph.Device(device);
    if (options_.mirrored) model_.BeginReplica(i, device);
    Output images = moved, own_labels = labels;
    if (count > 1) {
      images = graph.Op("Slice", {moved, graph.Const({i * share, 0, 0, 0}), graph.Const({share, 8, 8, 1})}, {},
                        "share/images");
      own_labels = graph.Op("Slice", {labels, graph.Const({i * share}), graph.Const({share})}, {}, "share/labels");
    }
    const Output logits = Tower(images);
    losses.push_back(SparseSoftmaxLoss(graph, logits, own_labels));
    accuracies.push_back(Accuracy(graph, logits, own_labels));
    replicas.push_back({losses.back(), device});
  }
  model_.EndReplicas();
  const auto mean = [&](const std::vector<Output>& values, const char* name) {
    if (count == 1) return values[0];
    return graph.Op("Mul", {graph.Op("AddN", {values}), graph.Const(1.0f / static_cast<float>(count))}, {}, name);
  };
  loss_ = mean(losses, "loss");
  accuracy_ = mean(accuracies, "accuracy");
  if (!options_.between) {
    const Output rate = LearningRate();
    update_ = options_.mirrored ? MinimizeMirrored(model_, replicas, rate, options_.optimizer)
                                : Minimize(model_, replicas, rate, options_.optimizer);
    return;
  }
  const auto on = graph.Device(replicas[0].device);
  replica_graph_.emplace(model_, loss_, LearningRate(), options_.optimizer, *options_.between, options_.number);
}

Output DigitNetwork::Tower(Output pixels) {
  Output x = model_.Relu(model_.Conv2D("conv1", pixels, 3, 1, 16, Initializer::He(9)));
  x = model_.Relu(model_.Conv2D("conv2", x, 3, 16, 32, Initializer::He(9 * 16)));
  x = model_.MaxPool(x, 2);
  constexpr int64_t kFeatures = kDigitPixels / 4 * 32;
  x = model_.graph().Op("Reshape", {x, model_.graph().Const({-1, static_cast<int32_t>(kFeatures)}, "features/shape")},
                        {}, "features");
  x = model_.Relu(model_.Dense("dense1", x, kFeatures, 64, Initializer::He(kFeatures)));
  return model_.Dense("dense2", x, 64, kClasses, Initializer::He(64));
}

// rate * max(end, 1 - step / steps)
Output DigitNetwork::LearningRate() {
  Graph& graph = model_.graph();
  auto scope = graph.Scope("learning_rate");
  Output step = graph.Op("Cast", {model_.Counter("global_step").value}, {{"DstT", DType::kFloat}});
  Output done = graph.Op("RealDiv", {step, graph.Const(static_cast<float>(std::max<int64_t>(options_.steps, 1)))});
  Output left = graph.Op("Maximum", {graph.Op("Sub", {graph.Const(1.0f), done}), graph.Const(kRateAtEnd)});
  return graph.Op("Mul", {left, graph.Const(options_.learning_rate)});
}

TrainingStep DigitNetwork::Step() {
  TrainingStep step;
  step.loss = loss_;
  step.metrics = {{"accuracy", accuracy_}};
  step.update = update_;
  step.feeds = {images_, labels_, shift_};
  step.feed = [this](int64_t number) { return Feed(number); };
  step.examples = own_batch();
  return step;
}

Result<std::vector<View>> DigitNetwork::Feed(int64_t step) {
  // Replicas that are asynchronous take the batches by turns.
  if (options_.between && !shares()) step = step * options_.between->replicas + options_.number;
  const std::vector<int64_t> batch = sampler_.Indices(step);
  const std::span<const int64_t> own =
      std::span(batch).subspan(static_cast<size_t>(own_begin()), static_cast<size_t>(own_batch()));
  TENON_TRY_ASSIGN(View images, training_images_.Take(own));
  TENON_TRY_ASSIGN(View labels, training_labels_.Take(own));
  const auto number = static_cast<uint64_t>(step);
  batch_shift_ = {0, static_cast<int32_t>(HashedNumber(options_.seed, number, 1, 3)),
                  static_cast<int32_t>(HashedNumber(options_.seed, number, 2, 3)), 0};
  return std::vector<View>{std::move(images), std::move(labels), View(std::span<const int32_t>(batch_shift_), {4})};
}

}  // namespace tenon::train
