// SPDX-License-Identifier: Apache-2.0
// The input of `tenon train images` as nodes.
#ifndef TENON_SDK_TRAIN_JOBS_IMAGE_INPUT_H_
#define TENON_SDK_TRAIN_JOBS_IMAGE_INPUT_H_

#include "tenon/train/images.h"

namespace tenon::train {

// Batches of pictures, float [batch, side, side, 3] in [-1, 1], and labels, int64 [batch].
struct ImageInput {
  Operation begin;  // a pass from the first element on
  Output images, labels;
};

// Without end, shuffled, distorted where the options say so; a pass begins behind the first `skip` (an int64) examples.
ImageInput TrainingInput(Graph& graph, const ImageSource& source, const ImageOptions& options, Output skip);
// The held-out pictures once, as they are.
ImageInput HeldOutInput(Graph& graph, const ImageSource& source, const ImageOptions& options);
// uint8 pictures as the network takes them.
Output ScaledPixels(Graph& graph, Output pictures);

}  // namespace tenon::train

#endif  // TENON_SDK_TRAIN_JOBS_IMAGE_INPUT_H_
