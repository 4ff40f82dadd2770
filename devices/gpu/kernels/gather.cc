// SPDX-License-Identifier: Apache-2.0
// Elements by index: Gather, GatherNd, ScatterNd, TensorScatter..., UnsortedSegment...; and rows and slices of
// variables.
//
// Indices are in device memory: one that is outside is reported late, reads as zero and writes nothing. Sums into one
// element come in any order; of several values that are put into one place the last one stays, as on the CPU.
#include <cstring>
#include <limits>

#include "kernels/slices.h"
#include "tenon/extras/kernel/update.h"
#include "tenon/extras/walk/gather_shape.h"
#include "tenon/extras/walk/row_shape.h"

namespace tenon::gpu {
namespace {

using sdk::Dims;

constexpr char kRowText[] = "indices[{0}] = {1} is not in [0, {2})";
constexpr char kSliceText[] = "indices[{0}] has {1}, which does not index into the shape: the dim has {2}";
constexpr char kSegmentText[] = "segment_ids[{0}] = {1} is out of range [0, {2})";

int64_t BytesOf(uint32_t dtype) { return static_cast<int64_t>(sdk::ElementSize(dtype)); }
char* AddressOf(const View& view) { return static_cast<char*>(sdk::Data<void>(view)); }

// The code of a kernel that reads a variable's elements by index.
template <sdk::FixedString kCode>
struct ReadPlan {
  ReadPlan(const NamedKernel& kernel, sdk::PrepareContext& c, const char* text) {
    kernel.Prepare(c, [&](Shapes& s) {
      code = UnitCode(kCode.data, 16, s);
      site = s.Site(TENON_INVALID_ARGUMENT, text);
    });
  }
  UnitCode code;
  uint64_t site = 0;
};
// A variable's value, which is of the dtype that the node says.
View ReadVariable(sdk::RunContext c) {
  View params = {};
  sdk::Check(c.services().variable_read(c.frame(), c.resource(0), &params));
  if (params.dtype != c.output_view(0).dtype) {
    sdk::Fail(TENON_INVALID_ARGUMENT, "the variable is ", sdk::TypeName(params.dtype), "; dtype is ",
              sdk::TypeName(c.output_view(0).dtype));
  }
  return params;
}

// ---- Gather ----

// What the values of the shapes decide; inner is in bytes here.
struct GatherWork {
  GatherWork() = default;
  GatherWork(const View& params, const View& indices, const View& output, int64_t axis, int64_t batch_dims)
      : shape(sdk::GatherShapeOf(params, indices, axis, batch_dims)), kind(KindOf(indices.dtype)) {
    const int64_t bytes = sdk::Multiply(sdk::Multiply(shape.batch * shape.outer, shape.indices), shape.inner);
    if (sdk::Multiply(sdk::Count(output), BytesOf(output.dtype)) != bytes) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "rows of params ", sdk::DimsOf(params), " by indices ", sdk::DimsOf(indices),
                " do not give the output's shape ", sdk::DimsOf(output));
    }
  }
  void Launch(Launcher& on, const UnitCode& code, uint64_t site, const char* params, const char* indices,
              char* out) const {
    const int64_t unit = UnitCode::Dividing(code.For(params, out), shape.inner);
    GatherParams p = {};
    p.params = params;
    p.indices = {indices, kind};
    p.out = out;
    p.inner = DimOf(shape.inner / unit);
    p.count = DimOf(shape.indices);
    p.outer = DimOf(shape.outer);
    p.rows = shape.rows;
    p.total = shape.batch * shape.outer * shape.indices * p.inner.size;
    p.site = on.Site(site);
    on(code[unit], Flat(p.total, kMoveItems), p);
  }
  sdk::GatherShape shape;
  IndexKind kind = IndexKind::kInt32;
};

