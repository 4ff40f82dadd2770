// SPDX-License-Identifier: Apache-2.0
// Tensors to and from DLPack's managed tensors.
#include "core/exec/device/device.h"
#include "core/exec/device/environment.h"
#include "sdk/app/host/objects.h"

using namespace tenon;  // NOLINT: this file implements C functions of the global namespace

namespace {

template <typename Managed>
void Delete(void* managed) {
  auto* self = static_cast<Managed*>(managed);
  if (self->deleter != nullptr) self->deleter(self);
}

// The elements stand one after the other: no strides, or those of a contiguous tensor.
bool IsContiguous(const tenon_dl_tensor& dl) {
  if (dl.strides == nullptr) return true;
  int64_t expected = 1;
  for (int32_t i = dl.ndim; i-- > 0;) {
    if (dl.shape[i] == 0) return true;
    if (dl.shape[i] != 1 && dl.strides[i] != expected) return false;
    expected *= dl.shape[i];
  }
  return true;
}

// device: whose memory it should be; nullptr: the host's.
Status CheckPlace(const tenon_dl_tensor& dl, const exec::Device* device) {
  tenon_tensor_view view{};
  view.dl = dl;
  if (exec::LiesIn(view, device)) return Status::Ok();
  const std::string found =
      StrCat("the DLPack tensor stands on a device of type ", dl.device_type, ", number ", dl.device_id);
  if (device == nullptr)
    return Unimplemented(
        StrCat(found, "; give it to a session, with the name of its device, or copy it to host memory first"));
  return InvalidArgument(StrCat(found, "; ", device->name, " is of type ", device->properties.dl_device_type,
                                ", number ", device->properties.dl_device_id));
}

Status Check(const tenon_dl_tensor& dl, const exec::Device* device, DType* out_dtype, Shape* out_shape) {
  TENON_CHECK(dl);  // the rank is a possible one before dims are copied
  TENON_RETURN_IF_ERROR(CheckPlace(dl, device));
  *out_dtype = FromDlType(dl.dtype);
  if (*out_dtype == TENON_DT_INVALID)
    return InvalidArgument(StrCat("the DLPack tensor has elements of code ", int{dl.dtype.code}, ", ",
                                  int{dl.dtype.bits}, " bits and ", dl.dtype.lanes, " lanes, which no type here has"));
  *out_shape = Shape(tenon_shape{dl.shape, dl.ndim, 0});
  TENON_RETURN_IF_ERROR(out_shape->Validate());
  if (!out_shape->fully_known())
    return InvalidArgument(StrCat("the DLPack tensor has the shape ", out_shape->ToString()));
  TENON_ASSIGN_OR_RETURN(const int64_t bytes, ByteSize(*out_dtype, *out_shape));
  if (dl.data == nullptr && bytes > 0) return InvalidArgument("the DLPack tensor has no data");
  return host::ToStatus(arguments::FaultOfExtent(dl, BytesOfElements(*out_dtype, 1)).Within("dl_tensor"));
}

template <typename Managed>
Status FromManaged(Managed* managed, const exec::Device* device, tenon_tensor** out_tensor) {
  const tenon_dl_tensor& dl = managed->dl_tensor;
  DType dtype;
  Shape shape;
  TENON_RETURN_IF_ERROR(Check(dl, device, &dtype, &shape));
  TENON_ASSIGN_OR_RETURN(const int64_t bytes, ByteSize(dtype, shape));
  if (!IsContiguous(dl)) {
    if (SizeOf(dtype) == 0)
      return Unimplemented(
          StrCat("the DLPack tensor of ", TypeName(dtype), " has strides; let its library make it contiguous"));
    if (device != nullptr) return Unimplemented("the DLPack tensor has strides; let its library make it contiguous");
    tenon_tensor_view view = MakeView(dtype, shape.c(), dl.data, static_cast<uint64_t>(bytes), nullptr);
    view.dl = dl;
    TENON_ASSIGN_OR_RETURN(Tensor copy, Tensor::CopyOf(GlobalPool(), view));
    *out_tensor = new tenon_tensor(std::move(copy));
    Delete<Managed>(managed);
    return Status::Ok();
  }
  void* data = static_cast<char*>(dl.data) + dl.byte_offset;
  Buffer* buffer = GlobalPool()->Wrap(data, static_cast<uint64_t>(bytes), shape.c(), &Delete<Managed>, managed);
  *out_tensor = new tenon_tensor(Tensor(dtype, std::move(shape), buffer), device);
  return Status::Ok();
}

Status CheckVersion(const tenon_dl_managed_tensor_versioned& managed) {
  if (managed.version_major == TENON_DLPACK_MAJOR) return Status::Ok();
  return Unimplemented(StrCat("a DLPack tensor of version ", managed.version_major, ".", managed.version_minor,
                              "; this library knows version ", TENON_DLPACK_MAJOR));
}

// Of that device's memory; a device that runs on the host's memory has the host's.
template <typename Managed>
Status FromManagedOn(tenon_session* session, tenon_span name, Managed* managed, tenon_tensor** out_tensor) {
  TENON_ASSIGN_OR_RETURN(const int32_t found, session->session->FindDevice(View(name)));
  const exec::SessionDevice& device = session->session->device(found);
  return FromManaged(managed, device.memory == 0 ? nullptr : device.device, out_tensor);
}

template <typename Managed>
void Forget(Managed* self) {
  tenon_tensor_release(static_cast<tenon_tensor*>(self->manager_ctx));
  delete self;
}

template <typename Managed>
Status ToManaged(tenon_tensor* tensor, Managed** out_managed) {
  if (FromDlType(tensor->view.dl.dtype) == TENON_DT_INVALID)
    return InvalidArgument(
        StrCat("a tensor of ", TypeName(tensor->tensor.dtype()), " cannot be shared through DLPack"));
  auto* managed = new Managed{};
  managed->dl_tensor = tensor->view.dl;
  managed->manager_ctx = tensor;
  managed->deleter = &Forget<Managed>;
  tenon_tensor_retain(tensor);
  *out_managed = managed;
  return Status::Ok();
}

}  // namespace

