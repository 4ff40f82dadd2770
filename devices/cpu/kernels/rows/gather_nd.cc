// SPDX-License-Identifier: Apache-2.0
// GatherNd, ScatterNd and TensorScatter...: slices named by vectors of indices.
#include <algorithm>
#include <array>
#include <complex>
#include <cstring>
#include <memory_resource>
#include <string>
#include <vector>

#include "kernels/common/string_copy.h"
#include "kernels/common/types.h"
#include "kernels/state/string_update.h"
#include "tenon/extras/kernel/step_memory.h"
#include "tenon/extras/kernel/update.h"

namespace tenon::cpu {
namespace {

// Slices of a tensor of shape `dims`, one for each vector in the last dim of indices.
class NamedSlices {
 public:
  NamedSlices(const View& indices, sdk::Dims dims, bool ignore_bad)
      : data_(sdk::Data<void>(indices)), dtype_(indices.dtype), dims_(dims), ignore_bad_(ignore_bad) {
    const sdk::Dims shape = sdk::DimsOf(indices);
    if (shape.empty()) sdk::Fail(TENON_INVALID_ARGUMENT, "indices must be at least a vector");
    depth_ = shape.back();
    if (depth_ > static_cast<int64_t>(dims.size())) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "indices of shape ", shape, " name ", depth_, " dims of a tensor of shape ",
                dims);
    }
    count_ = sdk::Count(shape.first(shape.size() - 1));
    slice_ = sdk::Count(dims.subspan(static_cast<size_t>(depth_)));
  }
  int64_t count() const { return count_; }
  int64_t slice() const { return slice_; }

  // Where slice i begins, in elements; -1 when it is outside and that is to be ignored.
  int64_t At(int64_t i) const {
    int64_t at = 0;
    for (int64_t d = 0; d < depth_; ++d) {
      const int64_t index = IndexOf(i * depth_ + d), dim = dims_[static_cast<size_t>(d)];
      if (index < 0 || index >= dim) [[unlikely]] {
        if (ignore_bad_) return -1;
        FailIndex(i);
      }
      at = at * dim + index;
    }
    return at * slice_;
  }
  // Fails before anything is written.
  void CheckAll() const {
    for (int64_t i = 0; i < count_; ++i) At(i);
  }
  // The same as At, where the indices are Index and name kDepth dims.
  template <class Index, int64_t kDepth>
  int64_t AtOf(int64_t i) const {
    const Index* index = static_cast<const Index*>(data_) + i * kDepth;
    int64_t at = 0;
    for (int64_t d = 0; d < kDepth; ++d) {
      const int64_t one = index[d], dim = dims_[static_cast<size_t>(d)];
      if (one < 0 || one >= dim) [[unlikely]] return At(i);
      at = at * dim + one;
    }
    return at * slice_;
  }
  // function(at), where at(i) is At(i) at the least cost.
  template <class Function>
  void WithAt(const Function& function) const {
    const auto of = [&]<class Index>(Tag<Index>) {
      if (depth_ == 1) return function([this](int64_t i) { return AtOf<Index, 1>(i); });
      if (depth_ == 2) return function([this](int64_t i) { return AtOf<Index, 2>(i); });
      function([this](int64_t i) { return At(i); });
    };
    if (dtype_ == TENON_DT_INT32) return of(Tag<int32_t>{});
    if (dtype_ == TENON_DT_INT64) return of(Tag<int64_t>{});
    function([this](int64_t i) { return At(i); });
  }

 private:
  int64_t IndexOf(int64_t i) const {
    return dtype_ == TENON_DT_UINT16 ? static_cast<const uint16_t*>(data_)[i] : IndexAt(data_, dtype_, i);
  }
  [[noreturn]] void FailIndex(int64_t i) const {
    std::vector<int64_t> index;
    for (int64_t d = 0; d < depth_; ++d) index.push_back(IndexOf(i * depth_ + d));
    sdk::Fail(TENON_INVALID_ARGUMENT, "indices[", i, "] = ", index, " does not index into shape ", dims_);
  }

  const void* data_;
  uint32_t dtype_;
  sdk::Dims dims_;
  bool ignore_bad_;
  int64_t depth_ = 0, count_ = 0, slice_ = 0;
};

struct Policy {
  explicit Policy(sdk::CreateContext& c) {
    const std::string_view policy = c.Has("bad_indices_policy") ? c.String("bad_indices_policy") : "";
    ignore_bad = policy == "IGNORE";
    if (!ignore_bad && !policy.empty() && policy != "DEFAULT" && policy != "ERROR") {
      c.Invalid("bad_indices_policy '", policy, "' is none of '', DEFAULT, ERROR and IGNORE");
    }
  }
  bool ignore_bad = false;
};