template <int32_t kAxis>
struct GatherKernel {
  explicit GatherKernel(sdk::CreateContext& c)
      : batch_dims(kAxis >= 0 && c.Has("batch_dims") ? c.Int("batch_dims") : 0) {}
  struct Plan {
    Plan(const GatherKernel& kernel, Shapes& s)
        : work(s.input(0), s.input(1), s.output(0), kAxis < 0 ? 0 : s.Integer(kAxis), kernel.batch_dims),
          code("Gather", 16, s),
          site(s.Site(TENON_INVALID_ARGUMENT, kRowText)) {}
    void Launch(Launcher& on, char* const* at) const {
      work.Launch(on, code, site, at[0], at[1], at[kAxis < 0 ? 2 : 3]);
    }
    GatherWork work;
    UnitCode code;
    uint64_t site;
  };
  int64_t batch_dims;
};
struct GatherV2Kernel : GatherKernel<2> {
  using GatherKernel<2>::GatherKernel;
  static constexpr HostInput kHostInputs[] = {{TENON_SPAN("axis"), 2}};
};

struct ResourceGatherKernel : NamedKernel {
  explicit ResourceGatherKernel(sdk::CreateContext& c)
      : NamedKernel(c), batch_dims(c.Has("batch_dims") ? c.Int("batch_dims") : 0) {}
  struct Plan : ReadPlan<"Gather"> {
    Plan(const ResourceGatherKernel& kernel, sdk::PrepareContext& c) : ReadPlan(kernel, c, kRowText) {}
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    const View params = ReadVariable(c);
    const View &indices = c.input_view(1), &out = c.output_view(0);
    const int64_t batch = batch_dims < 0 ? batch_dims + indices.dl.ndim : batch_dims;
    const GatherWork work(params, indices, out, batch, batch_dims);
    SubmitTo(*c.frame(), [&](Launcher& on) {
      work.Launch(on, plan.code, plan.site, AddressOf(params), AddressOf(indices), AddressOf(out));
    });
  }
  int64_t batch_dims;
};

// ---- Slices by vectors of indices ----

struct Policy {
  explicit Policy(sdk::CreateContext& c) {
    const std::string_view policy = c.Has("bad_indices_policy") ? c.String("bad_indices_policy") : "";
    if (policy == "IGNORE") {
      bad = BadIndices::kIgnored;
    } else if (!policy.empty() && policy != "DEFAULT" && policy != "ERROR") {
      c.Invalid("bad_indices_policy '", policy, "' is none of '', DEFAULT, ERROR and IGNORE");
    }
  }
  BadIndices bad = BadIndices::kReported;
};

struct GatherNdWork {
  GatherNdWork(const View& params, const View& indices, const View& output, BadIndices bad)
      : shape(indices, sdk::DimsOf(params), bad), width(shape.width * BytesOf(params.dtype)) {
    const int64_t total = sdk::Multiply(shape.count, shape.width);
    if (total != sdk::Count(output)) {
      sdk::Fail(TENON_INTERNAL, "indices give ", total, " elements, the output has the shape ", sdk::DimsOf(output));
    }
    if (shape.count > 0 && sdk::Count(params) == 0) {
      sdk::Fail(TENON_INVALID_ARGUMENT,
                "Requested more than 0 entries, but params is empty.  Params shape: ", sdk::DimsOf(params));
    }
  }
  void Launch(Launcher& on, const UnitCode& code, uint64_t site, const char* params, const char* indices,
              char* out) const {
    const int64_t unit = UnitCode::Dividing(code.For(params, out), width);
    GatherNdParams p = {shape.At(indices, on.Site(site)), params, out, 0, DimOf(width / unit)};
    p.total = shape.count * p.inner.size;
    on(code[unit], Flat(p.total, kMoveItems), p);
  }
  SliceShape shape;
  int64_t width;  // bytes of a slice
};
struct GatherNdKernel : Policy {
  using Policy::Policy;
  struct Plan {
    Plan(const GatherNdKernel& kernel, Shapes& s)
        : work(s.input(0), s.input(1), s.output(0), kernel.bad),
          code("GatherNd", 16, s),
          site(s.Site(TENON_INVALID_ARGUMENT, kSliceText)) {}
    void Launch(Launcher& on, char* const* at) const { work.Launch(on, code, site, at[0], at[1], at[2]); }
    GatherNdWork work;
    UnitCode code;
    uint64_t site;
  };
};
struct ResourceGatherNdKernel : NamedKernel, Policy {
  explicit ResourceGatherNdKernel(sdk::CreateContext& c) : NamedKernel(c), Policy(c) {}
  struct Plan : ReadPlan<"GatherNd"> {
    Plan(const ResourceGatherNdKernel& kernel, sdk::PrepareContext& c) : ReadPlan(kernel, c, kSliceText) {}
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    const View params = ReadVariable(c);
    const View &indices = c.input_view(1), &out = c.output_view(0);
    const GatherNdWork work(params, indices, out, bad);
    SubmitTo(*c.frame(), [&](Launcher& on) {
      work.Launch(on, plan.code, plan.site, AddressOf(params), AddressOf(indices), AddressOf(out));
    });
  }
};

