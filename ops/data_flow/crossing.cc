// SPDX-License-Identifier: Apache-2.0
#include "crossing.h"

#include <iterator>
#include <span>

#include "optional.h"
#include "tensor_list.h"
#include "tenon/sdk/answer.h"

namespace tenon::ops {
using namespace sdk;

namespace {

tenon_status* CheckList(tenon_plugin_self*, const tenon_variant_info* info, const tenon_tensor_view* elements,
                        uint64_t told) {
  return Answer([&] {
    const uint32_t dtype = ListType::Decode(ToText(info->metadata)).dtype;
    // Shapes are as those of ScatterInto: whoever reads elements finds out.
    for (const tenon_tensor_view& element : std::span(elements, told))
      if (element.dtype != TENON_DT_INVALID && element.dtype != dtype)
        Fail(TENON_INVALID_ARGUMENT, "element ", &element - elements, " is of type ", TypeName(element.dtype),
             "; the list holds ", TypeName(dtype));
  });
}

tenon_status* CheckOptional(tenon_plugin_self*, const tenon_variant_info* info, const tenon_tensor_view* elements,
                            uint64_t told) {
  return Answer([&] {
    const std::string_view metadata = ToText(info->metadata);
    if (metadata != kSome && !metadata.empty())
      Fail(TENON_INVALID_ARGUMENT, "its metadata of ", metadata.size(),
           " bytes say neither that it has a value nor that it has none");
    if (metadata.empty() && info->element_count > 0)
      Fail(TENON_INVALID_ARGUMENT, "it has no value, and ", info->element_count, " tensors");
    if (told != info->element_count) Fail(TENON_INVALID_ARGUMENT, "of ", info->element_count, " tensors it has ", told);
    for (const tenon_tensor_view& element : std::span(elements, told))
      if (element.dtype == TENON_DT_INVALID)
        Fail(TENON_INVALID_ARGUMENT, "tensor ", &element - elements, " is not there");
  });
}

// ZerosLike and AddN make lists of lists, and optionals of optionals; elements that are variants are lists as a rule.
constexpr tenon_variant_type kList = {
    TENON_HEAD(tenon_variant_type), ToSpan(kListType),
    TENON_SPAN("EmptyTensorList, TensorListReserve, TensorListFromTensor, TensorListSplit, TensorListScatterV2, "
               "TensorListPushBack, TensorListPopBack, TensorListSetItem, "
               "TensorListScatterIntoExistingList, TensorListResize, TensorListGetItem, TensorListStack, "
               "TensorListGather, TensorListConcatV2, ZerosLike, AddN"),
    &CheckList};
constexpr tenon_variant_type kOptional = {
    TENON_HEAD(tenon_variant_type), ToSpan(kOptionalType),
    TENON_SPAN("OptionalNone, OptionalFromValue, OptionalGetValue, IteratorGetNextAsOptional"), &CheckOptional};
constexpr const tenon_variant_type* kTypes[] = {&kList, &kOptional};

}  // namespace

constinit const tenon_variant_package kCrossingVariants = {TENON_HEAD(tenon_variant_package), kTypes,
                                                           std::size(kTypes)};

}  // namespace tenon::ops