struct GatherNdKernel : Policy {
  using Policy::Policy;
  void Run(sdk::RunContext c) const { Gather(c, c.input_view(0)); }

  void Gather(sdk::RunContext c, const View& params) const {
    const NamedSlices slices(c.input_view(1), sdk::DimsOf(params), ignore_bad);
    const int64_t total = sdk::Multiply(slices.count(), slices.slice());
    if (total != sdk::Count(c.output_view(0))) {
      sdk::Fail(TENON_INTERNAL, "indices give ", total, " elements, the output has the shape ",
                sdk::DimsOf(c.output_view(0)));
    }
    if (slices.count() > 0 && sdk::Count(params) == 0) {
      sdk::Fail(TENON_INVALID_ARGUMENT,
                "Requested more than 0 entries, but params is empty.  Params shape: ", sdk::DimsOf(params));
    }
    DispatchSize(params.dtype, [&]<class T>(Tag<T>) {
      const T* from = sdk::Data<const T>(params);
      T* to = c.output<T>(0);
      const auto bytes = static_cast<size_t>(slices.slice()) * sizeof(T);
      c.ParallelFor(slices.count(), 5 + 0.05 * static_cast<double>(bytes), [&](int64_t begin, int64_t end) {
        if (slices.slice() == 1) {
          return slices.WithAt([&](const auto& at_of) {
            for (int64_t i = begin; i < end; ++i) {
              const int64_t at = at_of(i);
              to[i] = at < 0 ? T{} : from[at];
            }
          });
        }
        for (int64_t i = begin; i < end; ++i) {
          const int64_t at = slices.At(i);
          if (bytes == 0) continue;
          if (at < 0) {
            std::memset(static_cast<void*>(to + i * slices.slice()), 0, bytes);
          } else {
            std::memcpy(static_cast<void*>(to + i * slices.slice()), from + at, bytes);
          }
        }
      });
    });
  }
};

struct ResourceGatherNdKernel : GatherNdKernel {
  using GatherNdKernel::GatherNdKernel;
  void Run(sdk::RunContext c) const {
    View params = {};
    sdk::Check(c.services().variable_read(c.frame(), c.resource(0), &params));
    if (params.dtype != c.output_view(0).dtype) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "the variable is ", sdk::TypeName(params.dtype), "; dtype is ",
                sdk::TypeName(c.output_view(0).dtype));
    }
    Gather(c, params);
  }
};

// Rows of a variable of strings.
struct ResourceGatherNdStringsKernel : Policy {
  using Policy::Policy;
  struct Plan {
    Plan(const ResourceGatherNdStringsKernel&, sdk::PrepareContext& c)
        : dims(sdk::DimsOf(c.output(0)).begin(), sdk::DimsOf(c.output(0)).end()) {}
    std::vector<int64_t> dims;
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    View params = {};
    sdk::Check(c.services().variable_read(c.frame(), c.resource(0), &params));
    if (params.dtype != TENON_DT_STRING)
      sdk::Fail(TENON_INVALID_ARGUMENT, "the variable is ", sdk::TypeName(params.dtype), "; dtype is string");
    const NamedSlices slices(c.input_view(1), sdk::DimsOf(params), ignore_bad);
    const int64_t total = sdk::Multiply(slices.count(), slices.slice());
    if (total != sdk::Count(plan.dims))
      sdk::Fail(TENON_INTERNAL, "indices give ", total, " texts, the output has the shape ", sdk::Dims(plan.dims));
    if (slices.count() > 0 && sdk::Count(params) == 0)
      sdk::Fail(TENON_INVALID_ARGUMENT,
                "Requested more than 0 entries, but params is empty.  Params shape: ", sdk::DimsOf(params));
    sdk::StepMemory memory(c);
    std::pmr::vector<std::string_view> texts(static_cast<size_t>(total), &memory);
    sdk::CancelPoll poll(c);
    for (int64_t i = 0; i < slices.count(); ++i) {
      const int64_t at = slices.At(i);
      for (int64_t j = 0; at >= 0 && j < slices.slice(); poll(5), ++j)
        texts[static_cast<size_t>(i * slices.slice() + j)] = sdk::StringAt(params, at + j);
    }
    sdk::SetStrings(c, 0, plan.dims, texts);
  }
};

