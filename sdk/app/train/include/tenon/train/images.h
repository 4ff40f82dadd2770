// SPDX-License-Identifier: Apache-2.0
// The job `tenon train images`: a small convolutional network that learns the pictures of a folder, or of a file of
// records, with all of its input in the graph.
//
//   names or records -> shuffled -> again and again -> numbered -> those of earlier steps left out
//   -> read, decoded, scaled, distorted -> batched -> made ahead
//
// Everything of this runs in the engine beside the steps (plugins ops/input, ops/image, ops/parse, ops/dataset). What
// example number n is, and how it is distorted (moved, mirrored, lighter or darker, more or less contrast), depends on
// the seed and n alone. So a run that was killed and goes on leaves out what earlier steps had, in the middle of a pass
// too, and no example is lost or seen twice. A tenth of the pictures is held out, and never trained on: of a folder by
// their names, so that pictures that are added move no others; of records each tenth.
#ifndef TENON_TRAIN_IMAGES_H_
#define TENON_TRAIN_IMAGES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/train/base.h"
#include "tenon/train/model.h"
#include "tenon/train/optimizer.h"
#include "tenon/train/trainer.h"

namespace tenon::train {

// Where pictures come from.
struct ImageSource {
  std::vector<std::string> classes;  // by label
  // Of a folder: paths and labels.
  std::vector<std::string> files, held_out_files;
  std::vector<int64_t> labels, held_out_labels;
  // Of records: their file; the rest of the above is empty.
  std::string records;

  // A folder of class folders with JPEG, PNG, GIF or BMP pictures, classes by the order of their names.
  // INVALID_ARGUMENT: it has fewer than two classes, or a class has no picture.
  static Result<ImageSource> OfFolder(const std::string& folder);
  // A file that WriteImageRecords wrote, with its classes beside it.
  static Result<ImageSource> OfRecords(const std::string& file);
  // Of either.
  static Result<ImageSource> Open(const std::string& path);
};

// Pictures of a folder, as they are, as TensorFlow's Examples {image/encoded, image/class/label, image/class/text}, in
// an order of their own (of the seed), and file + ".classes.txt", a name a line. Gives how many.
Result<int64_t> WriteImageRecords(const std::string& folder, const std::string& file, uint64_t seed = 1);

struct ImageOptions {
  int64_t steps = 1000;
  int64_t batch = 64;
  int64_t side = 32;  // pixels that pictures are scaled to
  bool distort = true;
  bool mirror = true;  // half of what is distorted, left to right
  float learning_rate = 0.002f;  // falls in a straight line to a fiftieth at the last step
  OptimizerOptions optimizer;
  uint64_t seed = 1;
};

class ImageNetwork {
 public:
  // The source must outlive it.
  ImageNetwork(Graph& graph, const ImageSource& source, const ImageOptions& options);
  ImageNetwork(const ImageNetwork&) = delete;
  ImageNetwork& operator=(const ImageNetwork&) = delete;

  Model& model() { return model_; }
  // For Trainer; the network must outlive it.
  TrainingStep Step();

  struct Score {
    int64_t pictures = 0, right = 0;
  };
  // Over all held-out pictures.
  Result<Score> Evaluate(const Session& session) const;

  // Names of nodes for use: feed `images` (uint8 [n, side, side, 3]), fetch `answers` (int64 [n]) and `probabilities`
  // (float [n, classes]).
  static constexpr const char* kImages = "images";
  static constexpr const char* kAnswers = "answers";
  static constexpr const char* kProbabilities = "probabilities";

 private:
  Output Tower(Output pixels);

  const ImageSource& source_;
  const ImageOptions options_;
  Model model_;
  Output loss_, accuracy_, right_, count_;
  std::vector<Output> input_;
  Operation begin_, begin_held_out_, update_;
};

}  // namespace tenon::train

#endif  // TENON_TRAIN_IMAGES_H_
