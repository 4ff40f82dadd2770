// SPDX-License-Identifier: Apache-2.0
// Clipping, of train.h.
#include "tenon/train/clipping.h"

#include "sdk/app/model_c/building.h"

using namespace tenon;           // NOLINT: this file implements C functions of the global namespace
using namespace tenon::model_c;  // NOLINT

namespace {

// clip: what becomes of the gradients.
template <typename Clip>
tenon_status* Clipped(tenon_app_graph* graph, const tenon_output* gradients, uint64_t count,
                      tenon_output* out_gradients, Clip clip) {
  return Build(graph, [&](host::Graph& lent) -> Status {
    TENON_CHECK(List(out_gradients, count));
    TENON_TRY_ASSIGN(const std::vector<Output> edges, ReadGradients(graph, gradients, count));
    const std::vector<Output> clipped = clip(lent, edges);
    TENON_TRY(lent.status());
    return GiveEdges(clipped, out_gradients, count, "out_gradients");
  });
}

}  // namespace

extern "C" {

tenon_status* tenon_clip_by_value(tenon_app_graph* graph, const tenon_output* gradients, uint64_t count, float low,
                                  float high, tenon_output* out_gradients) {
  return Clipped(graph, gradients, count, out_gradients, [&](host::Graph& lent, const std::vector<Output>& edges) {
    return train::ClipByValue(lent, edges, low, high);
  });
}

tenon_status* tenon_clip_by_norm(tenon_app_graph* graph, const tenon_output* gradients, uint64_t count, float limit,
                                 tenon_output* out_gradients) {
  return Clipped(graph, gradients, count, out_gradients, [&](host::Graph& lent, const std::vector<Output>& edges) {
    return train::ClipByNorm(lent, edges, limit);
  });
}

tenon_status* tenon_clip_by_global_norm(tenon_app_graph* graph, const tenon_output* gradients, uint64_t count,
                                        float limit, tenon_output* out_gradients, tenon_output* out_norm) {
  return Clipped(graph, gradients, count, out_gradients, [&](host::Graph& lent, const std::vector<Output>& edges) {
    train::GloballyClipped clipped = train::ClipByGlobalNorm(lent, edges, limit);
    if (out_norm != nullptr && lent.status().ok()) *out_norm = clipped.norm.c_output();
    return std::move(clipped.gradients);
  });
}

tenon_status* tenon_global_norm(tenon_app_graph* graph, const tenon_output* gradients, uint64_t count,
                                tenon_output* out_norm) {
  return Build(graph, [&](host::Graph& lent) -> Status {
    TENON_CHECK(out_norm);
    TENON_TRY_ASSIGN(const std::vector<Output> edges, ReadGradients(graph, gradients, count));
    const Output norm = train::GlobalNorm(lent, edges);
    TENON_TRY(lent.status());
    *out_norm = norm.c_output();
    return Status();
  });
}

}  // extern "C"