struct Put {
  template <class T>
  T operator()(T, T y) const { return y; }
};
template <bool kSubtract>
struct AddToRow {
  template <class T>
  T operator()(T x, T y) const {
    if constexpr (std::is_same_v<T, bool>) {
      return kSubtract ? x != y : x || y;
    } else if constexpr (std::is_integral_v<T> || kIsHalf<T> || std::is_floating_point_v<T>) {
      return sdk::AddOrSubtract<kSubtract>(x, y);
    } else {
      return kSubtract ? x - y : x + y;
    }
  }
};
template <bool kLargest>
struct Choose {
  template <class T>
  T operator()(T x, T y) const { return (kLargest ? x < y : y < x) ? y : x; }
};

using Ordered =
    Types<float, double, int32_t, int64_t, Half, Bfloat16, uint8_t, int8_t, int16_t, uint16_t, uint32_t, uint64_t>;

// function(Tag<T>) for every type that is added.
template <class Function>
void DispatchAdded(uint32_t dtype, Function&& function) {
  switch (dtype) {
    case TENON_DT_COMPLEX64: return function(Tag<std::complex<float>>{});
    case TENON_DT_COMPLEX128: return function(Tag<std::complex<double>>{});
    case TENON_DT_BOOL: return function(Tag<bool>{});
    default: Ordered::Dispatch(dtype, function);
  }
}

// One slice after the other, so that of two updates of one element the later is applied later.
template <class Op>
struct Scatter : Policy {
  using Policy::Policy;
  void Apply(sdk::RunContext c, const View& indices, const View& updates) const {
    sdk::CancelPoll poll(c);
    Apply(c.output_view(0), indices, updates, poll, [] {});
  }
  // begin: called when all has been checked, before anything is written.
  void Apply(const View& output, const View& indices, const View& updates, auto&& poll, const auto& begin) const {
    const NamedSlices slices = Checked(sdk::DimsOf(output), indices, updates);
    begin();
    const auto typed = [&]<class T>(Tag<T>) {
      T* to = sdk::Data<T>(output);
      const T* from = sdk::Data<const T>(updates);
      for (int64_t i = 0; i < slices.count(); ++i, from += slices.slice()) {
        poll(5 + slices.slice() / 4);
        const int64_t at = slices.At(i);
        for (int64_t j = 0; at >= 0 && j < slices.slice(); ++j) to[at + j] = Op()(to[at + j], from[j]);
      }
    };
    if constexpr (std::is_same_v<Op, Put>) {
      DispatchSize(updates.dtype, typed);
    } else if constexpr (std::is_same_v<Op, AddToRow<false>> || std::is_same_v<Op, AddToRow<true>>) {
      DispatchAdded(updates.dtype, typed);
    } else {
      Ordered::Dispatch(updates.dtype, typed);
    }
  }

  // All that indices name in a tensor of shape `dims`: each is there, and has its updates.
  NamedSlices Checked(sdk::Dims dims, const View& indices, const View& updates) const {
    const NamedSlices slices(indices, dims, ignore_bad);
    if (sdk::Multiply(slices.count(), slices.slice()) != sdk::Count(updates)) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "updates of shape ", sdk::DimsOf(updates), " do not fit indices of shape ",
                sdk::DimsOf(indices), " into a tensor of shape ", dims);
    }
    // Nothing is put into nothing, or something into something.
    const bool nothing = sdk::Count(indices) == 0;
    if (nothing != (sdk::Count(updates) == 0) || (!nothing && sdk::Count(dims) == 0)) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "indices of shape ", sdk::DimsOf(indices), " and updates of shape ",
                sdk::DimsOf(updates), " into a tensor of shape ", dims, ": some are empty and others are not");
    }
    slices.CheckAll();
    return slices;
  }
  // The same as Apply of texts: they are put, or appended to what is there.
  void ApplyTexts(const sdk::RunContext& c, sdk::Dims dims, const View& indices, const View& updates,
                  Texts& texts) const {
    const NamedSlices slices = Checked(dims, indices, updates);
    sdk::CancelPoll poll(c);
    for (int64_t i = 0; i < slices.count(); ++i) {
      const int64_t at = slices.At(i);
      for (int64_t j = 0; at >= 0 && j < slices.slice(); ++j) {
        const std::string_view update = sdk::StringAt(updates, i * slices.slice() + j);
        std::pmr::string& text = texts[static_cast<size_t>(at + j)];
        if constexpr (std::is_same_v<Op, Put>) text = update;
        else text += update;
        poll(50 + static_cast<int64_t>(update.size()));
      }
    }
  }
};

struct ScatterNdKernel : Scatter<AddToRow<false>> {
  using Scatter<AddToRow<false>>::Scatter;
  void Run(sdk::RunContext c) const {
    std::memset(c.output<void>(0), 0, static_cast<size_t>(c.output_view(0).byte_size));
    Apply(c, c.input_view(0), c.input_view(1));
  }
};

