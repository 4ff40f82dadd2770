// SPDX-License-Identifier: Apache-2.0
// The pass that parts attention's forward pass from its gradients (tenon/ext/draft/graph_pass.h).
//
// Gradients read the probabilities of the forward pass, so that neither could be one without writing these. Where both
// have a form that kernels have (attention_gradient_pattern.h), the forward pass gets nodes of its own from the product
// of queries and keys on, below the name of its last product: then each is claimed by itself, and the gradients make
// the scores again. In sessions that do not compile nothing is changed.
#ifndef TENON_DEVICES_GPU_FUSE_ATTENTION_PASS_H_
#define TENON_DEVICES_GPU_FUSE_ATTENTION_PASS_H_

#include <cstdint>
#include <vector>

#include "tenon/ext/draft/graph_pass.h"
#include "tenon/sdk/op/graph_pass.h"

namespace tenon::gpu {

extern const tenon_graph_pass kAttentionPass;

// The nodes of each forward pass and each gradient that will be claimed, as the graph is now; none where the session
// does not compile. For passes that come after this one.
std::vector<std::vector<int64_t>> FindAttentions(sdk::PassContext& p, const tenon_graph_pass_args& args);

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_FUSE_ATTENTION_PASS_H_