extern "C" {

tenon_status* tenon_tensor_from_dlpack(tenon_dl_managed_tensor* managed, tenon_tensor** out_tensor) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(managed, out_tensor);
    return FromManaged(managed, nullptr, out_tensor);
  });
}

tenon_status* tenon_tensor_from_dlpack_versioned(tenon_dl_managed_tensor_versioned* managed,
                                                 tenon_tensor** out_tensor) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(managed, out_tensor);
    TENON_RETURN_IF_ERROR(CheckVersion(*managed));
    return FromManaged(managed, nullptr, out_tensor);
  });
}

tenon_status* tenon_session_tensor_from_dlpack(tenon_session* session, tenon_span device,
                                               tenon_dl_managed_tensor* managed, tenon_tensor** out_tensor) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(session, device, managed, out_tensor);
    return FromManagedOn(session, device, managed, out_tensor);
  });
}

tenon_status* tenon_session_tensor_from_dlpack_versioned(tenon_session* session, tenon_span device,
                                                         tenon_dl_managed_tensor_versioned* managed,
                                                         tenon_tensor** out_tensor) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(session, device, managed, out_tensor);
    TENON_RETURN_IF_ERROR(CheckVersion(*managed));
    return FromManagedOn(session, device, managed, out_tensor);
  });
}

tenon_status* tenon_tensor_to_dlpack(tenon_tensor* tensor, tenon_dl_managed_tensor** out_managed) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(tensor, out_managed);
    return ToManaged(tensor, out_managed);
  });
}

tenon_status* tenon_tensor_to_dlpack_versioned(tenon_tensor* tensor, tenon_dl_managed_tensor_versioned** out_managed) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(tensor, out_managed);
    TENON_RETURN_IF_ERROR(ToManaged(tensor, out_managed));
    (*out_managed)->version_major = TENON_DLPACK_MAJOR;
    (*out_managed)->flags = TENON_DLPACK_READ_ONLY;
    return Status::Ok();
  });
}

}  // extern "C"
