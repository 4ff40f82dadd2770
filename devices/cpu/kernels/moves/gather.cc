// SPDX-License-Identifier: Apache-2.0
// Gather, GatherV2, ResourceGather: rows of params by index, every index checked.
#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include "kernels/common/string_copy.h"
#include "kernels/common/types.h"
#include "tenon/sdk/kernel/string_tensor.h"
#include "tenon/extras/kernel/update.h"
#include "tenon/extras/walk/gather_shape.h"

namespace tenon::cpu {
namespace {

using sdk::CheckRow;
using sdk::GatherShape;
using sdk::GatherShapeOf;

template <class Index>
void GatherRows(sdk::RunContext c, const GatherShape& g, const char* params, const Index* indices, char* out) {
  for (int64_t i = 0; i < g.batch * g.indices; ++i) CheckRow(indices[i], i, g.rows);
  if (g.inner == 0) return;  // rows of nothing, which lie nowhere
  const int64_t total = g.batch * g.outer * g.indices;
  c.ParallelFor(total, static_cast<double>(g.inner) * 0.05 + 2, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      const int64_t block = k / g.indices;  // batch and outer
      const int64_t index = indices[block / g.outer * g.indices + k % g.indices];
      const char* from = params + (block * g.rows + index) * g.inner;
      if (g.inner == 4) {
        std::memcpy(out + k * 4, from, 4);
      } else {
        std::memcpy(out + k * g.inner, from, static_cast<size_t>(g.inner));
      }
    }
  });
}

void Gather(sdk::RunContext c, const View& params, const View& indices, const GatherShape& g) {
  const View& output = c.output_view(0);
  const int64_t bytes = sdk::Multiply(sdk::Multiply(g.batch * g.outer, g.indices), g.inner);
  if (static_cast<int64_t>(output.byte_size) != bytes) {
    sdk::Fail(TENON_INVALID_ARGUMENT, "rows of params ", sdk::DimsOf(params), " by indices ", sdk::DimsOf(indices),
              " do not give the output's shape ", sdk::DimsOf(output));
  }
  if (g.batch * g.outer * g.indices == 0) return;
  const char* from = sdk::Data<char>(params);
  char* to = sdk::Data<char>(output);
  switch (indices.dtype) {
    case TENON_DT_INT32: return GatherRows(c, g, from, sdk::Data<int32_t>(indices), to);
    case TENON_DT_INT64: return GatherRows(c, g, from, sdk::Data<int64_t>(indices), to);
    case TENON_DT_INT16: return GatherRows(c, g, from, sdk::Data<int16_t>(indices), to);
    default: sdk::Fail(TENON_UNIMPLEMENTED, "indices of dtype ", sdk::TypeName(indices.dtype));
  }
}

struct GatherKernel {
  void Run(sdk::RunContext c) const {
    Gather(c, c.input_view(0), c.input_view(1), GatherShapeOf(c.input_view(0), c.input_view(1), 0, 0));
  }
};
struct GatherV2Kernel {
  explicit GatherV2Kernel(sdk::CreateContext& c) : batch_dims(c.Has("batch_dims") ? c.Int("batch_dims") : 0) {}
  void Run(sdk::RunContext c) const {
    const View& axis = c.input_view(2);
    Gather(c, c.input_view(0), c.input_view(1),
           GatherShapeOf(c.input_view(0), c.input_view(1), IndexAt(sdk::Data<void>(axis), axis.dtype, 0), batch_dims));
  }
  int64_t batch_dims;
};
struct ResourceGatherKernel {
  explicit ResourceGatherKernel(sdk::CreateContext& c) : batch_dims(c.Has("batch_dims") ? c.Int("batch_dims") : 0) {}
  void Run(sdk::RunContext c) const {
    View params = {};
    sdk::Check(c.services().variable_read(c.frame(), c.resource(0), &params));
    if (params.dtype != c.output_view(0).dtype) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "the variable is ", sdk::TypeName(params.dtype), "; dtype is ",
                sdk::TypeName(c.output_view(0).dtype));
    }
    const int64_t batch = batch_dims < 0 ? batch_dims + c.input_view(1).dl.ndim : batch_dims;
    Gather(c, params, c.input_view(1), GatherShapeOf(params, c.input_view(1), batch, batch_dims));
  }
  int64_t batch_dims;
};

struct ResourceGatherStringKernel {
  explicit ResourceGatherStringKernel(sdk::CreateContext& c)
      : batch_dims(c.Has("batch_dims") ? c.Int("batch_dims") : 0) {}
  struct Plan {
    Plan(const ResourceGatherStringKernel&, sdk::PrepareContext& c)
        : dims(sdk::DimsOf(c.output(0)).begin(), sdk::DimsOf(c.output(0)).end()) {}
    std::vector<int64_t> dims;
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    View params = {};
    sdk::Check(c.services().variable_read(c.frame(), c.resource(0), &params));
    if (params.dtype != TENON_DT_STRING)
      sdk::Fail(TENON_INVALID_ARGUMENT, "the variable is ", sdk::TypeName(params.dtype), "; dtype is string");
    const View& indices = c.input_view(1);
    const int64_t batch = batch_dims < 0 ? batch_dims + indices.dl.ndim : batch_dims;
    const GatherShape g = GatherShapeOf(params, indices, batch, batch_dims);
    const int64_t inner = g.inner / static_cast<int64_t>(sizeof(tenon_string_cell));
    std::vector<std::string_view> out;
    for (int64_t k = 0; k < g.batch * g.outer * g.indices; ++k) {
      const int64_t block = k / g.indices, place = block / g.outer * g.indices + k % g.indices;
      const int64_t index = IndexAt(sdk::Data<void>(indices), indices.dtype, place);
      CheckRow(index, place, g.rows);
      for (int64_t i = 0; i < inner; ++i) out.push_back(sdk::StringAt(params, (block * g.rows + index) * inner + i));
    }
    sdk::SetStrings(c, 0, plan.dims, out);
  }
  int64_t batch_dims;
};

}  // namespace

TENON_CPU_KERNEL(Gather) = CpuKernel<GatherKernel>(
    "Gather", {.constraints = sdk::Constraints<PlainConstraint<"Tparams">, Indices::Constraint<"Tindices">>::list});
TENON_CPU_KERNEL(GatherV2) = CpuKernel<GatherV2Kernel>(
    "GatherV2", {.constraints = sdk::Constraints<PlainConstraint<"Tparams">>::list});
TENON_CPU_KERNEL(ResourceGather) = CpuKernel<ResourceGatherKernel>(
    "ResourceGather",
    {.constraints = sdk::Constraints<PlainConstraint<"dtype">, Indices::Constraint<"Tindices">>::list});

// Strings.
TENON_CPU_KERNEL(GatherString) = CpuStringKernel<GatherKernel, "Tparams">("Gather");
TENON_CPU_KERNEL(ResourceGatherString) = CpuKernel<ResourceGatherStringKernel>(
    "ResourceGather",
    {.constraints = sdk::Constraints<sdk::Allowed<"dtype", TENON_DT_STRING>, Indices::Constraint<"Tindices">>::list,
     .dynamic_outputs = TENON_DYNAMIC_ALL});
TENON_CPU_KERNEL(GatherV2String) = CpuStringKernel<GatherV2Kernel, "Tparams">("GatherV2");

}  // namespace tenon::cpu
