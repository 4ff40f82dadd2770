// SPDX-License-Identifier: Apache-2.0
// FunctionDef to and from its message, and whether two are the same. Whoever includes this sees no protobuf.
#ifndef TENON_CORE_GRAPH_GRAPHDEF_FUNCTION_PROTO_H_
#define TENON_CORE_GRAPH_GRAPHDEF_FUNCTION_PROTO_H_

#include <string>

#include "core/graph/function/function_def.h"

namespace tensorflow {
class FunctionDef;
}

namespace tenon::graph {

// Without file_bytes. budget: as of TensorFromProto.
Result<FunctionDef> FunctionFromProto(const tensorflow::FunctionDef& proto, int64_t* budget);

// The message's bytes: those of the file, where it was read. False: it is too large for protobuf.
bool WriteFunction(const FunctionDef& function, std::string* out);

// Whether what is known of them here is the same; not which function is their gradient.
bool AreSameFunctions(const FunctionDef& a, const FunctionDef& b);

}  // namespace tenon::graph

#endif  // TENON_CORE_GRAPH_GRAPHDEF_FUNCTION_PROTO_H_
