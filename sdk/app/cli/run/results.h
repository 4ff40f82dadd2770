// SPDX-License-Identifier: Apache-2.0
// What --fetch asks for: into files, or printed.
#ifndef TENON_CLI_RUN_RESULTS_H_
#define TENON_CLI_RUN_RESULTS_H_

#include <string>
#include <vector>

#include "sdk/app/cli/json.h"
#include "sdk/app/cli/tensor_names.h"
#include "tenon/tenon.h"

namespace tenon::cli {

struct Fetch {
  std::string name;
  std::string file;    // empty: printed
  std::string tensor;  // as the graph knows it
};

// texts: NAME, NAME=FILE.npy, NAME=FILE.npz; of a whole signature all that it gives.
host::Result<std::vector<Fetch>> ReadFetches(const std::vector<std::string>& texts, const TensorNames& names);
host::Result<std::vector<Fetch>> FetchesOf(const model::Signature& signature);

// As many values as fetches.
host::Status WriteFiles(const std::vector<Fetch>& fetches, const std::vector<host::Tensor>& values,
                        const TensorNames& names);
void PrintValues(const std::vector<Fetch>& fetches, const std::vector<host::Tensor>& values);
Json ValuesJson(const std::vector<Fetch>& fetches, const std::vector<host::Tensor>& values);

}  // namespace tenon::cli

#endif  // TENON_CLI_RUN_RESULTS_H_
