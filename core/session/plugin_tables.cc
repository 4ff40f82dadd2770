// SPDX-License-Identifier: Apache-2.0
#include "core/session/plugin_tables.h"

#include <utility>

#include "core/base/adopt.h"
#include "core/base/table_check.h"

namespace tenon::session {

Result<const tenon_device_driver*> AdoptDriver(const tenon_device_driver* given) {
  using Driver = tenon_device_driver;
  TENON_RETURN_IF_ERROR(CheckHead(given, TENON_SIZE_UP_TO(Driver, device_type), TENON_CAPABILITY_DEVICE));
  const Driver* driver = Adopt(given);
  TENON_RETURN_IF_ERROR(CheckName(driver->device_type, "the device_type of a driver"));
  const std::string what = StrCat("the driver of ", View(driver->device_type));
  if (driver->reserved != 0)
    return Unimplemented(
        StrCat(what, " has ", driver->reserved, " in its reserved member, which this host knows as 0 alone"));
  static constexpr TableFunction kNeeded[] = {
      TENON_TABLE_FUNCTION(Driver, count),      TENON_TABLE_FUNCTION(Driver, open),
      TENON_TABLE_FUNCTION(Driver, properties), TENON_TABLE_FUNCTION(Driver, memory_kind),
      TENON_TABLE_FUNCTION(Driver, allocate),   TENON_TABLE_FUNCTION(Driver, free)};
  TENON_RETURN_IF_ERROR(CheckFunctions(driver, given->struct_size, kNeeded, what));
  if (driver->queue_create == nullptr && driver->semaphore_create == nullptr) return driver;
  static constexpr TableFunction kOfQueues[] = {
      TENON_TABLE_FUNCTION(Driver, queue_create),      TENON_TABLE_FUNCTION(Driver, queue_destroy),
      TENON_TABLE_FUNCTION(Driver, queue_copy),        TENON_TABLE_FUNCTION(Driver, queue_barrier),
      TENON_TABLE_FUNCTION(Driver, queue_host_call),   TENON_TABLE_FUNCTION(Driver, semaphore_create),
      TENON_TABLE_FUNCTION(Driver, semaphore_destroy), TENON_TABLE_FUNCTION(Driver, semaphore_query),
      TENON_TABLE_FUNCTION(Driver, semaphore_fail),    TENON_TABLE_FUNCTION(Driver, semaphore_wait)};
  TENON_RETURN_IF_ERROR(CheckFunctions(driver, given->struct_size, kOfQueues, StrCat(what, ", which has queues,")));
  return driver;
}

Result<const tenon_transport*> AdoptTransport(const tenon_transport* given) {
  using Table = tenon_transport;
  TENON_RETURN_IF_ERROR(CheckHead(given, TENON_SIZE_UP_TO(Table, scheme), TENON_CAPABILITY_TRANSPORT));
  const Table* transport = Adopt(given);
  TENON_RETURN_IF_ERROR(CheckName(transport->scheme, "the scheme of a transport"));
  static constexpr TableFunction kNeeded[] = {
      TENON_TABLE_FUNCTION(Table, open),         TENON_TABLE_FUNCTION(Table, address),
      TENON_TABLE_FUNCTION(Table, connect),      TENON_TABLE_FUNCTION(Table, disconnect),
      TENON_TABLE_FUNCTION(Table, peer_name),    TENON_TABLE_FUNCTION(Table, call),
      TENON_TABLE_FUNCTION(Table, cancel),       TENON_TABLE_FUNCTION(Table, respond),
      TENON_TABLE_FUNCTION(Table, stream_open),  TENON_TABLE_FUNCTION(Table, stream_write),
      TENON_TABLE_FUNCTION(Table, stream_close), TENON_TABLE_FUNCTION(Table, send),
      TENON_TABLE_FUNCTION(Table, drain),        TENON_TABLE_FUNCTION(Table, stop)};
  TENON_RETURN_IF_ERROR(
      CheckFunctions(transport, given->struct_size, kNeeded, StrCat("the transport '", View(transport->scheme), "'")));
  return transport;
}

Result<const tenon_filesystem*> AdoptFilesystem(const tenon_filesystem* given) {
  using Table = tenon_filesystem;
  TENON_RETURN_IF_ERROR(CheckHead(given, TENON_SIZE_UP_TO(Table, scheme), TENON_CAPABILITY_FILESYSTEM));
  const Table* filesystem = Adopt(given);
  TENON_RETURN_IF_ERROR(CheckName(filesystem->scheme, "the scheme of a file system"));
  static constexpr TableFunction kNeeded[] = {
      TENON_TABLE_FUNCTION(Table, open_read),      TENON_TABLE_FUNCTION(Table, open_write),
      TENON_TABLE_FUNCTION(Table, open_append),    TENON_TABLE_FUNCTION(Table, size),
      TENON_TABLE_FUNCTION(Table, read_at),        TENON_TABLE_FUNCTION(Table, write),
      TENON_TABLE_FUNCTION(Table, sync),           TENON_TABLE_FUNCTION(Table, close),
      TENON_TABLE_FUNCTION(Table, rename),         TENON_TABLE_FUNCTION(Table, remove),
      TENON_TABLE_FUNCTION(Table, make_directory), TENON_TABLE_FUNCTION(Table, sync_directory),
      TENON_TABLE_FUNCTION(Table, exists),         TENON_TABLE_FUNCTION(Table, list)};
  TENON_RETURN_IF_ERROR(CheckFunctions(filesystem, given->struct_size, kNeeded,
                                       StrCat("the file system '", View(filesystem->scheme), "'")));
  return filesystem;
}

Result<const tenon_placer*> AdoptPlacer(const tenon_placer* given) {
  TENON_RETURN_IF_ERROR(CheckHead(given, sizeof(uint32_t) * 2, TENON_CAPABILITY_PLACER));
  const tenon_placer* placer = Adopt(given);
  static constexpr TableFunction kNeeded[] = {TENON_TABLE_FUNCTION(tenon_placer, place)};
  TENON_RETURN_IF_ERROR(CheckFunctions(placer, given->struct_size, kNeeded, "a placer"));
  return placer;
}

Result<const tenon_compiler*> AdoptCompiler(const tenon_compiler* given) {
  TENON_RETURN_IF_ERROR(CheckHead(given, TENON_SIZE_UP_TO(tenon_compiler, device_type), TENON_CAPABILITY_COMPILER));
  const tenon_compiler* compiler = Adopt(given);
  TENON_RETURN_IF_ERROR(CheckName(compiler->device_type, "the device_type of a compiler"));
  static constexpr TableFunction kNeeded[] = {
      TENON_TABLE_FUNCTION(tenon_compiler, claim), TENON_TABLE_FUNCTION(tenon_compiler, compile),
      TENON_TABLE_FUNCTION(tenon_compiler, destroy), TENON_TABLE_FUNCTION(tenon_compiler, run)};
  TENON_RETURN_IF_ERROR(
      CheckFunctions(compiler, given->struct_size, kNeeded, StrCat("the compiler for ", View(compiler->device_type))));
  return compiler;
}

Result<const tenon_loop_compiler*> AdoptLoopCompiler(const tenon_loop_compiler* given) {
  TENON_RETURN_IF_ERROR(
      CheckHead(given, TENON_SIZE_UP_TO(tenon_loop_compiler, device_type), TENON_CAPABILITY_LOOP_COMPILER));
  const tenon_loop_compiler* compiler = Adopt(given);
  TENON_RETURN_IF_ERROR(CheckName(compiler->device_type, "the device_type of a compiler of loops"));
  static constexpr TableFunction kNeeded[] = {TENON_TABLE_FUNCTION(tenon_loop_compiler, compile),
                                              TENON_TABLE_FUNCTION(tenon_loop_compiler, destroy),
                                              TENON_TABLE_FUNCTION(tenon_loop_compiler, run)};
  TENON_RETURN_IF_ERROR(CheckFunctions(compiler, given->struct_size, kNeeded,
                                       StrCat("the compiler of loops for ", View(compiler->device_type))));
  return compiler;
}

Result<const tenon_collective*> AdoptCollective(const tenon_collective* given) {
  using Table = tenon_collective;
  TENON_RETURN_IF_ERROR(CheckHead(given, TENON_SIZE_UP_TO(Table, device_type), TENON_CAPABILITY_COLLECTIVE));
  const Table* collective = Adopt(given);
  TENON_RETURN_IF_ERROR(CheckName(collective->device_type, "the device_type of collectives"));
  static constexpr TableFunction kNeeded[] = {TENON_TABLE_FUNCTION(Table, make_token),
                                              TENON_TABLE_FUNCTION(Table, join), TENON_TABLE_FUNCTION(Table, leave)};
  TENON_RETURN_IF_ERROR(CheckFunctions(collective, given->struct_size, kNeeded,
                                       StrCat("the collectives for ", View(collective->device_type))));
  return collective;
}

Result<const tenon_device_copy*> AdoptDeviceCopy(const tenon_device_copy* given) {
  using Table = tenon_device_copy;
  TENON_RETURN_IF_ERROR(CheckHead(given, TENON_SIZE_UP_TO(Table, target_type), TENON_CAPABILITY_DEVICE_COPY));
  const Table* copy = Adopt(given);
  TENON_RETURN_IF_ERROR(CheckName(copy->source_type, "the source_type of copies between devices"));
  TENON_RETURN_IF_ERROR(CheckName(copy->target_type, "the target_type of copies between devices"));
  const std::string what = StrCat("the copies from ", View(copy->source_type), " to ", View(copy->target_type));
  for (const auto& [name, number] :
       {std::pair("seconds", copy->seconds), std::pair("bytes_per_second", copy->bytes_per_second)})
    if (!IsMeasure(number)) return InvalidArgument(StrCat(what, " have the ", name, " ", number, kWantedMeasure));
  static constexpr TableFunction kNeeded[] = {TENON_TABLE_FUNCTION(Table, reaches), TENON_TABLE_FUNCTION(Table, copy)};
  TENON_RETURN_IF_ERROR(CheckFunctions(copy, given->struct_size, kNeeded, what));
  return copy;
}

}  // namespace tenon::session
