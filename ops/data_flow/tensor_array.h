// SPDX-License-Identifier: Apache-2.0
// A tensor array: elements that a step writes once each, and reads.
//
// A plain array takes one value for each index, and forgets it when it was read, if so made. An array of gradients sums
// what is written twice, and what nobody wrote is zeros where the shape of an element is known. Rules. Any thread; one
// lock guards all. Values are kept without a copy where they lie in a buffer.
#ifndef TENON_OPS_DATA_FLOW_TENSOR_ARRAY_H_
#define TENON_OPS_DATA_FLOW_TENSOR_ARRAY_H_

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "element.h"
#include "tenon/extras/kernel/charge.h"
#include "tenon/sdk/shape.h"

namespace tenon::ops {

struct TensorArrayOptions {
  std::string name;
  uint32_t dtype = TENON_DT_INVALID;
  sdk::Shape element_shape;
  bool dynamic_size = false, clear_after_read = true, identical_element_shapes = false;
  bool sums = false;  // what is written twice
};

class TensorArray {
 public:
  TensorArray(const sdk::RunContext& c, TensorArrayOptions options, int64_t size);

  void CheckType(uint32_t dtype) const;
  void Write(const sdk::RunContext& c, int64_t index, Component value);
  // As output `output` of the frame.
  void Read(const sdk::RunContext& c, int32_t output, int64_t index);
  // The elements as rows, or one after the other with their lengths as output 1.
  void Gather(const sdk::RunContext& c, const std::vector<int64_t>& indices);
  void Concat(const sdk::RunContext& c);
  int64_t size() const;
  void Close();
  // The array of gradients named `source`; `make` makes the first one's handle and says what array it stands for.
  using Make = void (*)(void* argument, std::unique_ptr<TensorArray> array, tenon_resource** out_handle);
  tenon_resource* Gradient(const sdk::RunContext& c, std::string_view source, Make make, void* argument);

 private:
  struct Slot {
    std::shared_ptr<const Component> value;
    bool written = false, read = false;
  };
  [[noreturn]] void Refuse(const std::string& why) const;
  Slot& At(int64_t index);
  std::shared_ptr<const Component> Take(const sdk::RunContext& c, int64_t index);
  std::vector<std::shared_ptr<const Component>> TakeAll(const sdk::RunContext& c, const std::vector<int64_t>& indices);
  // Makes room for `size` elements, in the session's memory too: its limit holds for elements that nobody writes.
  void Grow(const sdk::RunContext& c, int64_t size);

  const sdk::Charge own_charge_;  // for this without its slots
  TensorArrayOptions options_;  // element_shape gets more precise
  mutable std::mutex mutex_;
  std::vector<Slot> slots_;
  std::optional<sdk::KeptTensor> charge_;  // as much memory as the slots
  int64_t charged_ = 0;
  bool closed_ = false;
  std::map<std::string, tenon_resource*, std::less<>> gradients_;
};

}  // namespace tenon::ops

#endif  // TENON_OPS_DATA_FLOW_TENSOR_ARRAY_H_
