// SPDX-License-Identifier: Apache-2.0
// The tables of capabilities that plugins bring, as this host knows them: a copy as long as its own, which lives as
// long as the process, with all functions that it calls. INVALID_ARGUMENT says what is wrong with one.
#ifndef TENON_CORE_SESSION_PLUGIN_TABLES_H_
#define TENON_CORE_SESSION_PLUGIN_TABLES_H_

#include "core/base/status.h"
#include "tenon/device.h"
#include "tenon/ext/draft/collective.h"
#include "tenon/ext/draft/compile.h"
#include "tenon/ext/draft/compile_loop.h"
#include "tenon/ext/draft/device_copy.h"
#include "tenon/ext/draft/filesystem.h"
#include "tenon/ext/draft/place.h"
#include "tenon/ext/draft/transport.h"

namespace tenon::session {

Result<const tenon_device_driver*> AdoptDriver(const tenon_device_driver* given);
Result<const tenon_transport*> AdoptTransport(const tenon_transport* given);
Result<const tenon_filesystem*> AdoptFilesystem(const tenon_filesystem* given);
Result<const tenon_placer*> AdoptPlacer(const tenon_placer* given);
Result<const tenon_compiler*> AdoptCompiler(const tenon_compiler* given);
Result<const tenon_loop_compiler*> AdoptLoopCompiler(const tenon_loop_compiler* given);
Result<const tenon_collective*> AdoptCollective(const tenon_collective* given);
Result<const tenon_device_copy*> AdoptDeviceCopy(const tenon_device_copy* given);

}  // namespace tenon::session

#endif  // TENON_CORE_SESSION_PLUGIN_TABLES_H_