// ---- Slices that change ----

// The slices of `output` that indices name.
SliceShape Checked(const View& indices, const View& updates, const View& output, BadIndices bad) {
  const Dims dims = sdk::DimsOf(output);
  const SliceShape shape(indices, dims, bad);
  if (sdk::Multiply(shape.count, shape.width) != sdk::Count(updates)) {
    sdk::Fail(TENON_INVALID_ARGUMENT, "updates of shape ", sdk::DimsOf(updates), " do not fit indices of shape ",
              sdk::DimsOf(indices), " into a tensor of shape ", dims);
  }
  // Nothing is put into nothing, or something into something.
  const bool nothing = sdk::Count(indices) == 0;
  if (nothing != (sdk::Count(updates) == 0) || (!nothing && sdk::Count(output) == 0)) {
    sdk::Fail(TENON_INVALID_ARGUMENT, "indices of shape ", sdk::DimsOf(indices), " and updates of shape ",
              sdk::DimsOf(updates), " into a tensor of shape ", dims, ": some are empty and others are not");
  }
  return shape;
}

struct ScatterNdKernel : Policy {
  static constexpr HostInput kHostInputs[] = {{TENON_SPAN("shape"), 2}};
  using Policy::Policy;
  struct Plan {
    Plan(const ScatterNdKernel& kernel, Shapes& s)
        : shape(Checked(s.input(0), s.input(1), s.output(0), kernel.bad)),
          bytes(sdk::Multiply(sdk::Count(s.out(0)), BytesOf(s.output(0).dtype))),
          changing(s.dtype(1), shape.count, kSliceText, s) {}
    void Launch(Launcher& on, char* const* at) const {
      on.Fill(at[3], 0, bytes);
      changing.Launch(on, shape, false, at[0], at[1], at[3]);
    }
    SliceShape shape;
    int64_t bytes;
    Changing<Change::kAdd> changing;
  };
};

template <Change kChange>
struct TensorScatterKernel : Policy {
  using Policy::Policy;
  struct Plan {
    Plan(const TensorScatterKernel& kernel, Shapes& s)
        : shape(Checked(s.input(1), s.input(2), s.output(0), kernel.bad)),
          bytes(sdk::Multiply(sdk::Count(s.out(0)), BytesOf(s.output(0).dtype))),
          changing(s.dtype(0), shape.count, kSliceText, s) {}
    void Launch(Launcher& on, char* const* at) const {
      on.Copy(at[3], at[0], bytes);
      changing.Launch(on, shape, false, at[1], at[2], at[3]);
    }
    SliceShape shape;
    int64_t bytes;
    Changing<kChange> changing;
  };
};

// What a segment begins with, and has where it is empty.
template <Change kChange, class T>
T FirstOf() {
  if constexpr (kChange == Change::kMultiply) return T(1);
  if constexpr (std::is_same_v<T, sdk::Half>) return T(kChange == Change::kMaximum ? -65504.0f : 65504.0f);
  if constexpr (std::is_same_v<T, sdk::Bfloat16>) return T(kChange == Change::kMaximum ? -0x1.fep127f : 0x1.fep127f);
  return kChange == Change::kMaximum ? std::numeric_limits<T>::lowest() : std::numeric_limits<T>::max();
}

