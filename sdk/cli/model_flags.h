// SPDX-License-Identifier: Apache-2.0
// The options that name a model and a part of it, and the names by which a user may then call its tensors.
#ifndef TENON_CLI_MODEL_FLAGS_H_
#define TENON_CLI_MODEL_FLAGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tenon/model/model_file.h"
#include "tenon/tenon.h"

namespace CLI {
class App;
}

namespace tenon::cli {

struct ModelFlags {
  std::string graph;      // GRAPH
  std::string tags;       // --tags A,B
  std::string signature;  // --signature NAME

  void AddTo(CLI::App& command);
  host::Result<model::ModelFile> Open(uint64_t most_bytes = UINT64_MAX) const;
  // The signature that is meant: the one that is named; else `serving_default`, or the only one; else none (nullptr), and names are the
  // graph's. An error when the named one is not there. It lives as long as the file.
  host::Result<const model::Signature*> Choose(const model::ModelFile& file) const;
};

// A name as the graph knows it: a key of the signature's inputs or outputs, or a tensor of the graph ("node", "node:1").
host::Result<std::string> FeedName(const model::Signature* signature, const std::string& name);
host::Result<std::string> FetchName(const model::Signature* signature, const std::string& name);

}  // namespace tenon::cli

#endif  // TENON_CLI_MODEL_FLAGS_H_
