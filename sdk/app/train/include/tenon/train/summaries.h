// SPDX-License-Identifier: Apache-2.0
// Summaries: what a step tells TensorBoard, as nodes of the graph. Each gives a serialized Summary, a text: for
// TrainingStep::summaries, or fetched for EventFile::AddSummary. Failures stick to the graph.
#ifndef TENON_TRAIN_SUMMARIES_H_
#define TENON_TRAIN_SUMMARIES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tenon/train/base.h"
#include "tenon/train/model.h"

namespace tenon::train {

// A number of any real type.
Output ScalarSummary(Graph& graph, const std::string& tag, Output value);
// How the elements of a tensor of any real type and shape are spread. Elements that are no number fail the step.
Output HistogramSummary(Graph& graph, const std::string& tag, Output values);
// The first `most` of images [batch, height, width, channels] of 1, 3 or 4 channels: uint8, or float, which is scaled
// so that the largest is 255.
Output ImageSummary(Graph& graph, const std::string& tag, Output images, int64_t most = 3);
// The first `most` of sounds [batch, frames] or [batch, frames, channels] of floats from -1 to 1, at so many frames a
// second.
Output AudioSummary(Graph& graph, const std::string& tag, Output sounds, float sample_rate, int64_t most = 3);
// One of several.
Output MergeSummaries(Graph& graph, const std::vector<Output>& summaries);

// A histogram of each trainable variable, by its name, and one of its gradient, `NAME/gradient`, where the loss (valid)
// depends on it. Variables that are changed by rows have no gradient as a whole: they have the first alone.
std::vector<Output> VariableSummaries(Model& model, Output loss = {});

}  // namespace tenon::train

#endif  // TENON_TRAIN_SUMMARIES_H_
