// SPDX-License-Identifier: Apache-2.0
#include "core/exec/device/resources.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "core/exec/device/device.h"
#include "core/tensor/same_dims.h"
#include "core/trace/trace.h"
#include "tenon/kernel.h"

tenon_resource::~tenon_resource() {
  if (value != nullptr) tenon::Release(value);
  if (spare != nullptr) tenon::Release(spare);
  for (const Update& update : updates) tenon::Release(update.target);
}

namespace tenon::exec {
namespace {

std::string Describe(const Resource& resource) {
  return StrCat(resource.type.empty() ? "resource" : resource.type, " '",
                resource.container.empty() ? "" : resource.container + "/", resource.name, "'");
}

tenon_shape DimsOf(const Buffer* buffer) { return {buffer->dims, buffer->rank, 0}; }

tenon_tensor_view ViewOf(const Resource& resource, Buffer* buffer, uint64_t bytes) {
  tenon_tensor_view view = MakeView(resource.dtype, DimsOf(buffer), buffer->data, bytes, buffer);
  if (resource.device != nullptr) MarkDevice(&view, *resource.device);
  return view;
}

std::string_view MemoryName(const Device* device) {
  return device == nullptr ? "the host" : std::string_view(device->name);
}

// A value lies in one memory, and is read and written there.
Status CheckMemory(const Resource& resource, const Device* device) {
  if (resource.value == nullptr || resource.device == device) return Status::Ok();
  return FailedPrecondition(StrCat(Describe(resource), " lies in the memory of ", MemoryName(resource.device),
                                   " and is used on ", MemoryName(device),
                                   "; place its users with it (attribute _class, or the same device)"));
}

}  // namespace

Result<Resource*> ResourceManager::Get(std::string_view container, std::string_view name, std::string_view type) {
  std::lock_guard lock(mutex_);
  std::pair<std::string, std::string> key(container, name);
  auto at = resources_.find(key);
  if (at == resources_.end()) {
    auto made = std::make_unique<Resource>();
    made->container = container;
    made->name = name;
    made->type = type;
    at = resources_.emplace(std::move(key), std::move(made)).first;
  }
  if (at->second->type != type)
    return FailedPrecondition(
        StrCat(Describe(*at->second), " is asked for as a ", type, "; give one of them another name"));
  return at->second.get();
}

int64_t ResourceManager::Clear(std::string_view container) {
  int64_t dropped = 0;
  std::unique_lock lock(mutex_);
  // Handles stay where they are. A plugin's destroy may take its time, and may ask for resources; and a session ends
  // without memory too, whose own container's key takes none.
  for (auto at = resources_.lower_bound({std::string(container), std::string()});
       at != resources_.end() && at->first.first == container; ++at) {
    lock.unlock();
    dropped += Drop(at->second.get()) ? 1 : 0;
    lock.lock();
  }
  return dropped;
}

void ResourceManager::ClearAll() {
  std::lock_guard lock(mutex_);
  for (auto& [key, resource] : resources_) Drop(resource.get());
}

int64_t ResourceManager::CountHeld(const std::function<bool(const Device*)>& in) const {
  std::lock_guard lock(mutex_);
  return std::count_if(resources_.begin(), resources_.end(), [&](const auto& entry) {
    std::lock_guard own(entry.second->mutex);
    return (entry.second->value != nullptr || entry.second->object != nullptr) && in(entry.second->device);
  });
}

std::vector<const Resource*> ResourceManager::All() const {
  std::lock_guard lock(mutex_);
  std::vector<const Resource*> out;
  for (const auto& [key, resource] : resources_) out.push_back(resource.get());
  return out;
}

namespace {

constexpr std::chrono::milliseconds kTurnPoll(10);
constexpr int kTurnPolls = 3000;  // 30 s

// That the handle is of no plugin's object: a queue has no value, and gets none.
Status CheckVariable(const Resource& resource) {
  return resource.object == nullptr ? Status::Ok() : InvalidArgument(StrCat(Describe(resource), " is no variable"));
}

// Whether the one update of a resource variable writes the value itself.
bool IsBeingWritten(const Resource& resource, const void* reader) {
  if (resource.updater == nullptr || resource.updater == reader) return false;
  for (const Resource::Update& update : resource.updates)
    if (update.frame == resource.updater) return update.target == resource.value;
  return false;
}

// The wait for an update of a variable, in a trace; nullptr: there is none to wait for, or nobody looks.
class WaitSpan {
 public:
  WaitSpan(trace::Trace* trace, const Resource& resource)
      : trace_(trace), resource_(resource), begin_(trace == nullptr ? 0 : trace::Trace::Now()) {}
  ~WaitSpan() {
    if (trace_ != nullptr)
      (void)Guarded([&] {
        trace_->Add(StrCat("wait for ", Describe(resource_)), "wait", begin_, trace::Trace::Now(),
                    "another update of it");
      });
  }
  WaitSpan(const WaitSpan&) = delete;
  WaitSpan& operator=(const WaitSpan&) = delete;

