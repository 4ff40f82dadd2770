// SPDX-License-Identifier: Apache-2.0
// Several arrays in one .npz file: a ZIP archive of .npy files.
//
// Read: stored and deflated members, ZIP64 too; checksums are verified, sizes checked before memory is asked for.
// Encrypted and split archives are refused. Written: stored members, so that a reader can map them.
#ifndef TENON_CLI_NPZ_H_
#define TENON_CLI_NPZ_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/tenon.h"

namespace tenon::cli {

// Names without ".npy", in the archive's order.
using NamedTensors = std::vector<std::pair<std::string, host::Tensor>>;

host::Result<NamedTensors> ParseNpz(std::string_view bytes);
host::Result<NamedTensors> ReadNpz(const std::string& path);
host::Status WriteNpz(const std::string& path, const NamedTensors& tensors);

}  // namespace tenon::cli

#endif  // TENON_CLI_NPZ_H_
