// SPDX-License-Identifier: Apache-2.0
// The host's table: what every plugin gets.
#include "core/base/log.h"
#include "core/files/files.h"
#include "core/session/runtime.h"
#include "core/tensor/buffer.h"
#include "tenon/ext/draft/keeping.h"
#include "tenon/ext/files.h"

namespace tenon::session {
namespace {

tenon_status* StatusNew(uint32_t code, tenon_span message) {
  const uint32_t known = code > TENON_OK && code <= TENON_UNAUTHENTICATED ? code : TENON_UNKNOWN;
  try {
    return Status(static_cast<Code>(known), std::string(View(message))).release();
  } catch (const std::bad_alloc&) {  // nothing is thrown at a plugin
    return OutOfMemoryStatus();
  }
}
uint32_t StatusCode(const tenon_status* status) { return status == nullptr ? TENON_OK : status->code; }
tenon_span StatusMessage(const tenon_status* status) {
  return status == nullptr ? tenon_span{nullptr, 0} : Span(status->message);
}
void StatusRelease(tenon_status* status) { ReleaseStatus(status); }
void HostLog(uint32_t level, tenon_span message) { Log(level, View(message)); }
void BufferRetain(tenon_buffer* buffer) { Retain(buffer); }
void BufferRelease(tenon_buffer* buffer) { Release(buffer); }

// ---- Keeping: an account is a pool ----

BufferPool* PoolOf(tenon_account* account) { return reinterpret_cast<BufferPool*>(account); }
tenon_status* Keep(tenon_buffer* buffer, uint64_t bytes) {
  return Guarded([&] { return buffer->pool->ChargeOutside(bytes); }).release();
}
void DropKept(tenon_buffer* buffer, uint64_t bytes) {
  buffer->pool->RefundOutside(bytes);
  Release(buffer);
}
tenon_account* AccountOf(tenon_buffer* buffer) {
  buffer->pool->Ref();
  return reinterpret_cast<tenon_account*>(buffer->pool);
}
void AccountRetain(tenon_account* account) { PoolOf(account)->Ref(); }
void AccountRelease(tenon_account* account) { PoolOf(account)->Unref(); }
tenon_status* ChargeAccount(tenon_account* account, uint64_t bytes) {
  return Guarded([&] { return PoolOf(account)->ChargeOutside(bytes); }).release();
}
void RefundAccount(tenon_account* account, uint64_t bytes) { PoolOf(account)->RefundOutside(bytes); }

const tenon_keeping* Keeping() {
  static constexpr tenon_keeping table = {
      TENON_HEAD(tenon_keeping), &Keep,          &DropKept,     &AccountOf, &AccountRetain,
      &AccountRelease,           &ChargeAccount, &RefundAccount};
  return &table;
}

const void* GetExtension(tenon_span id) {
  if (View(id) == TENON_EXTENSION_FILES) return files::Files();
  if (View(id) == TENON_EXTENSION_KEEPING) return Keeping();
  return nullptr;
}

}  // namespace

const tenon_host* HostTable() {
  static const tenon_host table = {TENON_HEAD(tenon_host), TENON_ABI_MAJOR, TENON_ABI_MINOR, TENON_LAYOUT_HASH,
                                   TENON_SPAN("0.1.0"),    &StatusNew,      &StatusCode,     &StatusMessage,
                                   &StatusRelease,         &HostLog,        &BufferRetain,   &BufferRelease,
                                   &GetExtension};
  return &table;
}

}  // namespace tenon::session
