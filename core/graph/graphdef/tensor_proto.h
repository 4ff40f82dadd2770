// SPDX-License-Identifier: Apache-2.0
// TensorProto, AttrValue and shapes to and from the core's types.
#ifndef TENON_CORE_GRAPH_GRAPHDEF_TENSOR_PROTO_H_
#define TENON_CORE_GRAPH_GRAPHDEF_TENSOR_PROTO_H_

#include "core/graph/attr.h"
#include "core/graph/graphdef/graph.pb.h"

namespace tenon::graph {

// budget: bytes that constants may still take beyond what the file itself holds; reduced by what this one takes.
Result<Tensor> TensorFromProto(const tensorflow::TensorProto& proto, int64_t* budget);
void TensorToProto(const Tensor& tensor, tensorflow::TensorProto* proto);

Result<Shape> ShapeFromProto(const tensorflow::TensorShapeProto& proto);
void ShapeToProto(const Shape& shape, tensorflow::TensorShapeProto* proto);

Result<AttrValue> AttrFromProto(const tensorflow::AttrValue& proto, int64_t* budget);
void AttrToProto(const AttrValue& value, tensorflow::AttrValue* proto);

}  // namespace tenon::graph

#endif  // TENON_CORE_GRAPH_GRAPHDEF_TENSOR_PROTO_H_
