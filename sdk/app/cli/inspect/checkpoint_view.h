// SPDX-License-Identifier: Apache-2.0
// `tenon inspect` of a checkpoint: its tensors, or the values of one; and of a folder of checkpoints, which there are.
#ifndef TENON_CLI_INSPECT_CHECKPOINT_VIEW_H_
#define TENON_CLI_INSPECT_CHECKPOINT_VIEW_H_

#include <string>

#include "tenon/tenon.h"

namespace tenon::cli {

// values: the tensor to print; "": the list of all.
host::Status InspectCheckpoint(const host::Runtime& runtime, const std::string& path, const std::string& values,
                               bool json);

// A folder that training keeps checkpoints in, or its file `checkpoint`, which lists them.
bool IsCheckpointFolder(const std::string& path);
host::Status InspectCheckpointFolder(const std::string& path, bool json);

}  // namespace tenon::cli

#endif  // TENON_CLI_INSPECT_CHECKPOINT_VIEW_H_
