// SPDX-License-Identifier: Apache-2.0
#include "core/exec/resources.h"

#include <cstring>

#include "tenon/kernel.h"

tenon_resource::~tenon_resource() {
  if (value != nullptr) tenon::Release(value);
  if (spare != nullptr) tenon::Release(spare);
  if (object != nullptr && destroy != nullptr) destroy(object);
}

namespace tenon::exec {
namespace {

std::string Describe(const Resource& resource) {
  return StrCat(resource.type.empty() ? "resource" : resource.type, " '",
                resource.container.empty() ? "" : resource.container + "/", resource.name, "'");
}

tenon_shape DimsOf(const Buffer* buffer) { return {buffer->dims, buffer->rank, 0}; }

bool SameDims(const Buffer* buffer, tenon_shape shape) {
  return buffer->rank == shape.rank &&
         (shape.rank == 0 || std::memcmp(buffer->dims, shape.dims, sizeof(int64_t) * static_cast<size_t>(shape.rank)) == 0);
}

tenon_tensor_view ViewOf(const Resource& resource, Buffer* buffer, uint64_t bytes) {
  return MakeView(resource.dtype, DimsOf(buffer), buffer->data, bytes, buffer);
}

}  // namespace

Result<Resource*> ResourceManager::Get(std::string_view container, std::string_view name, std::string_view type) {
  std::lock_guard lock(mutex_);
  auto& slot = resources_[StrCat(container, "\x01", name)];
  if (slot == nullptr) {
    slot = std::make_unique<Resource>();
    slot->container = container;
    slot->name = name;
    slot->type = type;
  }
  if (slot->type != type)
    return FailedPrecondition(StrCat(Describe(*slot), " is asked for as a ", type, "; give one of them another name"));
  return slot.get();
}

void ResourceManager::Clear(std::string_view container) {
  std::lock_guard lock(mutex_);
  for (auto& [key, resource] : resources_)
    if (resource->container == container) Drop(resource.get());
}

std::vector<const Resource*> ResourceManager::All() const {
  std::lock_guard lock(mutex_);
  std::vector<const Resource*> out;
  for (const auto& [key, resource] : resources_) out.push_back(resource.get());
  return out;
}

Status ReadVariable(Resource* resource, tenon_tensor_view* out_view) {
  std::lock_guard lock(resource->mutex);
  if (resource->poisoned)
    return Status(Code::kDataLoss, StrCat(Describe(*resource), " lost its value when its last write failed; assign it again"));
  if (resource->value == nullptr)
    return FailedPrecondition(StrCat(Describe(*resource), " has no value yet; run its initialiser, or restore it"));
  Retain(resource->value);
  *out_view = ViewOf(*resource, resource->value, resource->value_bytes);
  return Status::Ok();
}

bool IsInitialized(Resource* resource) {
  std::lock_guard lock(resource->mutex);
  return resource->value != nullptr;
}

namespace {

Status CheckUpdate(const Resource& resource, DType dtype, tenon_shape shape) {
  if (resource.value == nullptr)
    return FailedPrecondition(StrCat(Describe(resource), " has no value yet; run its initialiser, or restore it"));
  if (resource.dtype != dtype || !SameDims(resource.value, shape))
    return InvalidArgument(StrCat(Describe(resource), " is ", TypeName(resource.dtype), Shape(DimsOf(resource.value)).ToString(),
                                  "; the update is ", TypeName(dtype), Shape(shape).ToString()));
  return Status::Ok();
}

// The buffer to write: the value itself when nobody else holds it, else the spare, else a new one.
Result<Buffer*> BufferToWrite(Resource* resource, BufferPool* pool, bool in_place, uint64_t bytes, tenon_shape shape) {
  const bool fits = resource->value != nullptr && SameDims(resource->value, shape) && resource->value->capacity >= bytes &&
                    resource->value_bytes == bytes;
  if (fits && (in_place || IsUnique(resource->value))) return resource->value;
  Buffer* spare = resource->spare;
  if (spare != nullptr && spare->capacity >= bytes && SameDims(spare, shape) && IsUnique(spare)) return spare;
  TENON_ASSIGN_OR_RETURN(Buffer * fresh, pool->Allocate(bytes, shape));
  if (spare != nullptr) Release(spare);
  resource->spare = fresh;
  return fresh;
}

}  // namespace

Status BeginUpdate(Resource* resource, BufferPool* pool, uint32_t flags, bool in_place, DType dtype, tenon_shape shape,
                   uint64_t extra_bytes, tenon_tensor_view* out_old, tenon_tensor_view* out_new) {
  const bool locks = (flags & TENON_UPDATE_LOCK) != 0;
  if (locks) resource->use_locking.lock();
  std::lock_guard lock(resource->mutex);
  const auto fail = [&](Status status) {
    if (locks) resource->use_locking.unlock();
    return status;
  };
  if (resource->updating != nullptr && !in_place)
    return fail(Status(Code::kAborted, StrCat(Describe(*resource), " is being updated by another step; use locking or order the updates")));
  const bool initialize = (flags & TENON_UPDATE_INITIALIZE) != 0;
  if (!initialize)
    if (Status status = CheckUpdate(*resource, dtype, shape); !status.ok()) return fail(std::move(status));
  if (initialize && resource->value != nullptr && resource->dtype != dtype)
    return fail(InvalidArgument(StrCat(Describe(*resource), " is ", TypeName(resource->dtype), "; a ", TypeName(dtype),
                                       " cannot be assigned to it")));
  auto size = ByteSize(dtype, Shape(shape));
  if (!size.ok()) return fail(size.status());
  const uint64_t bytes = static_cast<uint64_t>(*size);
  auto target = BufferToWrite(resource, pool, in_place, bytes + extra_bytes, shape);
  if (!target.ok()) return fail(Status(target.status()).Annotate(Describe(*resource)));
  if ((flags & TENON_UPDATE_PRESERVE) != 0 && *target != resource->value)
    std::memcpy((*target)->data, resource->value->data, resource->value_bytes);
  *out_old = resource->value != nullptr ? ViewOf(*resource, resource->value, resource->value_bytes)
                                        : tenon_tensor_view{};
  resource->dtype = dtype;
  resource->updating = *target;
  resource->updating_bytes = bytes + extra_bytes;
  resource->updating_locked = locks;
  *out_new = ViewOf(*resource, *target, bytes);
  return Status::Ok();
}

void EndUpdate(Resource* resource, bool commit) {
  bool unlock = false;
  {
    std::lock_guard lock(resource->mutex);
    Buffer* written = std::exchange(resource->updating, nullptr);
    unlock = std::exchange(resource->updating_locked, false);
    if (!commit) {
      resource->poisoned = written != nullptr && written == resource->value;
    } else if (written != nullptr) {
      resource->poisoned = false;
      resource->value_bytes = resource->updating_bytes;
      if (written != resource->value) {
        resource->spare = resource->value;
        resource->value = written;
      }
    }
  }
  if (unlock) resource->use_locking.unlock();
}

void Drop(Resource* resource) {
  void* object = nullptr;
  void (*destroy)(void*) = nullptr;
  {
    std::lock_guard lock(resource->mutex);
    for (Buffer** buffer : {&resource->value, &resource->spare})
      if (*buffer != nullptr) Release(std::exchange(*buffer, nullptr));
    resource->poisoned = false;
    object = std::exchange(resource->object, nullptr);
    destroy = resource->destroy;
  }
  if (object != nullptr && destroy != nullptr) destroy(object);
}

}  // namespace tenon::exec
