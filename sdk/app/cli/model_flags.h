// SPDX-License-Identifier: Apache-2.0
// The options that name a model and a part of it.
#ifndef TENON_CLI_MODEL_FLAGS_H_
#define TENON_CLI_MODEL_FLAGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tenon/model/graph_index.h"
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
  // The signature that is meant: the one that is named; else `serving_default`, or the only one; else none (nullptr),
  // and names are the graph's. Ends the command (WrongFlag) when the named one is not there. It lives as long as the
  // file.
  host::Result<const model::Signature*> Choose(const model::ModelFile& file) const;

 private:
  [[noreturn]] void Refuse(const model::MetaGraph& meta) const;
};

// A model's graph; INVALID_ARGUMENT where the file holds none.
host::Result<model::GraphIndex> IndexOf(const model::ModelFile& file);

}  // namespace tenon::cli

#endif  // TENON_CLI_MODEL_FLAGS_H_