 private:
  trace::Trace* const trace_;
  const Resource& resource_;
  const uint64_t begin_;
};

}  // namespace

Status ReadVariable(Resource* resource, const Device* device, tenon_tensor_view* out_view, const void* frame,
                    const Cancellation* cancellation, trace::Trace* trace) {
  std::unique_lock lock(resource->mutex);
  const WaitSpan span(IsBeingWritten(*resource, frame) ? trace : nullptr, *resource);
  for (int polls = 0; IsBeingWritten(*resource, frame); ++polls) {
    if (cancellation != nullptr && cancellation->cancelled())
      return cancellation->reason().Annotate(StrCat("waiting for an update of ", Describe(*resource)));
    if (polls == kTurnPolls)
      return Status(Code::kAborted,
                    StrCat("an update of ", Describe(*resource), " did not end within 30 s, and cannot be read past"));
    resource->changed.wait_for(lock, kTurnPoll);
  }
  if (resource->poisoned)
    return Status(Code::kDataLoss,
                  StrCat(Describe(*resource), " lost its value when its last write failed; assign it again"));
  TENON_RETURN_IF_ERROR(CheckVariable(*resource));
  if (resource->value == nullptr)
    return FailedPrecondition(StrCat(Describe(*resource), " has no value yet; run its initialiser, or restore it"));
  TENON_RETURN_IF_ERROR(CheckMemory(*resource, device));
  Retain(resource->value);
  *out_view = ViewOf(*resource, resource->value, resource->value_bytes);
  return Status::Ok();
}

Status CheckMayOutliveStep(const tenon_tensor_view& view) {
  if (view.dtype != TENON_DT_RESOURCE || view.dl.data == nullptr) return Status::Ok();
  auto* const* handles = static_cast<Resource* const*>(DataOf(view));
  for (int64_t i = 0, count = NumElements(view); i < count; ++i)
    if (handles[i] != nullptr && handles[i]->of_step)
      return FailedPrecondition(StrCat(
          "the ", handles[i]->type, " of node '", handles[i]->name,
          "' ends with the step or the function that made it, and cannot be kept longer; use one that has a name"));
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
  if (resource.dtype != dtype || !SameDims(*resource.value, shape))
    return InvalidArgument(StrCat(Describe(resource), " is ", TypeName(resource.dtype),
                                  Shape(DimsOf(resource.value)).ToString(), "; the update is ", TypeName(dtype),
                                  Shape(shape).ToString()));
  return Status::Ok();
}

// Whether the update may write what others hold and read meanwhile. Numbers that are read twice may be wrong then, and
// no more. Indices, sizes and the cells of strings are checked before they are used: these must be the same when they
// are used.
bool WritesInPlace(const Updater& updater, DType dtype) { return updater.in_place && IsWrittenInPlace(dtype); }

// Until no other update excludes this one.
Status WaitForTurn(Resource* resource, const Updater& updater, bool in_place, bool locks,
                   std::unique_lock<std::mutex>* lock) {
  const auto taken = [&] {
    return (locks && resource->locker != nullptr) || (!in_place && resource->updater != nullptr);
  };
  const WaitSpan span(taken() ? updater.trace : nullptr, *resource);
  for (int polls = 0; taken(); ++polls) {
    if (resource->locker == updater.frame || resource->updater == updater.frame)
      return Status(Code::kAborted, StrCat(Describe(*resource), " is given twice to one update"));
    if (!updater.may_wait) return Status(Code::kAborted, StrCat(Describe(*resource), " is being updated"));
    if (updater.cancellation->cancelled())
      return updater.cancellation->reason().Annotate(StrCat("waiting for another update of ", Describe(*resource)));
    if (polls == kTurnPolls)
      return Status(Code::kAborted,
                    StrCat("another update of ", Describe(*resource),
                           " did not end within 30 s; do two updates wait for each other's variables?"));
    resource->changed.wait_for(*lock, kTurnPoll);
  }
  return Status::Ok();
}

// The buffer to write: the value itself when nobody else holds it, else the spare, else a new one.
Result<Buffer*> BufferToWrite(Resource* resource, const Updater& updater, bool in_place, uint64_t bytes,
                              tenon_shape shape) {
  const auto own = std::count(updater.dropped.begin(), updater.dropped.end(), resource->value);
  const bool fits = resource->value != nullptr && SameDims(*resource->value, shape) &&
                    resource->value->capacity >= bytes && resource->value_bytes + resource->value_extra == bytes;
  if (fits && (in_place || References(resource->value) == 1 + own)) return resource->value;
  Buffer* spare = resource->spare;
  if (spare != nullptr && spare->capacity >= bytes && SameDims(*spare, shape) && IsUnique(spare)) {
    spare->pool->Fit(spare, bytes);
    return spare;
  }
  TENON_ASSIGN_OR_RETURN(Buffer * fresh, updater.pool->Allocate(bytes, shape));
  if (spare != nullptr) Release(spare);
  resource->spare = fresh;
  return fresh;
}

}  // namespace