// The output may be the tensor's memory: indices are checked before it is written.
template <class Op>
struct TensorScatterKernel : Scatter<Op> {
  using Scatter<Op>::Scatter;
  void Run(sdk::RunContext c) const {
    NamedSlices(c.input_view(1), sdk::DimsOf(c.input_view(0)), this->ignore_bad).CheckAll();
    const char* from = c.input<char>(0);
    char* to = c.output<char>(0);
    if (from != to) {
      // Of strings the cells, wherever they point.
      const int64_t bytes = static_cast<int64_t>(c.output_view(0).byte_size);
      c.ParallelFor(bytes, 0.03, [&](int64_t begin, int64_t end) {
        std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
      });
    }
    this->Apply(c, c.input_view(1), c.input_view(2));
  }
};

// Slices of a variable.
template <bool kReference, class Op>
struct VariableScatterKernel : Scatter<Op> {
  explicit VariableScatterKernel(sdk::CreateContext& c) : Scatter<Op>(c), lock(sdk::UpdateLock(c)) {}
  void Run(sdk::RunContext c) const {
    tenon_resource* const handle = c.resource(0);
    sdk::Update update(c, handle, lock, c.input_view(2).dtype);
    // One that ended half-way would lose the variable's value.
    this->Apply(update.new_view(), c.input_view(1), c.input_view(2), [](int64_t) {}, [&] { update.BeginWriting(); });
    update.Commit();
    if (kReference) *c.output<tenon_resource*>(0) = handle;
  }
  uint32_t lock;
};

template <bool kReference>
struct VariableScatterStringsKernel : Scatter<Put> {
  explicit VariableScatterStringsKernel(sdk::CreateContext& c) : Scatter<Put>(c), lock(sdk::UpdateLock(c)) {}
  void Run(sdk::RunContext c) const {
    UpdateStrings(c, c.resource(0), lock, [this](const sdk::RunContext& context, const View& value, Texts& texts) {
      this->ApplyTexts(context, sdk::DimsOf(value), context.input_view(1), context.input_view(2), texts);
    });
    if (kReference) *c.output<tenon_resource*>(0) = c.resource(0);
  }
  uint32_t lock;
};

// Texts of one element are joined.
struct ScatterNdStringsKernel : Scatter<AddToRow<false>> {
  using Scatter<AddToRow<false>>::Scatter;
  struct Plan {
    Plan(const ScatterNdStringsKernel&, sdk::PrepareContext& c)
        : dims(sdk::DimsOf(c.output(0)).begin(), sdk::DimsOf(c.output(0)).end()) {}
    std::vector<int64_t> dims;
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    TextMemory memory(c);
    Texts texts(static_cast<size_t>(sdk::Count(plan.dims)), memory.get());
    ApplyTexts(c, plan.dims, c.input_view(0), c.input_view(1), texts);
    sdk::SetStrings(c, 0, plan.dims, texts);
  }
};

constexpr sdk::Traits kGather = {.constraints = sdk::Constraints<PlainConstraint<"Tparams">>::list};
constexpr sdk::Traits kPut = {.constraints = sdk::Constraints<PlainConstraint<"T">>::list, .in_place = kInPlaceFirst};
using ScatteredConstraint =
    sdk::Allowed<"T", TENON_DT_FLOAT, TENON_DT_DOUBLE, TENON_DT_INT32, TENON_DT_INT64, TENON_DT_HALF, TENON_DT_BFLOAT16,
                 TENON_DT_UINT8, TENON_DT_INT8, TENON_DT_INT16, TENON_DT_UINT16, TENON_DT_UINT32, TENON_DT_UINT64,
                 TENON_DT_COMPLEX64, TENON_DT_COMPLEX128, TENON_DT_BOOL>;
constexpr sdk::Traits kZeros = {.constraints = sdk::Constraints<ScatteredConstraint>::list};
constexpr sdk::Traits kAdded = {.constraints = sdk::Constraints<ScatteredConstraint>::list, .in_place = kInPlaceFirst};
constexpr sdk::Traits kPutThere = {.constraints = sdk::Constraints<PlainConstraint<"T">>::list};
constexpr sdk::Traits kOrderedThere = {.constraints = sdk::Constraints<Ordered::Constraint<"T">>::list};
constexpr sdk::Traits kOrdered = {.constraints = sdk::Constraints<Ordered::Constraint<"T">>::list,
                                  .in_place = kInPlaceFirst};

}  // namespace

