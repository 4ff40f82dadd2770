// SPDX-License-Identifier: Apache-2.0
// What --feed gives: arrays from files, by the names of tensors.
#ifndef TENON_CLI_RUN_FEEDS_H_
#define TENON_CLI_RUN_FEEDS_H_

#include <string>
#include <string_view>
#include <vector>

#include "sdk/cli/tensor_names.h"
#include "tenon/data/file.h"
#include "tenon/tenon.h"

namespace tenon::cli {

struct Feed {
  std::string name;  // as the user wrote it
  host::Tensor value;
  std::string file;    // "": a default of the signature
  std::string tensor;  // as the graph knows it
};

// texts: NAME=FILE.npy, NAME=FILE.npz, FILE.npz. flag: for messages. The values are not looked at.
host::Result<std::vector<Feed>> ReadArrays(const char* flag, const std::vector<std::string>& texts, const TensorNames& names, data::ReadLimit& limit);
// Those of --feed. Each is checked against what the signature or the placeholder says of
// it.
host::Result<std::vector<Feed>> ReadFeeds(const std::vector<std::string>& texts, const TensorNames& names,
                                          data::ReadLimit& limit);

// "x" for "x:0", so that the two names of one tensor are found as one.
std::string_view ShortTensor(std::string_view name);

}  // namespace tenon::cli

#endif  // TENON_CLI_RUN_FEEDS_H_
