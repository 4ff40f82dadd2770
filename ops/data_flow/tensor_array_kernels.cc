// SPDX-License-Identifier: Apache-2.0
// Kernels of tensor arrays. They run on the host, wherever the values come from.
#include "tensor_array.h"

#include "tenon/sdk/kernel/resource.h"

namespace tenon::ops {
using namespace sdk;

namespace {

constexpr tenon_span kArrayType = TENON_SPAN("tenon.TensorArray");

TensorArray& ArrayOf(const RunContext& c) { return ObjectOf<TensorArray>(c, c.resource(0), kArrayType); }

// A handle for the array, which lives until the step ends. In a loop each turn has its own.
tenon_resource* Keep(const RunContext& c, std::unique_ptr<TensorArray> array) {
  tenon_resource* handle = nullptr;
  Check(c.services().step_resource(c.frame(), ToSpan("tensor_array"), &handle));
  (void)ObjectOf<TensorArray>(c, handle, kArrayType, [&array] { return std::move(array); });
  return handle;
}

struct MakeArray {
  explicit MakeArray(CreateContext& c) {
    options.name = std::string(c.String("tensor_array_name"));
    if (options.name.empty()) options.name = std::string(c.name());
    options.dtype = c.Type("dtype");
    options.element_shape = c.ShapeAttr("element_shape");
    options.dynamic_size = c.Bool("dynamic_size");
    options.clear_after_read = c.Bool("clear_after_read");
    options.identical_element_shapes = c.Bool("identical_element_shapes");
  }
  void Run(RunContext c) const {
    *c.output<tenon_resource*>(0) = Keep(c, std::make_unique<TensorArray>(c, options, *c.input<int32_t>(0)));
    *c.output<float>(1) = 0;
  }
  TensorArrayOptions options;
};

struct GradientArray {
  explicit GradientArray(CreateContext& c) : source(c.String("source")) {}
  void Run(RunContext c) const {
    *c.output<tenon_resource*>(0) = ArrayOf(c).Gradient(
        c, source,
        [](void* argument, std::unique_ptr<TensorArray> array, tenon_resource** out_handle) {
          *out_handle = Keep(*static_cast<RunContext*>(argument), std::move(array));
        },
        &c);
    *c.output<float>(1) = *c.input<float>(1);
  }
  std::string source;
};

struct Write {
  void Run(RunContext c) const {
    TensorArray& array = ArrayOf(c);
    array.CheckType(c.input_view(2).dtype);
    array.Write(c, *c.input<int32_t>(1), Component(KeptTensor::OfInput(c, 2)));
    *c.output<float>(0) = *c.input<float>(3);
  }
};

struct Read {
  explicit Read(CreateContext& c) : dtype(c.Type("dtype")) {}
  void Run(RunContext c) const {
    TensorArray& array = ArrayOf(c);
    array.CheckType(dtype);
    array.Read(c, 0, *c.input<int32_t>(1));
  }
  uint32_t dtype;
};

struct Gather {
  explicit Gather(CreateContext& c) : dtype(c.Type("dtype")) {}
  void Run(RunContext c) const {
    TensorArray& array = ArrayOf(c);
    array.CheckType(dtype);
    array.Gather(c, IndicesOf(c, 1));
  }
  uint32_t dtype;
};

struct ArrayScatter {
  void Run(RunContext c) const {
    TensorArray& array = ArrayOf(c);
    const tenon_tensor_view& value = c.input_view(2);
    array.CheckType(value.dtype);
    const std::vector<int64_t> indices = IndicesOf(c, 1);
    if (value.dl.ndim == 0 || value.dl.shape[0] != static_cast<int64_t>(indices.size()))
      Fail(TENON_INVALID_ARGUMENT, "value has ", value.dl.ndim == 0 ? 0 : value.dl.shape[0], " rows for ",
           indices.size(), " indices");
    for (size_t row = 0; row < indices.size(); ++row)
      array.Write(c, indices[row], Component(c, value, static_cast<int64_t>(row)));
    *c.output<float>(0) = *c.input<float>(3);
  }
};

struct JoinElements {
  explicit JoinElements(CreateContext& c) : dtype(c.Type("dtype")) {}
  void Run(RunContext c) const {
    TensorArray& array = ArrayOf(c);
    array.CheckType(dtype);
    array.Concat(c);
  }
  uint32_t dtype;
};

struct ArraySplit {
  void Run(RunContext c) const {
    TensorArray& array = ArrayOf(c);
    const tenon_tensor_view& value = c.input_view(1);
    array.CheckType(value.dtype);
    const auto* lengths = c.input<int64_t>(2);
    const int64_t count = Count(DimsOf(c.input_view(2))), rows = value.dl.ndim == 0 ? 0 : value.dl.shape[0];
    const std::vector<int64_t> dims(value.dl.shape, value.dl.shape + value.dl.ndim);
    int64_t row = 0;
    for (int64_t i = 0; i < count; ++i) {
      if (lengths[i] < 0 || lengths[i] > rows - row)
        Fail(TENON_INVALID_ARGUMENT, "length ", i, " is ", lengths[i], "; ", rows - row, " of ", rows,
             " rows are left");
      std::vector<int64_t> part = dims;
      part[0] = lengths[i];
      array.Write(c, i, Component(c, value, rows == 0 ? 0 : row * (Count(Dims(dims)) / rows), part));
      row += lengths[i];
    }
    if (row != rows || (count != array.size()))
      Fail(TENON_INVALID_ARGUMENT, count, " lengths take ", row, " of ", rows, " rows for an array of ", array.size());
    *c.output<float>(0) = *c.input<float>(3);
  }
};

struct Size {
  void Run(RunContext c) const { *c.output<int32_t>(0) = static_cast<int32_t>(ArrayOf(c).size()); }
};

struct Close {
  void Run(RunContext c) const { ArrayOf(c).Close(); }
};

constexpr Traits kTensorArrays = {.flags = 0};
constexpr Traits kTensorArraysGive = {.flags = 0, .dynamic_outputs = TENON_DYNAMIC_ALL};

}  // namespace

TENON_KERNEL(kTensorArrayV3Kernel) = Registration<MakeArray>("TensorArrayV3", {.flags = TENON_KERNEL_STATEFUL});
TENON_KERNEL(kTensorArrayGradV3Kernel) =
    Registration<GradientArray>("TensorArrayGradV3", {.flags = TENON_KERNEL_STATEFUL});
TENON_KERNEL(kTensorArrayWriteV3Kernel) =
    Registration<Write>("TensorArrayWriteV3", {.flags = 0, .retained_inputs = 4});
TENON_KERNEL(kTensorArrayReadV3Kernel) = Registration<Read>("TensorArrayReadV3", kTensorArraysGive);
TENON_KERNEL(kTensorArrayGatherV3Kernel) = Registration<Gather>("TensorArrayGatherV3", kTensorArraysGive);
TENON_KERNEL(kTensorArrayScatterV3Kernel) = Registration<ArrayScatter>("TensorArrayScatterV3", kTensorArrays);
TENON_KERNEL(kTensorArrayConcatV3Kernel) = Registration<JoinElements>("TensorArrayConcatV3", kTensorArraysGive);
TENON_KERNEL(kTensorArraySplitV3Kernel) = Registration<ArraySplit>("TensorArraySplitV3", kTensorArrays);
TENON_KERNEL(kTensorArraySizeV3Kernel) = Registration<Size>("TensorArraySizeV3", kTensorArrays);
TENON_KERNEL(kTensorArrayCloseV3Kernel) = Registration<Close>("TensorArrayCloseV3", kTensorArrays);

}  // namespace tenon::ops