// Negative ids are dropped.
template <Change kChange>
struct UnsortedSegmentKernel {
  static constexpr HostInput kHostInputs[] = {{TENON_SPAN("num_segments"), 2}};
  struct Plan {
    Plan(const UnsortedSegmentKernel&, Shapes& s)
        : shape(Checked(s)),
          bytes(sdk::Multiply(sdk::Count(s.out(0)), BytesOf(s.output(0).dtype))),
          changing(s.dtype(0), shape.count, kSegmentText, s) {
      if constexpr (kChange != Change::kAdd) {
        fill = s.Code(sdk::Concat("Fill_", BytesOf(s.dtype(0))));
        first.count = sdk::Count(s.out(0));
        Numbers::Dispatch(s.dtype(0), [&]<class T>(Tag<T>) {
          const T value = FirstOf<kChange, T>();
          std::memcpy(first.pattern, static_cast<const void*>(&value), sizeof value);
        });
      }
    }
    static SliceShape Checked(Shapes& s) {
      const int64_t width = sdk::Count(sdk::TailOf("segment_ids", s.in(1), s.in(0))), rows = s.Integer(2);
      if (rows < 0 || sdk::Multiply(rows, width) != sdk::Count(s.out(0))) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "num_segments ", rows, " does not give the output's shape ", s.out(0));
      }
      return {s.input(1), rows, width, BadIndices::kNegativesIgnored};
    }
    void Launch(Launcher& on, char* const* at) const {
      if (kChange == Change::kAdd) {
        on.Fill(at[3], 0, bytes);
      } else {
        FillParams p = first;
        p.target = at[3];
        on(fill, Flat(p.count, kMoveItems), p);
      }
      changing.Launch(on, shape, false, at[1], at[0], at[3]);
    }
    SliceShape shape;
    int64_t bytes;
    Changing<kChange> changing;
    FillParams first = {};
    Function fill = nullptr;
  };
};

// Rows of a variable. Rows that come twice are updated twice.
template <bool kReference, Change kChange>
struct VariableScatterKernel : NamedKernel {
  explicit VariableScatterKernel(sdk::CreateContext& c) : NamedKernel(c), lock(sdk::UpdateLock(c)) {}
  struct Plan {
    Plan(const VariableScatterKernel& kernel, sdk::PrepareContext& c) {
      kernel.Prepare(c, [&](Shapes& s) { changing = Changing<kChange>(s.dtype(2), sdk::Count(s.in(1)), kRowText, s); });
    }
    Changing<kChange> changing;
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    tenon_resource* handle = c.resource(0);
    const View &indices = c.input_view(1), &updates = c.input_view(2);
    sdk::Update update(c, handle, lock, updates.dtype);
    const Dims dims = update.dims();
    const int64_t count = sdk::Count(indices);
    if (dims.empty()) sdk::Fail(TENON_INVALID_ARGUMENT, "rows of a scalar variable cannot be updated");
    const int64_t row = sdk::Count(dims.subspan(1));
    const bool one_for_all = updates.dl.ndim == 0;
    if (!one_for_all && sdk::Count(updates) != sdk::Multiply(count, row)) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "updates of shape ", sdk::DimsOf(updates), " do not fit ", count,
                " rows of a variable of shape ", dims);
    }
    const SliceShape shape(indices, dims[0], row, BadIndices::kReported);
    SubmitTo(*c.frame(), [&](Launcher& on) {
      plan.changing.Launch(on, shape, one_for_all, AddressOf(indices), AddressOf(updates),
                           AddressOf(update.new_view()));
    });
    update.Commit();
    if (kReference) *c.output<tenon_resource*>(0) = handle;
  }
  uint32_t lock;
};

// Slices of a variable.
template <bool kReference, Change kChange>
struct VariableScatterNdKernel : NamedKernel, Policy {
  explicit VariableScatterNdKernel(sdk::CreateContext& c) : NamedKernel(c), Policy(c), lock(sdk::UpdateLock(c)) {}
  struct Plan {
    Plan(const VariableScatterNdKernel& kernel, sdk::PrepareContext& c) {
      kernel.Prepare(c, [&](Shapes& s) {
        const Dims indices = s.in(1);
        const int64_t slices = indices.empty() ? 0 : sdk::Count(indices.first(indices.size() - 1));
        changing = Changing<kChange>(s.dtype(2), slices, kSliceText, s);
      });
    }
    Changing<kChange> changing;
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    tenon_resource* const handle = c.resource(0);
    const View &indices = c.input_view(1), &updates = c.input_view(2);
    sdk::Update update(c, handle, lock, updates.dtype);
    const SliceShape shape = Checked(indices, updates, update.new_view(), bad);
    SubmitTo(*c.frame(), [&](Launcher& on) {
      plan.changing.Launch(on, shape, false, AddressOf(indices), AddressOf(updates), AddressOf(update.new_view()));
    });
    update.Commit();
    if (kReference) *c.output<tenon_resource*>(0) = handle;
  }
  uint32_t lock;
};

