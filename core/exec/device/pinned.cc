// SPDX-License-Identifier: Apache-2.0
#include "core/exec/device/pinned.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "core/base/checked.h"
#include "core/base/live_objects.h"
#include "core/tensor/allowance.h"

namespace tenon::exec {

std::atomic<int64_t> pinned_count{0};

namespace {

constexpr uint64_t kPinnedAlignment = 64;

// Of all pinned tensors, by where they begin.
struct Pinned {
  std::mutex mutex;
  std::map<uintptr_t, Buffer*> all;
};
Pinned& All() {
  static auto* const all = new Pinned;
  return *all;
}

// What a pinned tensor owns.
class PinnedMemory {
 public:
  // device: nullptr: ordinary memory.
  static Result<std::unique_ptr<PinnedMemory>> Make(const Device* device, uint32_t kind, BufferPool* pool,
                                                    uint64_t bytes);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  void* data() const { return data_; }
  tenon_device* OwnerFor(const Device& device) const {
    return device.driver == driver_ && device.self == self_ ? handle_ : nullptr;
  }

 private:
  PinnedMemory(const Device* device, uint32_t kind, uint64_t bytes) : kind_(kind), bytes_(bytes) {
    if (device == nullptr) return;
    driver_ = device->driver;
    self_ = device->self;
    handle_ = device->handle;
    open_ = device->queues;
    plugin_.emplace(device->plugin);
  }
  Status Allocate();
  Status AllocateOfDriver();