Status BeginUpdate(Resource* resource, const Updater& updater, uint32_t flags, DType dtype, tenon_shape shape,
                   uint64_t extra_bytes, tenon_tensor_view* out_old, tenon_tensor_view* out_new) {
  const bool locks = (flags & TENON_UPDATE_LOCK) != 0;
  const bool initialize = (flags & TENON_UPDATE_INITIALIZE) != 0;
  const bool in_place = WritesInPlace(updater, dtype);
  std::unique_lock lock(resource->mutex);
  TENON_RETURN_IF_ERROR(WaitForTurn(resource, updater, in_place, locks, &lock));
  TENON_RETURN_IF_ERROR(CheckVariable(*resource));
  TENON_RETURN_IF_ERROR(CheckMemory(*resource, updater.device));
  if (!initialize && shape.rank < 0 && resource->value != nullptr) shape = DimsOf(resource->value);
  if (!initialize) TENON_RETURN_IF_ERROR(CheckUpdate(*resource, dtype, shape));
  if (initialize && resource->value != nullptr && resource->dtype != dtype)
    return InvalidArgument(StrCat(Describe(*resource), " is ", TypeName(resource->dtype), "; a ", TypeName(dtype),
                                  " cannot be assigned to it"));
  // The common update keeps the shape; making a Shape of it would allocate.
  uint64_t bytes = resource->value_bytes;
  if (!IsPlain(dtype) || resource->value == nullptr || !SameDims(*resource->value, shape)) {
    TENON_ASSIGN_OR_RETURN(const int64_t size, ByteSize(dtype, Shape(shape)));
    bytes = static_cast<uint64_t>(size);
  }
  if (extra_bytes > kMaxBytes)
    return ResourceExhausted(
        StrCat(Describe(*resource), " with ", extra_bytes, " bytes more needs more memory than any machine has"));
  auto target = BufferToWrite(resource, updater, in_place, bytes + extra_bytes, shape);
  if (!target.ok()) return Status(target.status()).Annotate(Describe(*resource));
  if ((flags & TENON_UPDATE_PRESERVE) != 0 && resource->value != nullptr && *target != resource->value) {
    const uint64_t kept = std::min(resource->value_bytes + resource->value_extra, bytes + extra_bytes);
    if (updater.copy) TENON_RETURN_IF_ERROR(updater.copy(resource->value->data, (*target)->data, kept));
    else std::memcpy((*target)->data, resource->value->data, kept);
  }
  resource->device = updater.device;
  *out_old = resource->value != nullptr ? ViewOf(*resource, resource->value, resource->value_bytes)
                                        : tenon_tensor_view{};
  resource->dtype = dtype;
  Retain(*target);
  resource->updates.push_back({updater.frame, *target, bytes, extra_bytes});
  if (locks) resource->locker = updater.frame;
  if (!in_place) resource->updater = updater.frame;
  *out_new = ViewOf(*resource, *target, bytes);
  return Status::Ok();
}

void EndUpdate(Resource* resource, const void* frame, uint32_t outcome) {
  std::lock_guard lock(resource->mutex);
  const auto update = std::find_if(resource->updates.begin(), resource->updates.end(),
                                   [frame](const Resource::Update& each) { return each.frame == frame; });
  if (update == resource->updates.end()) return;  // a second end
  const Resource::Update ended = *update;
  resource->updates.erase(update);
  if (resource->locker == frame) resource->locker = nullptr;
  if (resource->updater == frame) resource->updater = nullptr;
  if (outcome == TENON_UPDATE_FAILED && ended.target == resource->value) resource->poisoned = true;
  if (outcome == TENON_UPDATE_COMMIT) {
    resource->poisoned = false;
    resource->value_bytes = ended.bytes;
    resource->value_extra = ended.extra;
  }
  if (outcome == TENON_UPDATE_COMMIT && ended.target != resource->value) {
    // The update's reference becomes the value's.
    if (resource->spare != nullptr) Release(resource->spare);
    resource->spare = std::exchange(resource->value, ended.target);
  } else {
    Release(ended.target);
  }
  resource->changed.notify_all();
}

bool Drop(Resource* resource) {
  bool held = false;
  std::shared_ptr<PluginObject> object;  // ends without the lock
  {
    std::lock_guard lock(resource->mutex);
    held = resource->value != nullptr || resource->object != nullptr || resource->poisoned;
    for (Buffer** buffer : {&resource->value, &resource->spare})
      if (*buffer != nullptr) Release(std::exchange(*buffer, nullptr));
    resource->poisoned = false;
    object = std::move(resource->object);
    if (resource->of_step && object != nullptr) resource->dropped.push_back(std::move(object));
  }
  return held;
}

}  // namespace tenon::exec