// ---- Registrations ----

// Sums of floats come in any order: nothing of them is said to be the same every time.
constexpr uint32_t kAnyOrder = 0;

template <class K, sdk::FixedString kAttr>
constexpr tenon_kernel_registration Plain(std::string_view op) {
  return Kernel<K>(op, {.constraints = sdk::Constraints<sdk::PlainConstraint<kAttr>>::list});
}
constexpr auto& kNumbers = sdk::Constraints<Numbers::Constraint<"T">>::list;
template <Change kChange>
constexpr tenon_kernel_registration Summed(std::string_view op) {
  return Kernel<TensorScatterKernel<kChange>>(
      op, {.constraints = kNumbers, .in_place = sdk::kInPlaceFirst, .flags = kAnyOrder});
}
template <bool kReference, Change kChange>
constexpr tenon_kernel_registration Scatter(std::string_view op) {
  constexpr sdk::FixedString kAttr = [] {
    if constexpr (kReference) {
      return sdk::FixedString("T");
    } else {
      return sdk::FixedString("dtype");
    }
  }();
  if constexpr (kChange == Change::kPut) {
    return PlainKernel<VariableScatterKernel<kReference, kChange>>(
        op, {.constraints = sdk::Constraints<sdk::PlainConstraint<kAttr>, sdk::Indices::Constraint<"Tindices">>::list});
  } else {
    return PlainKernel<VariableScatterKernel<kReference, kChange>>(
        op, {.constraints = sdk::Constraints<Numbers::Constraint<kAttr>, sdk::Indices::Constraint<"Tindices">>::list,
             .flags = kAnyOrder});
  }
}

template <bool kReference, Change kChange>
constexpr tenon_kernel_registration ScatterSlices(std::string_view op) {
  if constexpr (kChange == Change::kPut) {
    return PlainKernel<VariableScatterNdKernel<kReference, kChange>>(
        op, {.constraints = sdk::Constraints<sdk::PlainConstraint<"T">>::list});
  } else {
    return PlainKernel<VariableScatterNdKernel<kReference, kChange>>(op, {.constraints = kNumbers, .flags = kAnyOrder});
  }
}

}  // namespace

TENON_GPU_KERNEL(Gather) = Plain<GatherKernel<-1>, "Tparams">("Gather");
TENON_GPU_KERNEL(GatherV2) = Plain<GatherV2Kernel, "Tparams">("GatherV2");
TENON_GPU_KERNEL(GatherNd) = Plain<GatherNdKernel, "Tparams">("GatherNd");
TENON_GPU_KERNEL(ResourceGather) = PlainKernel<ResourceGatherKernel>(
    "ResourceGather", {.constraints = sdk::Constraints<sdk::PlainConstraint<"dtype">>::list});
TENON_GPU_KERNEL(ResourceGatherNd) = PlainKernel<ResourceGatherNdKernel>(
    "ResourceGatherNd", {.constraints = sdk::Constraints<sdk::PlainConstraint<"dtype">>::list});
TENON_GPU_KERNEL(ScatterNd) = Kernel<ScatterNdKernel>("ScatterNd", {.constraints = kNumbers, .flags = kAnyOrder});
TENON_GPU_KERNEL(TensorScatterUpdate) = Kernel<TensorScatterKernel<Change::kPut>>(
    "TensorScatterUpdate",
    {.constraints = sdk::Constraints<sdk::PlainConstraint<"T">>::list, .in_place = sdk::kInPlaceFirst});
TENON_GPU_KERNEL(TensorScatterAdd) = Summed<Change::kAdd>("TensorScatterAdd");
TENON_GPU_KERNEL(TensorScatterSub) = Summed<Change::kSubtract>("TensorScatterSub");
TENON_GPU_KERNEL(TensorScatterMin) = Summed<Change::kLeast>("TensorScatterMin");
TENON_GPU_KERNEL(TensorScatterMax) = Summed<Change::kLargest>("TensorScatterMax");
TENON_GPU_KERNEL(UnsortedSegmentProd) = Kernel<UnsortedSegmentKernel<Change::kMultiply>>("UnsortedSegmentProd",
                                                                                         {.constraints = kNumbers,
                                                                                          .flags = kAnyOrder});
