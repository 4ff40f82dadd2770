// SPDX-License-Identifier: Apache-2.0
#include "variant_bytes.h"

#include <cstring>
#include <vector>

#include "tenon/sdk/kernel/kept_tensor.h"
#include "tenon/sdk/kernel/string_tensor.h"
#include "tenon/sdk/kernel/variant.h"
#include "tenon/sdk/wire.h"

namespace tenon::ops::io {
using namespace sdk;

namespace {

constexpr int kMostDepth = 16;  // of variants in one another
constexpr int64_t kMostRank = 254;

// VariantTensorDataProto, TensorProto, TensorShapeProto and its Dim: the numbers of their members.
constexpr uint32_t kTypeName = 1, kMetadata = 2, kTensors = 3;
constexpr uint32_t kDtype = 1, kShape = 2, kContent = 4, kStrings = 8, kVariants = 15;
constexpr uint32_t kDim = 2, kSize = 1;

struct Encoder {
  // A member whose bytes follow; sdk::WireWriter takes its memory elsewhere.
  void Begin(uint32_t field, uint64_t bytes) {
    std::string head;
    PutVarint(head, static_cast<uint64_t>(field) << 3 | 2);
    PutVarint(head, bytes);
    out.append(head);
  }
  void Bytes(uint32_t field, std::string_view bytes) {
    Begin(field, bytes.size());
    out.append(bytes);
  }
  std::pmr::string out;
};

std::pmr::string Encode(const RunContext& c, std::string_view name, const tenon_variant* variant, const Budget& budget, int depth);

std::pmr::string EncodeTensor(const RunContext& c, std::string_view name, const tenon_tensor_view& tensor, const Budget& budget, int depth) {
  budget.poll();
  WireWriter head;
  head.Varint(kDtype, BaseType(tensor.dtype));
  WireWriter shape;
  for (const int64_t dim : DimsOf(tensor)) {
    WireWriter size;
    size.Varint(kSize, static_cast<uint64_t>(dim));
    shape.Bytes(kDim, size.bytes());
  }
  head.Bytes(kShape, shape.bytes());
  Encoder encoder{std::pmr::string(head.bytes(), budget.memory)};
  if (tensor.dtype == TENON_DT_STRING) {
    for (const std::string_view text : StringsOf(tensor)) encoder.Bytes(kStrings, text);
  } else if (tensor.dtype == TENON_DT_VARIANT) {
    for (int64_t i = 0; i < Count(tensor); ++i) encoder.Bytes(kVariants, Encode(c, name, VariantOf(tensor, i), budget, depth + 1));
  } else if (const uint64_t element = ElementSize(tensor.dtype); element != 0) {
    encoder.Bytes(kContent, {Data<const char>(tensor), static_cast<size_t>(Count(tensor)) * element});
  } else {
    Fail(TENON_UNIMPLEMENTED, "tensor '", name, "' cannot be saved: its variant holds a tensor of ", TypeName(tensor.dtype));
  }
  return std::move(encoder.out);
}

std::pmr::string Encode(const RunContext& c, std::string_view name, const tenon_variant* variant, const Budget& budget, int depth) {
  if (variant == nullptr) Fail(TENON_UNIMPLEMENTED, "tensor '", name, "' cannot be saved: one of its variants is empty");
  if (depth > kMostDepth) Fail(TENON_UNIMPLEMENTED, "tensor '", name, "' cannot be saved: variants lie in one another deeper than ", kMostDepth);
  tenon_variant_info info{};
  c.services().variant_info(variant, &info);
  const tenon_work_services* const works = TENON_HAS(&c.services(), work) ? c.services().work_services : nullptr;
  if (works != nullptr && TENON_CALLABLE(works, variant_held) && works->variant_held(variant, info.type) != nullptr)
    Fail(TENON_UNIMPLEMENTED, "tensor '", name, "' cannot be saved: it holds an object of type ", ToText(info.type), ", which is nothing outside of this process");
  Encoder encoder{std::pmr::string(budget.memory)};
  encoder.Bytes(kTypeName, ToText(info.type));
  encoder.Bytes(kMetadata, ToText(info.metadata));
  for (uint64_t i = 0; i < info.element_count; ++i) {
    tenon_tensor_view element{};
    c.services().variant_element(variant, i, &element);
    if (element.dtype == TENON_DT_INVALID) Fail(TENON_UNIMPLEMENTED, "tensor '", name, "' cannot be saved: its variant of type ", ToText(info.type), " has an empty place");
    encoder.Bytes(kTensors, EncodeTensor(c, name, element, budget, depth));
  }
  return std::move(encoder.out);
}

[[noreturn]] void Damaged(std::string_view name, std::string_view what) { Fail(TENON_DATA_LOSS, "tensor '", name, "' is damaged: ", what); }

tenon_variant* Decode(const RunContext& c, std::string_view name, std::string_view bytes, const Budget& budget, int depth);

KeptTensor DecodeTensor(const RunContext& c, std::string_view name, std::string_view bytes, const Budget& budget, int depth) {
  budget.poll();
  uint32_t dtype = 0;
  std::vector<int64_t> dims;
  std::string_view content;
  std::pmr::vector<std::string_view> parts(budget.memory);  // strings, or variants
  WireReader tensor(bytes);
  while (tensor.Next()) {
    if (tensor.field() == kDtype) dtype = static_cast<uint32_t>(tensor.varint());
    if (tensor.field() == kContent) content = tensor.delimited();
    if (tensor.field() == kStrings || tensor.field() == kVariants) parts.push_back(tensor.delimited());
    if (tensor.field() != kShape) continue;
    WireReader shape(tensor.delimited());
    while (shape.Next()) {
      if (shape.field() != kDim) continue;
      WireReader dim(shape.delimited());
      dims.push_back(0);
      while (dim.Next())
        if (dim.field() == kSize) dims.back() = static_cast<int64_t>(dim.varint());
      if (!dim.ok() || dims.back() < 0 || static_cast<int64_t>(dims.size()) > kMostRank) Damaged(name, "a shape in its variant");
    }
    if (!shape.ok()) Damaged(name, "a shape in its variant");
  }
  if (!tensor.ok()) Damaged(name, "a tensor in its variant");
  int64_t count = 1;
  for (const int64_t dim : dims)
    if (__builtin_mul_overflow(count, dim, &count)) Damaged(name, "a shape in its variant");
  if (dtype == TENON_DT_STRING || dtype == TENON_DT_VARIANT) {
    if (static_cast<int64_t>(parts.size()) != count) Damaged(name, Concat("a tensor in its variant has ", parts.size(), " of ", count, " elements"));
    if (dtype == TENON_DT_STRING) {
      KeptTensor strings = NewTensor(c, dtype, dims, BytesOf(parts));
      WriteStrings(Data<char>(strings.view()), parts);
      return strings;
    }
    KeptTensor variants = NewTensor(c, dtype, dims);
    for (int64_t i = 0; i < count; ++i) Data<tenon_variant*>(variants.view())[i] = Decode(c, name, parts[static_cast<size_t>(i)], budget, depth + 1);
    return variants;
  }
  const uint64_t element = ElementSize(dtype);
  if (element == 0) Damaged(name, Concat("a tensor in its variant is of ", TypeName(dtype)));
  if (content.size() / element != static_cast<uint64_t>(count) || content.size() % element != 0)
    Damaged(name, Concat("a tensor in its variant has ", content.size(), " bytes for ", count, " elements of ", TypeName(dtype)));
  KeptTensor plain = NewTensor(c, dtype, dims);
  if (!content.empty()) std::memcpy(Data<char>(plain.view()), content.data(), content.size());
  return plain;
}

tenon_variant* Decode(const RunContext& c, std::string_view name, std::string_view bytes, const Budget& budget, int depth) {
  if (depth > kMostDepth) Damaged(name, "variants lie in one another too deep");
  std::string_view type, metadata;
  std::vector<KeptTensor> elements;
  WireReader variant(bytes);
  while (variant.Next()) {
    if (variant.field() == kTypeName) type = variant.delimited();
    if (variant.field() == kMetadata) metadata = variant.delimited();
    if (variant.field() == kTensors) elements.push_back(DecodeTensor(c, name, variant.delimited(), budget, depth));
  }
  if (!variant.ok()) Damaged(name, "a variant");
  std::vector<tenon_tensor_view> views;
  for (const KeptTensor& element : elements) views.push_back(element.view());
  tenon_variant* made = nullptr;
  Check(c.services().variant_new(c.frame(), ToSpan(type), ToSpan(metadata), views.data(), views.size(), &made));
  return made;
}

}  // namespace

std::pmr::string EncodeVariant(const RunContext& c, std::string_view name, const tenon_variant* variant, const Budget& budget) {
  return Encode(c, name, variant, budget, 1);
}

tenon_variant* DecodeVariant(const RunContext& c, std::string_view name, std::string_view bytes, const Budget& budget) {
  return Decode(c, name, bytes, budget, 1);
}

}  // namespace tenon::ops::io
