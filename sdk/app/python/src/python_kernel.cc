// SPDX-License-Identifier: Apache-2.0
// The kernel of an op that a Python function computes: NumPy arrays in and out, with the interpreter's lock.
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "defined_op.h"
#include "dtype.h"
#include "later.h"
#include "numpy.h"
#include "tensor.h"

// The node of such an op.
struct tenon_kernel {
  const tenon::python::DefinedOp* op = nullptr;
  std::string what;  // "op 'Mine>Sin'"
  std::string node;
  nanobind::object attributes;
  std::vector<tenon::host::DType> outputs;
};

namespace tenon::python {
namespace {

tenon_status* Create(const tenon_create_args* args, tenon_kernel** out_kernel) {
  const auto& op = *reinterpret_cast<const DefinedOp*>(args->self);
  const std::string what = "op '" + op.name + "'";
  const WithLock locked;
  try {
    auto made =
        std::make_unique<tenon_kernel>(tenon_kernel{&op,
                                                    what,
                                                    std::string(host::Text(args->node_services->name(args->node))),
                                                    AttributesOf(op, *args->node_services, args->node),
                                                    {}});
    for (int32_t i = 0; i < args->node_services->output_count(args->node); ++i)
      made->outputs.push_back(static_cast<DType>(args->node_services->output_dtype(args->node, i)));
    *out_kernel = made.release();
    return nullptr;
  } catch (...) {
    return StatusOfThrown(what);
  }
}

void Destroy(tenon_kernel* kernel) {
  const std::unique_ptr<tenon_kernel> owned(kernel);
  LetGoLater(std::move(owned->attributes));
}

char* DataOf(const tenon_tensor_view& view) { return static_cast<char*>(view.dl.data) + view.dl.byte_offset; }

// ---- In ----

// Owns one reference to a buffer of the engine's.
struct Kept {
  explicit Kept(tenon_tensor_view its_view) : view(its_view) {}
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;
  ~Kept() {
    if (view.buffer != nullptr) TheHost().buffer_release(view.buffer);
  }
  tenon_tensor_view view;
};

// An array that may be kept: over the buffer, which it keeps.
nb::object In(tenon_frame* frame, int32_t index) {
  tenon_tensor_view view = {};
  Check(Status::Take(frame->services->retain_input(frame, index, &view)));
  auto kept = std::make_unique<Kept>(view);
  if (view.dtype == TENON_DT_STRING) return FromTensor(Take(Tensor::Copy(view)), nullptr);
  return ArrayOver(view, nb::capsule(kept.release(), [](void* its) noexcept { delete static_cast<Kept*>(its); }));
}

// ---- Out ----

void StringsOut(tenon_frame* frame, int32_t index, const FedValue& value, tenon_shape shape) {
  const auto count = value.tensor.element_count();
  uint64_t bytes = 0;
  for (int64_t i = 0; i < count; ++i) bytes += value.tensor.string(static_cast<uint64_t>(i)).size();
  Check(Status::Take(frame->services->alloc_output(frame, index, shape, bytes)));
  char* const base = DataOf(*frame->outputs[index]);
  auto* const cells = reinterpret_cast<tenon_string_cell*>(base);
  uint64_t at = static_cast<uint64_t>(count) * sizeof(tenon_string_cell);
  for (int64_t i = 0; i < count; ++i) {
    const std::string_view text = value.tensor.string(static_cast<uint64_t>(i));
    cells[i] = {at, text.size()};
    std::memcpy(base + at, text.data(), text.size());
    at += text.size();
  }
}

void Out(tenon_frame* frame, int32_t index, DType dtype, nb::handle given) {
  const FedValue value = ToView(given, dtype, "output " + std::to_string(index));
  const tenon_tensor_view view = value.view.c_view();
  const tenon_shape shape = {view.dl.shape, view.dl.ndim, 0};
  if (dtype == DType::kString) return StringsOut(frame, index, value, shape);
  if (view.dtype != static_cast<uint32_t>(dtype))  // such as a tensor of a library's own
    FailInvalid("output " + std::to_string(index) + " is " + NameOf(dtype) + "; found " +
                NameOf(static_cast<DType>(view.dtype)));
  Check(Status::Take(frame->services->alloc_output(frame, index, shape, 0)));
  std::memcpy(DataOf(*frame->outputs[index]), DataOf(view), view.byte_size);
}

tenon_status* Run(tenon_kernel* kernel, const tenon_prepared*, tenon_frame* frame) {
  const WithLock locked;
  try {
    nb::list inputs;
    for (int32_t i = 0; i < frame->input_count; ++i) inputs.append(In(frame, i));
    const nb::object outputs = kernel->op->run(inputs, kernel->attributes);
    if (static_cast<int32_t>(nb::len(outputs)) != frame->output_count)
      FailInvalid("it gave " + std::to_string(nb::len(outputs)) + " values for " + std::to_string(frame->output_count) +
                  " outputs");
    for (int32_t i = 0; i < frame->output_count; ++i)
      Out(frame, i, kernel->outputs[static_cast<size_t>(i)], outputs[i]);
    return nullptr;
  } catch (...) {
    return StatusOfThrown(kernel->what, kernel->node);
  }
}

}  // namespace

void UsePythonKernel(tenon_kernel_registration* kernel) {
  kernel->create = &Create;
  kernel->destroy = &Destroy;
  kernel->run = &Run;
  kernel->dynamic_outputs = TENON_DYNAMIC_ALL;
  kernel->retained_inputs = UINT64_MAX;
}

}  // namespace tenon::python
