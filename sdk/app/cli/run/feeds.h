// SPDX-License-Identifier: Apache-2.0
// What --feed gives: arrays from files, by the names of tensors.
#ifndef TENON_CLI_RUN_FEEDS_H_
#define TENON_CLI_RUN_FEEDS_H_

#include <string>
#include <string_view>
#include <vector>

#include "sdk/app/cli/tensor_names.h"
#include "tenon/data/file.h"
#include "tenon/model/model_file.h"
#include "tenon/tenon.h"

namespace tenon::cli {

struct Feed {
  std::string name;  // as the user wrote it
  host::Tensor value;
  std::string file;    // "": a default of the signature
  std::string tensor;  // as the graph knows it
};

// texts: NAME=FILE.npy, NAME=FILE.npz, FILE.npz. flag: for messages. The values are not looked at.
host::Result<std::vector<Feed>> ReadArrays(const char* flag, const std::vector<std::string>& texts,
                                           const TensorNames& names, data::ReadLimit& limit);
// Those of --feed. Each is checked against what the signature or the placeholder says of
// it.
host::Result<std::vector<Feed>> ReadFeeds(const std::vector<std::string>& texts, const TensorNames& names,
                                          data::ReadLimit& limit);

// A signature that is run as a whole wants all its inputs, but those that have a default: ends the command (WrongFlag)
// where one is not fed.
void CheckInputs(const std::string& graph, const model::Signature& signature, const std::vector<Feed>& feeds);
// The defaults of inputs that are not fed.
host::Status AddDefaults(const host::Runtime& runtime, const model::Signature& signature, std::vector<Feed>* feeds);
// A stranger's model touches no file. A path may be what the user feeds to a tensor of the graph by its name; an input
// of a signature (nullptr: none) is data.
host::Status CheckFiles(const host::Runtime& runtime, const model::ModelFile& model, const model::Signature* signature,
                        const std::vector<Feed>& feeds, const std::vector<std::string>& runs);

// "x" for "x:0", so that the two names of one tensor are found as one.
std::string_view ShortTensor(std::string_view name);

}  // namespace tenon::cli

#endif  // TENON_CLI_RUN_FEEDS_H_
