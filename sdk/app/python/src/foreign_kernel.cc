// SPDX-License-Identifier: Apache-2.0
// A function of apache-tvm-ffi as the kernel of an op: called through its C ABI, without the interpreter's lock, since
// no Python is on the way.
//
// It gets the inputs, the outputs, which it writes, then the attributes that are numbers, truth values or texts, in the
// order in which the op declares them; and gives nothing back. Tensors come as DLTensor* that end with the call.
#include <tvm/ffi/c_api.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "defined_op.h"

namespace tenon::python {
namespace {

struct Foreign {
  const DefinedOp* op;
  std::string what;
  std::vector<TVMFFIAny> attributes;
  std::vector<std::unique_ptr<std::string>> texts;  // that they point to
};
Foreign& Of(tenon_kernel* kernel) { return *reinterpret_cast<Foreign*>(kernel); }

TVMFFIAny AnyOf(int32_t type) {
  TVMFFIAny any = {};
  any.type_index = type;
  return any;
}

// Types are in the tensors themselves.
void AddAttribute(const tenon_attr_value& value, Foreign* to) {
  TVMFFIAny any = AnyOf(kTVMFFINone);
  switch (value.kind) {
    case TENON_ATTR_INT:
      any = AnyOf(kTVMFFIInt);
      any.v_int64 = *static_cast<const int64_t*>(value.data);
      break;
    case TENON_ATTR_FLOAT:
      any = AnyOf(kTVMFFIFloat);
      any.v_float64 = *static_cast<const float*>(value.data);
      break;
    case TENON_ATTR_BOOL:
      any = AnyOf(kTVMFFIBool);
      any.v_int64 = *static_cast<const uint8_t*>(value.data) != 0 ? 1 : 0;
      break;
    case TENON_ATTR_STRING:
      any = AnyOf(kTVMFFIRawStr);
      to->texts.push_back(std::make_unique<std::string>(host::Text(*static_cast<const tenon_span*>(value.data))));
      any.v_c_str = to->texts.back()->c_str();
      break;
    default:
      return;
  }
  to->attributes.push_back(any);
}

tenon_status* Create(const tenon_create_args* args, tenon_kernel** out_kernel) {
  const auto& op = *reinterpret_cast<const DefinedOp*>(args->self);
  try {
    auto made = std::make_unique<Foreign>(Foreign{&op, "op '" + op.name + "'", {}, {}});
    for (const std::string& name : op.attr_names) {
      tenon_attr_value value = {};
      if (tenon_status* failed = args->node_services->attr(args->node, host::Span(name), &value); failed != nullptr)
        return failed;
      AddAttribute(value, made.get());
    }
    *out_kernel = reinterpret_cast<tenon_kernel*>(made.release());
    return nullptr;
  } catch (const std::exception& error) {
    return TheHost().status_new(TENON_RESOURCE_EXHAUSTED, host::Span(error.what()));
  }
}

void Destroy(tenon_kernel* kernel) { delete &Of(kernel); }

// A tensor as such functions want it: with strides.
struct Argument {
  DLTensor tensor;
  std::vector<int64_t> strides;

  explicit Argument(const tenon_tensor_view& view) {
    static_assert(sizeof(DLTensor) == sizeof(tenon_dl_tensor));
    std::memcpy(&tensor, &view.dl, sizeof(tensor));
    strides.resize(static_cast<size_t>(std::max(view.dl.ndim, 0)));
    int64_t stride = 1;
    for (size_t i = strides.size(); i-- > 0; stride *= view.dl.shape[i]) strides[i] = stride;
    tensor.strides = strides.data();
  }
  TVMFFIAny any() {
    TVMFFIAny it = AnyOf(kTVMFFIDLTensorPtr);
    it.v_ptr = &tensor;
    return it;
  }
};

std::string Bytes(const TVMFFIByteArray& bytes) { return std::string(bytes.data, bytes.size); }

tenon_status* ErrorOf(const Foreign& kernel) {
  TVMFFIObjectHandle raised = nullptr;
  reinterpret_cast<decltype(&TVMFFIErrorMoveFromRaised)>(kernel.op->foreign.take_error)(&raised);
  std::string text = kernel.what + " failed and does not say why";
  uint32_t code = TENON_UNKNOWN;
  if (raised != nullptr) {
    const TVMFFIErrorCell& cell = *TVMFFIErrorGetCellPtr(raised);
    const std::string kind = Bytes(cell.kind);
    if (kind == "ValueError" || kind == "TypeError") code = TENON_INVALID_ARGUMENT;
    text = kernel.what + ": " + kind + ": " + Bytes(cell.message);
    reinterpret_cast<decltype(&TVMFFIObjectDecRef)>(kernel.op->foreign.release)(raised);
  }
  return TheHost().status_new(code, host::Span(text));
}

tenon_status* Call(const Foreign& kernel, std::vector<TVMFFIAny>* arguments) {
  const ForeignFunction& foreign = kernel.op->foreign;
  TVMFFIAny result = AnyOf(kTVMFFINone);
  if (reinterpret_cast<decltype(&TVMFFIFunctionCall)>(foreign.call)(
          reinterpret_cast<TVMFFIObjectHandle>(foreign.function), arguments->data(),
          static_cast<int32_t>(arguments->size()), &result) != 0)
    return ErrorOf(kernel);
  if (result.type_index >= kTVMFFIStaticObjectBegin)
    reinterpret_cast<decltype(&TVMFFIObjectDecRef)>(foreign.release)(result.v_obj);
  if (result.type_index == kTVMFFINone) return nullptr;
  const std::string text =
      kernel.what + ": its function returned a value; it gets the outputs behind the inputs, and writes them";
  return TheHost().status_new(TENON_INVALID_ARGUMENT, host::Span(text));
}

tenon_status* Run(tenon_kernel* kernel, const tenon_prepared*, tenon_frame* frame) {
  const Foreign& foreign = Of(kernel);
  try {
    std::vector<Argument> tensors;
    tensors.reserve(static_cast<size_t>(frame->input_count + frame->output_count));
    for (int32_t i = 0; i < frame->input_count; ++i) tensors.emplace_back(*frame->inputs[i]);
    for (int32_t i = 0; i < frame->output_count; ++i) tensors.emplace_back(*frame->outputs[i]);
    std::vector<TVMFFIAny> arguments;
    for (Argument& tensor : tensors) arguments.push_back(tensor.any());
    arguments.insert(arguments.end(), foreign.attributes.begin(), foreign.attributes.end());
    return Call(foreign, &arguments);
  } catch (const std::exception& error) {
    return TheHost().status_new(TENON_UNKNOWN, host::Span(foreign.what + ": " + error.what()));
  }
}

}  // namespace

void UseForeignKernel(tenon_kernel_registration* kernel) {
  kernel->create = &Create;
  kernel->destroy = &Destroy;
  kernel->run = &Run;
}

}  // namespace tenon::python