TENON_GPU_KERNEL(UnsortedSegmentMax) = Kernel<UnsortedSegmentKernel<Change::kMaximum>>("UnsortedSegmentMax",
                                                                                       {.constraints = kNumbers,
                                                                                        .flags = kAnyOrder});
TENON_GPU_KERNEL(UnsortedSegmentMin) = Kernel<UnsortedSegmentKernel<Change::kMinimum>>("UnsortedSegmentMin",
                                                                                       {.constraints = kNumbers,
                                                                                        .flags = kAnyOrder});
TENON_GPU_KERNEL(UnsortedSegmentSum) = Kernel<UnsortedSegmentKernel<Change::kAdd>>("UnsortedSegmentSum",
                                                                                   {.constraints = kNumbers,
                                                                                    .flags = kAnyOrder});
TENON_GPU_KERNEL(ScatterAdd) = Scatter<true, Change::kAdd>("ScatterAdd");
TENON_GPU_KERNEL(ScatterSub) = Scatter<true, Change::kSubtract>("ScatterSub");
TENON_GPU_KERNEL(ScatterUpdate) = Scatter<true, Change::kPut>("ScatterUpdate");
TENON_GPU_KERNEL(ResourceScatterAdd) = Scatter<false, Change::kAdd>("ResourceScatterAdd");
TENON_GPU_KERNEL(ResourceScatterSub) = Scatter<false, Change::kSubtract>("ResourceScatterSub");
TENON_GPU_KERNEL(ResourceScatterUpdate) = Scatter<false, Change::kPut>("ResourceScatterUpdate");
TENON_GPU_KERNEL(ScatterMul) = Scatter<true, Change::kMultiply>("ScatterMul");
TENON_GPU_KERNEL(ResourceScatterMul) = Scatter<false, Change::kMultiply>("ResourceScatterMul");
TENON_GPU_KERNEL(ScatterDiv) = Scatter<true, Change::kDivideByAny>("ScatterDiv");
TENON_GPU_KERNEL(ResourceScatterDiv) = Scatter<false, Change::kDivide>("ResourceScatterDiv");
TENON_GPU_KERNEL(ScatterMin) = Scatter<true, Change::kLeast>("ScatterMin");
TENON_GPU_KERNEL(ResourceScatterMin) = Scatter<false, Change::kLeast>("ResourceScatterMin");
TENON_GPU_KERNEL(ScatterMax) = Scatter<true, Change::kLargest>("ScatterMax");
TENON_GPU_KERNEL(ResourceScatterMax) = Scatter<false, Change::kLargest>("ResourceScatterMax");
TENON_GPU_KERNEL(ScatterNdUpdate) = ScatterSlices<true, Change::kPut>("ScatterNdUpdate");
TENON_GPU_KERNEL(ResourceScatterNdUpdate) = ScatterSlices<false, Change::kPut>("ResourceScatterNdUpdate");
TENON_GPU_KERNEL(ScatterNdAdd) = ScatterSlices<true, Change::kAdd>("ScatterNdAdd");
TENON_GPU_KERNEL(ResourceScatterNdAdd) = ScatterSlices<false, Change::kAdd>("ResourceScatterNdAdd");
TENON_GPU_KERNEL(ScatterNdSub) = ScatterSlices<true, Change::kSubtract>("ScatterNdSub");
TENON_GPU_KERNEL(ResourceScatterNdSub) = ScatterSlices<false, Change::kSubtract>("ResourceScatterNdSub");
TENON_GPU_KERNEL(ScatterNdMin) = ScatterSlices<true, Change::kLeast>("ScatterNdMin");
TENON_GPU_KERNEL(ResourceScatterNdMin) = ScatterSlices<false, Change::kLeast>("ResourceScatterNdMin");
TENON_GPU_KERNEL(ScatterNdMax) = ScatterSlices<true, Change::kLargest>("ScatterNdMax");
TENON_GPU_KERNEL(ResourceScatterNdMax) = ScatterSlices<false, Change::kLargest>("ResourceScatterNdMax");

}  // namespace tenon::gpu
