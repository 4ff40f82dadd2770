// SPDX-License-Identifier: Apache-2.0
// Statuses, texts and tensors of app.h.
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "core/exec/device/device.h"
#include "sdk/app/host/objects.h"

using namespace tenon;  // NOLINT: this file implements C functions of the global namespace
using host::List, host::Ranked;

tenon_tensor::tenon_tensor(Tensor value, const exec::Device* in)
    : tensor(std::move(value)), device(in), view(tensor.view()) {
  if (device != nullptr) exec::MarkDevice(&view, *device);
}

extern "C" {

tenon_span tenon_version(void) { return TENON_SPAN(TENON_PROJECT_VERSION); }
uint32_t tenon_status_code(const tenon_status* status) { return status == nullptr ? TENON_OK : status->code; }
tenon_span tenon_status_message(const tenon_status* status) {
  return status == nullptr ? tenon_span{"", 0} : Span(status->message);
}
tenon_span tenon_status_code_name(uint32_t code) { return Span(CodeName(static_cast<Code>(code))); }
void tenon_status_release(tenon_status* status) { ReleaseStatus(status); }
tenon_status* tenon_status_create(uint32_t code, tenon_span message) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(message);
    return Status(code > TENON_UNAUTHENTICATED ? Code::kUnknown : static_cast<Code>(code), std::string(View(message)));
  });
}

tenon_span tenon_text_span(const tenon_text* text) { return text == nullptr ? tenon_span{"", 0} : Span(text->text); }
tenon_text* tenon_text_create(tenon_span text) {
  if (TENON_FAULT_AMONG(text)) return nullptr;
  try {
    return new tenon_text{std::string(View(text))};
  } catch (...) {
    return nullptr;
  }
}
void tenon_text_release(tenon_text* text) { delete text; }

tenon_status* tenon_tensor_create(uint32_t dtype, tenon_shape shape, const void* data, uint64_t bytes,
                                  tenon_tensor** out_tensor) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(Ranked(shape), out_tensor);
    if (!IsPlain(dtype)) return InvalidArgument(StrCat("a tensor of ", TypeName(dtype), " cannot be made from bytes"));
    TENON_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(GlobalPool(), dtype, Shape(shape)));
    if (data == nullptr) {
      std::memset(tensor.data(), 0, tensor.byte_size());
    } else {
      if (bytes != tensor.byte_size())
        return InvalidArgument(StrCat(TypeName(dtype), tensor.shape().ToString(), " has ", tensor.byte_size(),
                                      " bytes, ", bytes, " were given"));
      if (bytes > 0) std::memcpy(tensor.data(), data, bytes);
    }
    *out_tensor = new tenon_tensor(std::move(tensor));
    return Status::Ok();
  });
}

tenon_status* tenon_tensor_create_strings(tenon_shape shape, const tenon_span* strings, uint64_t count,
                                          tenon_tensor** out_tensor) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(Ranked(shape), out_tensor);
    // The shape is a possible one, and the count its own, before a string is looked at.
    TENON_ASSIGN_OR_RETURN(const int64_t bytes, ByteSize(TENON_DT_STRING, Shape(shape)));
    const uint64_t elements = static_cast<uint64_t>(bytes) / sizeof(tenon_string_cell);
    if (count != elements)
      return InvalidArgument(StrCat("shape ", Shape(shape).ToString(), " needs ", elements, " strings, got ", count));
    TENON_CHECK(List(strings, count));
    TENON_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Strings(GlobalPool(), Shape(shape), host::Names(strings, count)));
    *out_tensor = new tenon_tensor(std::move(tensor));
    return Status::Ok();
  });
}

const tenon_tensor_view* tenon_tensor_get_view(const tenon_tensor* tensor) {
  return tensor == nullptr ? nullptr : &tensor->view;
}

tenon_span tenon_tensor_string(const tenon_tensor* tensor, uint64_t index) {
  if (tensor == nullptr || tensor->tensor.dtype() != TENON_DT_STRING ||
      index >= static_cast<uint64_t>(tensor->tensor.num_elements()))
    return {"", 0};
  return Span(tensor->tensor.string(static_cast<int64_t>(index)));
}

void tenon_tensor_retain(tenon_tensor* tensor) {
  if (tensor != nullptr) tensor->references.fetch_add(1, std::memory_order_relaxed);
}
void tenon_tensor_release(tenon_tensor* tensor) {
  if (tensor != nullptr && tensor->references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete tensor;
}

tenon_span tenon_dtype_name(uint32_t dtype) {
  // Spans live for ever. Of vendors' types no more than a program can mean.
  static std::mutex* const mutex = new std::mutex;
  static auto* const names = new std::map<uint32_t, std::string>;
  constexpr size_t kMost = 4096;
  if (!IsValidType(dtype) || IsRef(dtype)) dtype = TENON_DT_INVALID;
  std::lock_guard lock(*mutex);
  if (const auto it = names->find(dtype); it != names->end()) return Span(it->second);
  return names->size() < kMost ? Span(names->emplace(dtype, TypeName(dtype)).first->second) : Span("vendor");
}
uint32_t tenon_dtype_from_name(tenon_span name) {
  return TENON_FAULT_AMONG(name) ? TENON_DT_INVALID : TypeFromName(View(name));
}
uint64_t tenon_dtype_size(uint32_t dtype) { return SizeOf(dtype); }

}  // extern "C"
