// SPDX-License-Identifier: Apache-2.0
#include "variant_bytes.h"

#include <vector>

#include "tenon/extras/kernel/tensor_proto.h"
#include "tenon/sdk/kernel/variant.h"

namespace tenon::ops::io {
using namespace sdk;

namespace {

constexpr int kMostDepth = 16;  // of variants in one another

// VariantTensorDataProto: the numbers of its members; and of TensorProto's that holds such.
constexpr uint32_t kTypeName = 1, kMetadata = 2, kTensors = 3;
constexpr uint32_t kVariants = 15;

struct Encoder {
  // As sdk::WireWriter's, in the step's memory.
  void Bytes(uint32_t field, std::string_view bytes) {
    out.append(tensor_proto::MemberHead(field, bytes.size()));
    out.append(bytes);
  }
  std::pmr::string out;
};

std::pmr::string EncodeOne(const RunContext& c, std::string_view name, const tenon_variant* variant,
                           const Budget& budget, int depth);

std::pmr::string EncodeTensor(const RunContext& c, std::string_view name, const tenon_tensor_view& tensor,
                              const Budget& budget, int depth) {
  budget.poll();
  Encoder encoder{std::pmr::string(budget.memory)};
  if (tensor.dtype != TENON_DT_VARIANT) {
    encoder.out.reserve(tensor_proto::SizeOf(tensor));
    tensor_proto::ForEachPiece(tensor, [&encoder](std::string_view piece) { encoder.out.append(piece); });
    return std::move(encoder.out);
  }
  encoder.out.append(tensor_proto::HeadOf(tensor.dtype, DimsOf(tensor)));
  for (int64_t i = 0; i < Count(tensor); ++i)
    encoder.Bytes(kVariants, EncodeOne(c, name, VariantOf(tensor, i), budget, depth + 1));
  return std::move(encoder.out);
}

std::pmr::string EncodeOne(const RunContext& c, std::string_view name, const tenon_variant* variant,
                           const Budget& budget, int depth) {
  if (variant == nullptr)
    Fail(TENON_UNIMPLEMENTED, "tensor '", name, "' cannot be saved: one of its variants is empty");
  if (depth > kMostDepth)
    Fail(TENON_UNIMPLEMENTED, "tensor '", name, "' cannot be saved: variants lie in one another deeper than ",
         kMostDepth);
  tenon_variant_info info{};
  c.services().variant_info(variant, &info);
  const tenon_work_services* const works = TENON_HAS(&c.services(), work) ? c.services().work_services : nullptr;
  if (works != nullptr && TENON_CALLABLE(works, variant_held) && works->variant_held(variant, info.type) != nullptr)
    Fail(TENON_UNIMPLEMENTED, "tensor '", name, "' cannot be saved: it holds an object of type ", ToText(info.type),
         ", which is nothing outside of this process");
  Encoder encoder{std::pmr::string(budget.memory)};
  encoder.Bytes(kTypeName, ToText(info.type));
  encoder.Bytes(kMetadata, ToText(info.metadata));
  for (uint64_t i = 0; i < info.element_count; ++i) {
    tenon_tensor_view element{};
    c.services().variant_element(variant, i, &element);
    if (element.dtype == TENON_DT_INVALID)
      Fail(TENON_UNIMPLEMENTED, "tensor '", name, "' cannot be saved: its variant of type ", ToText(info.type),
           " has an empty place");
    encoder.Bytes(kTensors, EncodeTensor(c, name, element, budget, depth));
  }
  return std::move(encoder.out);
}

[[noreturn]] void Damaged(std::string_view name, std::string_view what) {
  Fail(TENON_DATA_LOSS, "tensor '", name, "' is damaged: ", what);
}

tenon_variant* Decode(const RunContext& c, std::string_view name, std::string_view bytes, const Budget& budget,
                      int depth);

KeptTensor DecodeTensor(const RunContext& c, std::string_view name, std::string_view bytes, const Budget& budget,
                        int depth) {
  budget.poll();
  const auto make = [&c](uint32_t dtype, Dims dims, uint64_t extra_bytes) {
    return NewTensor(c, dtype, dims, extra_bytes);
  };
  const tensor_proto::Header header = tensor_proto::ReadHeader(bytes);
  if (header.dtype != TENON_DT_VARIANT) return tensor_proto::Read(bytes, header.dtype, make);
  int64_t found = 0;
  for (WireReader reader(bytes); reader.Next();) found += reader.field() == kVariants ? 1 : 0;
  if (found != Count(Dims(header.dims)))
    Damaged(name, Concat("a tensor in its variant has ", found, " of ", Count(Dims(header.dims)), " elements"));
  KeptTensor variants = NewTensor(c, TENON_DT_VARIANT, header.dims);
  int64_t cell = 0;
  for (WireReader reader(bytes); reader.Next();)
    if (reader.field() == kVariants)
      Data<tenon_variant*>(variants.view())[cell++] = Decode(c, name, reader.delimited(), budget, depth + 1);
  return variants;
}

tenon_variant* Decode(const RunContext& c, std::string_view name, std::string_view bytes, const Budget& budget,
                      int depth) {
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

std::pmr::string EncodeVariant(const RunContext& c, std::string_view name, const tenon_variant* variant,
                               const Budget& budget) {
  return EncodeOne(c, name, variant, budget, 1);
}

tenon_variant* DecodeVariant(const RunContext& c, std::string_view name, std::string_view bytes, const Budget& budget) {
  return Decode(c, name, bytes, budget, 1);
}

}  // namespace tenon::ops::io
