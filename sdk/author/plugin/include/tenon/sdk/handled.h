// SPDX-License-Identifier: Apache-2.0
// Handled: an object of a plugin that the host holds by an opaque handle.
//
//   class Queue : public sdk::Handled<Queue, tenon_queue> { ... };
//   tenon_queue* handle = Queue::Give(std::make_shared<Queue>());  // the host's
//   Queue::Of(frame->queue)->Submit(...);
//   std::shared_ptr<Queue> last = Queue::TakeBack(handle);
//
// The handle is the object's address. The object stays while the host has the handle, and while others share it
// (shared_from_this()): so objects may hold what they need, and handles be given back in any order.
#ifndef TENON_SDK_HANDLED_H_
#define TENON_SDK_HANDLED_H_

#include <memory>
#include <utility>

namespace tenon::sdk {

template <class Object, class Opaque>
class Handled : public std::enable_shared_from_this<Object> {
 public:
  // Of a handle that Give() or handle() made; NULL for NULL.
  static Object* Of(Opaque* handle) { return reinterpret_cast<Object*>(handle); }
  static const Object* Of(const Opaque* handle) { return reinterpret_cast<const Object*>(handle); }
  // Names the object; the host does not own what it is given so.
  Opaque* handle() { return reinterpret_cast<Opaque*>(static_cast<Object*>(this)); }

  static Opaque* Give(std::shared_ptr<Object> object) {
    Handled& held = *object;
    held.host_ = std::move(object);
    return held.handle();
  }
  static std::shared_ptr<Object> TakeBack(Opaque* handle) {
    return std::move(static_cast<Handled*>(Of(handle))->host_);
  }

 private:
  std::shared_ptr<Object> host_;  // itself, while the host has it
};

}  // namespace tenon::sdk

#endif  // TENON_SDK_HANDLED_H_
