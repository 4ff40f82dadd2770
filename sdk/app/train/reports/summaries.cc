// SPDX-License-Identifier: Apache-2.0
#include "tenon/train/summaries.h"

#include <algorithm>

#include "tenon/train/optimizer.h"

namespace tenon::train {
namespace {

Output Tag(Graph& graph, const std::string& tag) { return graph.StringConst(tag); }

}  // namespace

Output ScalarSummary(Graph& graph, const std::string& tag, Output value) {
  return graph.Op("ScalarSummary", {Tag(graph, tag), value});
}
Output HistogramSummary(Graph& graph, const std::string& tag, Output values) {
  return graph.Op("HistogramSummary", {Tag(graph, tag), values});
}
Output ImageSummary(Graph& graph, const std::string& tag, Output images, int64_t most) {
  return graph.Op("ImageSummary", {Tag(graph, tag), images}, {{"max_images", most}});
}
Output AudioSummary(Graph& graph, const std::string& tag, Output sounds, float sample_rate, int64_t most) {
  return graph.Op("AudioSummaryV2", {Tag(graph, tag), sounds, graph.Const(sample_rate)}, {{"max_outputs", most}});
}
Output MergeSummaries(Graph& graph, const std::vector<Output>& summaries) {
  return graph.Op("MergeSummary", summaries);
}

std::vector<Output> VariableSummaries(Model& model, Output loss) {
  Graph& graph = model.graph();
  const std::vector<const Variable*> variables = model.trainable();
  const bool by_rows =
      std::any_of(variables.begin(), variables.end(), [](const Variable* variable) { return variable->rows; });
  const std::vector<Output> gradients =
      loss.valid() && !by_rows ? DenseGradients(model, loss) : std::vector<Output>(variables.size());
  std::vector<Output> summaries;
  for (size_t i = 0; i < variables.size(); ++i) {
    summaries.push_back(HistogramSummary(graph, variables[i]->name, variables[i]->value));
    if (gradients[i].valid())
      summaries.push_back(HistogramSummary(graph, variables[i]->name + "/gradient", gradients[i]));
  }
  return summaries;
}

}  // namespace tenon::train