  const uint32_t kind_;
  const uint64_t bytes_;
  const tenon_device_driver* driver_ = nullptr;  // nullptr: ordinary memory
  tenon_plugin_self* self_ = nullptr;
  tenon_device* handle_ = nullptr;
  std::weak_ptr<DeviceQueues> open_;  // gone: the device is closed
  std::optional<LiveObject> plugin_;  // that must stay
  MemoryCharge charge_;
  void* data_ = nullptr;
};

Result<std::unique_ptr<PinnedMemory>> PinnedMemory::Make(const Device* device, uint32_t kind, BufferPool* pool,
                                                         uint64_t bytes) {
  std::unique_ptr<PinnedMemory> memory(new PinnedMemory(device, kind, bytes));
  const Allowance allowance(nullptr, pool);
  TENON_RETURN_IF_ERROR(memory->charge_.Add(bytes));
  TENON_RETURN_IF_ERROR(memory->Allocate());
  return memory;
}

Status PinnedMemory::Allocate() {
  if (driver_ != nullptr) return AllocateOfDriver();
  const Allocator host = HostAllocator();
  Status why;
  data_ = host.allocate(host.context, bytes_, &why);
  return data_ != nullptr ? Status::Ok() : ResourceExhausted(StrCat("the system has no ", bytes_, " bytes"));
}

Status PinnedMemory::AllocateOfDriver() {
  const std::string& plugin = plugin_->plugin();
  void* given = nullptr;  // together with an error it is nobody's
  TENON_RETURN_IF_ERROR(CallPlugin(plugin, "allocate", [&] {
    return driver_->allocate(handle_, kind_, bytes_, kPinnedAlignment, nullptr, &given);
  }));
  data_ = given;
  if (data_ == nullptr) return Internal(StrCat(DescribePlugin(plugin), ": its allocate() gave success and no memory"));
  if (reinterpret_cast<uintptr_t>(data_) % kPinnedAlignment == 0) return Status::Ok();
  return Internal(StrCat(DescribePlugin(plugin), ": its allocate() gave memory that is not aligned to ",
                         kPinnedAlignment, " bytes"));
}

PinnedMemory::~PinnedMemory() {
  if (data_ == nullptr) return;
  if (driver_ == nullptr) {
    const Allocator host = HostAllocator();
    host.free(host.context, data_, bytes_);
  } else if (!open_.expired()) {
    TellPlugin(plugin_->plugin(), "free", [this] { driver_->free(handle_, kind_, data_, bytes_, nullptr); });
  }
}

// Nobody finds it any more before its memory may become another's.
void DropPinned(void* owner) {
  const std::unique_ptr<PinnedMemory> memory(static_cast<PinnedMemory*>(owner));
  const std::lock_guard lock(All().mutex);
  if (All().all.erase(reinterpret_cast<uintptr_t>(memory->data())) != 0)
    pinned_count.fetch_sub(1, std::memory_order_relaxed);
}

void Enter(Buffer* buffer) {
  const std::lock_guard lock(All().mutex);
  All().all.emplace(reinterpret_cast<uintptr_t>(buffer->data), buffer);
  pinned_count.fetch_add(1, std::memory_order_relaxed);
}

// Whether it had one still.
bool RetainIfAlive(Buffer* buffer) {
  int64_t references = buffer->references.load(std::memory_order_relaxed);
  while (references > 0)
    if (buffer->references.compare_exchange_weak(references, references + 1, std::memory_order_relaxed)) return true;
  return false;
}

// The kind of its memory that the host reaches; none: the one that it computes in, or no kind at all.
std::optional<uint32_t> HostVisibleKind(const Device& device) {
  if (device.queues == nullptr) return {};
  for (uint32_t kind = 0; kind < device.properties.memory_kind_count; ++kind) {
    tenon_memory_kind memory{};
    memory.struct_size = sizeof memory;
    const Status status = CallPlugin(device.plugin, "memory_kind",
                                     [&] { return device.driver->memory_kind(device.handle, kind, &memory); });
    if (status.ok() && (memory.flags & TENON_MEMORY_HOST_VISIBLE) != 0)
      return kind == 0 ? std::nullopt : std::optional(kind);
  }
  return {};
}

Result<int64_t> SizeOfPinned(DType dtype, const Shape& shape) {
  if (!IsPlain(dtype))
    return InvalidArgument(StrCat("a pinned tensor has plain elements, and none of ", TypeName(dtype)));
  TENON_RETURN_IF_ERROR(shape.Validate());
  return ByteSize(dtype, shape);
}

}  // namespace

Result<Tensor> NewPinned(const Device* device, BufferPool* pool, DType dtype, Shape shape) {
  TENON_ASSIGN_OR_RETURN(const int64_t bytes, SizeOfPinned(dtype, shape));
  const std::optional<uint32_t> kind = device == nullptr ? std::nullopt : HostVisibleKind(*device);
  auto memory = PinnedMemory::Make(kind ? device : nullptr, kind.value_or(0), pool,
                                   RoundUp(std::max<uint64_t>(static_cast<uint64_t>(bytes), 1), kPinnedAlignment));
  if (!memory.ok()) {
    return std::move(memory).status().Annotate(StrCat("a pinned tensor of ", TypeName(dtype), shape.ToString(),
                                                      kind ? " for " : "", kind ? device->name : ""));
  }
  Buffer* const buffer =
      GlobalPool()->Wrap((*memory)->data(), static_cast<uint64_t>(bytes), shape.c(), &DropPinned, memory->get());
  memory->release();
  Tensor tensor(dtype, std::move(shape), buffer);
  Enter(buffer);
  return tensor;
}

Buffer* RetainPinnedAround(const void* data, uint64_t bytes) {
  if (pinned_count.load(std::memory_order_relaxed) == 0) return nullptr;
  const auto begin = reinterpret_cast<uintptr_t>(data);
  const std::lock_guard lock(All().mutex);
  auto found = All().all.upper_bound(begin);
  if (found == All().all.begin()) return nullptr;
  Buffer* const buffer = (--found)->second;
  const uint64_t offset = begin - found->first;
  if (offset > buffer->capacity || bytes > buffer->capacity - offset) return nullptr;
  return RetainIfAlive(buffer) ? buffer : nullptr;
}

tenon_device* OwnerOfPinned(const Buffer& buffer, const Device& device) {
  return static_cast<const PinnedMemory*>(buffer.owner)->OwnerFor(device);
}

}  // namespace tenon::exec