TENON_CPU_KERNEL(GatherNd) = CpuKernel<GatherNdKernel>("GatherNd", kGather);
TENON_CPU_KERNEL(ResourceGatherNd) = CpuKernel<ResourceGatherNdKernel>(
    "ResourceGatherNd", {.constraints = sdk::Constraints<PlainConstraint<"dtype">>::list});
TENON_CPU_KERNEL(ResourceGatherNdString) = CpuKernel<ResourceGatherNdStringsKernel>(
    "ResourceGatherNd",
    {.constraints = sdk::Constraints<sdk::Allowed<"dtype", TENON_DT_STRING>>::list, .dynamic_outputs = 1});
TENON_CPU_KERNEL(GatherNdString) = CpuStringKernel<GatherNdKernel, "Tparams">("GatherNd");
TENON_CPU_KERNEL(ScatterNdString) = CpuKernel<ScatterNdStringsKernel>(
    "ScatterNd", {.constraints = sdk::Constraints<sdk::Allowed<"T", TENON_DT_STRING>>::list, .dynamic_outputs = 1});
TENON_CPU_KERNEL(ScatterNdUpdateString) = CpuKernel<VariableScatterStringsKernel<true>>(
    "ScatterNdUpdate", {.constraints = sdk::Constraints<sdk::Allowed<"T", TENON_DT_STRING>>::list});
TENON_CPU_KERNEL(ResourceScatterNdUpdateString) = CpuKernel<VariableScatterStringsKernel<false>>(
    "ResourceScatterNdUpdate", {.constraints = sdk::Constraints<sdk::Allowed<"T", TENON_DT_STRING>>::list});
TENON_CPU_KERNEL(ScatterNd) = CpuKernel<ScatterNdKernel>("ScatterNd", kZeros);
TENON_CPU_KERNEL(TensorScatterUpdate) = CpuKernel<TensorScatterKernel<Put>>("TensorScatterUpdate", kPut);
TENON_CPU_KERNEL(TensorScatterUpdateString) = CpuStringKernel<TensorScatterKernel<Put>>("TensorScatterUpdate");
TENON_CPU_KERNEL(TensorScatterAdd) = CpuKernel<TensorScatterKernel<AddToRow<false>>>("TensorScatterAdd", kAdded);
TENON_CPU_KERNEL(TensorScatterSub) = CpuKernel<TensorScatterKernel<AddToRow<true>>>("TensorScatterSub", kAdded);
TENON_CPU_KERNEL(ScatterNdUpdate) = CpuKernel<VariableScatterKernel<true, Put>>("ScatterNdUpdate", kPutThere);
TENON_CPU_KERNEL(ScatterNdAdd) = CpuKernel<VariableScatterKernel<true, AddToRow<false>>>("ScatterNdAdd", kZeros);
TENON_CPU_KERNEL(ScatterNdSub) = CpuKernel<VariableScatterKernel<true, AddToRow<true>>>("ScatterNdSub", kZeros);
TENON_CPU_KERNEL(ScatterNdMin) = CpuKernel<VariableScatterKernel<true, Choose<false>>>("ScatterNdMin", kOrderedThere);
TENON_CPU_KERNEL(ScatterNdMax) = CpuKernel<VariableScatterKernel<true, Choose<true>>>("ScatterNdMax", kOrderedThere);
TENON_CPU_KERNEL(ResourceScatterNdUpdate) = CpuKernel<VariableScatterKernel<false, Put>>("ResourceScatterNdUpdate",
                                                                                         kPutThere);
TENON_CPU_KERNEL(ResourceScatterNdAdd) =
    CpuKernel<VariableScatterKernel<false, AddToRow<false>>>("ResourceScatterNdAdd", kZeros);
TENON_CPU_KERNEL(ResourceScatterNdSub) = CpuKernel<VariableScatterKernel<false, AddToRow<true>>>("ResourceScatterNdSub",
                                                                                                 kZeros);
TENON_CPU_KERNEL(ResourceScatterNdMin) = CpuKernel<VariableScatterKernel<false, Choose<false>>>("ResourceScatterNdMin",
                                                                                                kOrderedThere);
TENON_CPU_KERNEL(ResourceScatterNdMax) = CpuKernel<VariableScatterKernel<false, Choose<true>>>("ResourceScatterNdMax",
                                                                                               kOrderedThere);
TENON_CPU_KERNEL(TensorScatterMin) = CpuKernel<TensorScatterKernel<Choose<false>>>("TensorScatterMin", kOrdered);
TENON_CPU_KERNEL(TensorScatterMax) = CpuKernel<TensorScatterKernel<Choose<true>>>("TensorScatterMax", kOrdered);

}  // namespace tenon::cpu
