// SPDX-License-Identifier: Apache-2.0
// Lists of tensors: variants of type "tenon.TensorList". A list is a value, so that what changes it gives another one;
// the host shares what they have in common (tenon/tensor.h).
//
// The metadata say what the elements are; an empty place is an element that nobody has set, and reads as zeros where
// its shape is known.
#ifndef TENON_OPS_DATA_FLOW_TENSOR_LIST_H_
#define TENON_OPS_DATA_FLOW_TENSOR_LIST_H_

#include <optional>
#include <string>
#include <vector>

#include "element.h"
#include "tenon/sdk/kernel/variant.h"

namespace tenon::ops {

inline constexpr std::string_view kListType = "tenon.TensorList";

// What a list's elements are.
struct ListType {
  uint32_t dtype = TENON_DT_INVALID;
  sdk::Shape element_shape;    // perhaps partly known
  int64_t max_elements = -1;   // that may be appended to; -1: any number

  std::string Encode() const;
  // INVALID_ARGUMENT, thrown: these are no list's metadata.
  static ListType Decode(std::string_view bytes);
};

// A list that an input of the running kernel holds.
class TensorList {
 public:
  // INVALID_ARGUMENT: the input is no list, or its elements are not of type dtype (TENON_DT_INVALID: any).
  static TensorList OfInput(const sdk::RunContext& c, int32_t input, uint32_t dtype);

  const ListType& type() const { return type_; }
  const tenon_variant* variant() const { return variant_; }
  int64_t size() const { return size_; }
  // dtype TENON_DT_INVALID: the place is empty.
  tenon_tensor_view At(int64_t index) const;
  // All of them. A list may have billions of empty places at no cost: RESOURCE_EXHAUSTED where telling them would take
  // more memory than the session has.
  std::vector<tenon_tensor_view> Elements() const;
  // The shape of what is read at an empty place: what the list and `wanted` say, and with ask_elements those that are
  // set, all of which must then have one shape. INVALID_ARGUMENT when that is not all of it.
  sdk::Shape ShapeOfEmpty(const sdk::Shape& wanted, bool ask_elements) const;

  // Sets output `output` to a list that is this one with `size` elements, and element `index` set unless `element` is
  // nullptr.
  void Derive(int32_t output, int64_t size, int64_t index, const tenon_tensor_view* element) const;

 private:
  explicit TensorList(const sdk::RunContext& c) : c_(c) {}
  sdk::RunContext c_;
  const tenon_variant* variant_ = nullptr;
  ListType type_;
  int64_t size_ = 0;
};

// Sets output `output` to a new list; elements: their number, and none of them set; or as variant_new takes them.
void GiveList(const sdk::RunContext& c, int32_t output, const ListType& type, int64_t size);
void GiveList(const sdk::RunContext& c, int32_t output, const ListType& type,
              const std::vector<tenon_tensor_view>& elements);

// A part of a tensor along its first dimension, as a tensor of these dims that lives in a buffer: plain values share
// the tensor's (which must live in one, and is kept as long as the part is), strings are copied.
class Part {
 public:
  // first: the element of `from` with which it begins.
  Part(const sdk::RunContext& c, const tenon_tensor_view& from, int64_t first, std::vector<int64_t> dims);
  // Valid as long as this.
  tenon_tensor_view view() const;

 private:
  tenon_tensor_view shared_ = {};
  std::vector<int64_t> dims_;
  std::optional<sdk::KeptTensor> copied_;
};

// What a tensor of dims, or -1 for an unknown rank, says of a shape: input `input` of int32 or int64.
sdk::Shape ShapeOfInput(const sdk::RunContext& c, int32_t input);
// What both say of a shape. INVALID_ARGUMENT names both.
sdk::Shape MergeShapes(const sdk::Shape& a, const sdk::Shape& b, std::string_view what);

}  // namespace tenon::ops

#endif  // TENON_OPS_DATA_FLOW_TENSOR_LIST_H_
