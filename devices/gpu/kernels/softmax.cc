// SPDX-License-Identifier: Apache-2.0
// Softmax, LogSoftmax, the cross entropies and InTopKV2, over the last dim.
#include "code/softmax.h"

#include "kernels/reduction.h"

namespace tenon::gpu {
namespace {

using sdk::Dims;

template <sdk::FixedString kCode>
struct Softmax {
  struct Plan {
    Plan(const Softmax&, Shapes& s) {
      const Dims dims = s.in(0);
      if (dims.empty()) sdk::Fail(TENON_INVALID_ARGUMENT, "logits must have a dim; they are a scalar");
      params.width = dims.back();
      params.rows = sdk::Count(dims.first(dims.size() - 1));
      params.lanes = LanesForPacks(s.facts(), params.rows, params.width, s.dtype(0));
      grid = GroupGrid(s.facts(), params.rows, params.lanes);
      code = s.Code(kCode.data, s.dtype(0));
    }
    void Launch(Launcher& on, char* const* at) const {
      SoftmaxParams p = params;
      p.x = at[0];
      p.out = at[1];
      if (p.rows > 0 && p.width > 0) on(code, grid, p);
    }
    SoftmaxParams params = {};
    Grid grid;
    Function code;
  };
};

// Logits and labels broadcast.
struct CrossEntropy {
  struct Plan {
    Plan(const CrossEntropy&, Shapes& s) {
      const Dims x = s.in(0), y = s.in(1), out = s.out(1);
      if (x.size() != 2 || y.size() != 2 || out.size() != 2) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "logits of shape ", x, " and labels of shape ", y, " must be matrices");
      }
      for (size_t d = 0; d < 2; ++d) {
        if ((x[d] != out[d] && x[d] != 1) || (y[d] != out[d] && y[d] != 1)) {
          sdk::Fail(TENON_INVALID_ARGUMENT, "logits of shape ", x, " and labels of shape ", y, " do not broadcast to ",
                    out);
        }
      }
      CrossEntropyParams& p = params;
      p.rows = out[0];
      p.width = out[1];
      p.x_row = x[0] == 1 ? 0 : x[1];
      p.x_step = x[1] == 1 ? 0 : 1;
      p.y_row = y[0] == 1 ? 0 : y[1];
      p.y_step = y[1] == 1 ? 0 : 1;
      p.lanes = LanesForPacks(s.facts(), p.rows, p.width, s.dtype(0));
      grid = GroupGrid(s.facts(), p.rows, p.lanes);
      code = s.Code("CrossEntropy", s.dtype(0));
    }
    void Launch(Launcher& on, char* const* at) const {
      CrossEntropyParams p = params;
      p.x = at[0];
      p.labels = at[1];
      p.loss = at[2];
      p.backprop = at[3];
      if (p.rows > 0) on(code, grid, p);
    }
    CrossEntropyParams params = {};
    Grid grid;
    Function code;
  };
};

struct SparseCrossEntropy {
  struct Plan {
    Plan(const SparseCrossEntropy&, Shapes& s) {
      const Dims x = s.in(0), y = s.in(1);
      if (x.size() != 2 || y.size() != 1 || x[0] != y[0]) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "logits of shape ", x, " and labels of shape ", y,
                  "; they must be [batch, classes] and [batch]");
      }
      if (x[1] == 0 && x[0] != 0) sdk::Fail(TENON_INVALID_ARGUMENT, "Must have at least one class; logits are ", x);
      SparseCrossEntropyParams& p = params;
      p.rows = x[0];
      p.width = x[1];
      p.lanes = LanesForPacks(s.facts(), p.rows, p.width, s.dtype(0));
      p.wide_labels = s.dtype(1) == TENON_DT_INT64 ? 1 : 0;
      grid = GroupGrid(s.facts(), p.rows, p.lanes);
      code = s.Code("SparseCrossEntropy", s.dtype(0));
      site = s.Site(TENON_INVALID_ARGUMENT,
                    "Received a label value of {1} which is outside the valid range of [0, {2}); it is label {0}");
    }
    void Launch(Launcher& on, char* const* at) const {
      SparseCrossEntropyParams p = params;
      p.x = at[0];
      p.labels = at[1];
      p.loss = at[2];
      p.backprop = at[3];
      p.site = on.Site(site);
      if (p.rows > 0) on(code, grid, p);
    }
    SparseCrossEntropyParams params = {};
    Grid grid;
    Function code;
    uint64_t site;
  };
};

struct InTopK {
  struct Plan {
    Plan(const InTopK&, Shapes& s) : code(s.Code("InTopK")) {
      const Dims dims = s.in(0);
      if (dims.size() != 2 || sdk::Count(s.in(1)) != dims[0] || sdk::Count(s.in(2)) != 1) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "predictions of shape ", dims, ", targets of shape ", s.in(1));
      }
      params.rows = dims[0];
      params.width = dims[1];
      params.lanes = LanesFor(params.width);
      params.wide = s.dtype(1) == TENON_DT_INT64 ? 1 : 0;
      grid = GroupGrid(s.facts(), params.rows, params.lanes);
    }
    void Launch(Launcher& on, char* const* at) const {
      InTopKParams p = params;
      p.predictions = As<const float>(at[0]);
      p.targets = at[1];
      p.k = at[2];
      p.out = As<bool>(at[3]);
      if (p.rows > 0) on(code, grid, p);
    }
    InTopKParams params = {};
    Grid grid;
    Function code;
  };
};

constexpr sdk::Traits kInPlace = {.constraints = sdk::Constraints<Floats::Constraint<"T">>::list,
                                  .in_place = sdk::kInPlaceFirst};
constexpr tenon_in_place kInPlaceBackprop[] = {{0, 1}};

}  // namespace

TENON_GPU_KERNEL(Softmax) = Kernel<Softmax<"Softmax">>("Softmax", kInPlace);
TENON_GPU_KERNEL(LogSoftmax) = Kernel<Softmax<"LogSoftmax">>("LogSoftmax", kInPlace);
TENON_GPU_KERNEL(SoftmaxCrossEntropyWithLogits) = Kernel<CrossEntropy>(
    "SoftmaxCrossEntropyWithLogits", {.constraints = sdk::Constraints<Floats::Constraint<"T">>::list});
TENON_GPU_KERNEL(SparseSoftmaxCrossEntropyWithLogits) = Kernel<SparseCrossEntropy>(
    "SparseSoftmaxCrossEntropyWithLogits",
    {.constraints = sdk::Constraints<Floats::Constraint<"T">, sdk::Indices::Constraint<"Tlabels">>::list,
     .in_place = kInPlaceBackprop});
TENON_GPU_KERNEL(InTopKV2) = Kernel<InTopK>("InTopKV2",
                                            {.constraints = sdk::Constraints<sdk::Indices::Constraint<"T">>::list});

}  // namespace tenon::gpu
