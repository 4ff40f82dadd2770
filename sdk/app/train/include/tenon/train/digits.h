// SPDX-License-Identifier: Apache-2.0
// The job `tenon train digits`: 8x8 images of handwritten digits, and a small convolutional network that reads them.
//
//   images uint8 [batch, 8, 8], 0 to 16
//   -> conv 3x3, 16, relu -> conv 3x3, 32, relu -> max pool 2 -> dense 64, relu -> dense 10
//
// The data are split once by a shuffle that depends on nothing but the data: a fifth is held out and never trained on.
// In training each batch is moved by up to one pixel, which adds variety. The tower is built twice over the same
// variables: for training on moved images, and for use on images as they are ("images" -> "answers").
#ifndef TENON_TRAIN_DIGITS_H_
#define TENON_TRAIN_DIGITS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tenon/train/base.h"
#include "tenon/train/batches.h"
#include "tenon/train/model.h"
#include "tenon/train/optimizer.h"
#include "tenon/train/replicas.h"
#include "tenon/train/trainer.h"

namespace tenon::train {

constexpr int64_t kDigitSide = 8;
constexpr int64_t kDigitPixels = kDigitSide * kDigitSide;
constexpr uint8_t kDigitInk = 16;  // the darkest pixel

// Images and labels, one after the other.
struct DigitSet {
  std::vector<uint8_t> images;  // [size, 8, 8]
  std::vector<uint8_t> labels;  // [size]
  int64_t size() const { return static_cast<int64_t>(labels.size()); }
  const uint8_t* image(int64_t index) const { return images.data() + index * kDigitPixels; }
  Result<Tensor> ImageTensor() const;
  Result<Tensor> LabelTensor() const;
};

struct DigitData {
  DigitSet training;
  DigitSet held_out;
  // A uint8 .npy array [n, 65]: 64 pixels and the label.
  static Result<DigitData> Load(const std::string& path);
};

struct DigitOptions {
  int64_t steps = 1200;
  int64_t batch = 32;
  float learning_rate = 0.002f;  // falls in a straight line to a fiftieth at the last step
  OptimizerOptions optimizer;
  uint64_t seed = 1;
  // Copies of the network that share a batch, and the devices that they stand on by turns; none: anywhere. Likewise the
  // variables.
  int64_t replicas = 1;
  std::vector<std::string> replica_devices, variable_devices;
  bool mirrored = false;  // each copy has variables of its own on its device (MinimizeMirrored)
  // Replicas with clients of their own (replicas.h): this graph is number `number`'s of them, and `replicas` above is
  // 1. Synchronous ones share each batch; asynchronous ones take one each.
  std::optional<ReplicaOptions> between = std::nullopt;
  int64_t number = 0;
};

// The network in a graph.
class DigitNetwork {
 public:
  DigitNetwork(Graph& graph, const DigitData& data, const DigitOptions& options);
  DigitNetwork(const DigitNetwork&) = delete;
  DigitNetwork& operator=(const DigitNetwork&) = delete;

  Model& model() { return model_; }
  // For Trainer; the network must outlive it. With replicas between graphs: for Next and Step of a ReplicaClient,
  // without an update; feed takes the step's number when they are synchronous, else how many this replica has made.
  TrainingStep Step();
  const ReplicaGraph& replica_graph() const { return *replica_graph_; }

  // Names of nodes for use: feed `images`, fetch `answers` (int64 [batch]) and `probabilities` (float [batch, 10]).
  static constexpr const char* kImages = "images";
  static constexpr const char* kAnswers = "answers";
  static constexpr const char* kProbabilities = "probabilities";

 private:
  Output Tower(Output pixels);
  Output LearningRate();
  void Train(Output moved, Output labels);
  Result<std::vector<View>> Feed(int64_t step);
  // Of the examples that this graph takes in a step, and where its share of the batch begins.
  int64_t own_batch() const { return shares() ? options_.batch / options_.between->replicas : options_.batch; }
  int64_t own_begin() const { return shares() ? options_.number * own_batch() : 0; }
  bool shares() const { return options_.between && options_.between->synchronous; }

  DigitOptions options_;
  Model model_;
  BatchSampler sampler_;
  Output images_, labels_, shift_, loss_, accuracy_;
  Operation update_;
  std::optional<ReplicaGraph> replica_graph_;
  // What a step trains on.
  RowGatherer training_images_, training_labels_;
  std::array<int32_t, 4> batch_shift_ = {};
};

}  // namespace tenon::train

#endif  // TENON_TRAIN_DIGITS_H_
