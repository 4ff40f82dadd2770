// SPDX-License-Identifier: Apache-2.0
#include "core/exec/kernel/prepare_services.h"

#include "core/base/plugin_call.h"
#include "core/exec/device/device.h"
#include "core/exec/device/environment.h"
#include "core/exec/kernel/tuning_cache.h"
#include "core/tensor/allowance.h"
#include "core/tensor/buffer.h"

namespace tenon::exec {
namespace {

// The pieces with their lengths: what one plugin keeps is no other's, whatever its keys are.
Status FullKey(const tenon_prepare_context& context, tenon_span key, std::string* out) {
  if (context.env.tuning == nullptr) return NotFound("nothing is kept here");
  if (key.size == 0 || key.data == nullptr || key.size > TuningCache::kLargestKey)
    return InvalidArgument(StrCat("a key of ", key.size, " bytes; 1 to ", TuningCache::kLargestKey, " are allowed"));
  const Device* const device = context.device == nullptr ? nullptr : context.device->device;
  const std::string_view pieces[] = {context.plugin, VersionOfPlugin(context.plugin),
                                     device == nullptr ? std::string_view() : device->type,
                                     device == nullptr ? std::string_view() : device->model, View(key)};
  for (std::string_view piece : pieces) out->append(std::to_string(piece.size())).append(1, ':').append(piece);
  return Status::Ok();
}

tenon_status* CacheGet(tenon_prepare_context* context, tenon_span key, tenon_span* out_value) {
  return Guarded([&]() -> Status {
    std::string full;
    TENON_RETURN_IF_ERROR(FullKey(*context, key, &full));
    TENON_ASSIGN_OR_RETURN(std::string value, context->env.tuning->Get(full));
    const std::string& kept = context->answers.emplace_back(std::move(value));
    *out_value = {kept.data(), kept.size()};
    return Status::Ok();
  }).release();
}

tenon_status* CachePut(tenon_prepare_context* context, tenon_span key, tenon_span value) {
  return Guarded([&]() -> Status {
    std::string full;
    TENON_RETURN_IF_ERROR(FullKey(*context, key, &full));
    if (value.size > TuningCache::kLargestValue || (value.data == nullptr && value.size > 0))
      return InvalidArgument(
          StrCat("a value of ", value.size, " bytes; at most ", TuningCache::kLargestValue, " are kept"));
    context->env.tuning->Put(full, View(value));
    return Status::Ok();
  }).release();
}

tenon_status* Scratch(tenon_prepare_context* context, uint64_t bytes, void** out_address) {
  return Guarded([&]() -> Status {
           BufferPool* const pool =
               context->device != nullptr && context->device->queued() ? context->device->pool : context->env.pool;
           if (pool == nullptr) return Unimplemented("there is no memory to lend here");
           context->scratch.reserve(context->scratch.size() + 1);
           TENON_ASSIGN_OR_RETURN(tenon_buffer* const buffer, pool->Allocate(bytes, {nullptr, 0, 0}));
           context->scratch.push_back(buffer);
           *out_address = buffer->data;
           return Status::Ok();
         })
      .release();
}

uint32_t IsPreparingCancelled(tenon_prepare_context*) { return CheckAllowance().ok() ? 0 : 1; }

}  // namespace

const tenon_prepare_services* PrepareServices() {
  static const tenon_prepare_services services = {TENON_HEAD(tenon_prepare_services), &CacheGet, &CachePut, &Scratch,
                                                  &IsPreparingCancelled};
  return &services;
}

}  // namespace tenon::exec

tenon_prepare_context::~tenon_prepare_context() {
  for (tenon_buffer* const buffer : scratch) tenon::Release(buffer);
}
