// SPDX-License-Identifier: Apache-2.0
// Tensors and attributes as the case files write them.
//
// A tensor is [dtype, dims, bytes]: little-endian elements in base64, of which one element alone stands for all of
// them; strings are a list of base64. For those that people write: a list of numbers instead of bytes, and "text" for
// strings as they are. An attribute is {kind: value}: {"int": 3}, {"type": "float"}, {"ints": [1, 2]}.
#ifndef TENON_TESTS_GOLDEN_TENSOR_JSON_H_
#define TENON_TESTS_GOLDEN_TENSOR_JSON_H_

#include <nlohmann/json.hpp>
#include <string>

#include "tenon/tenon.h"
#include "tests/golden/base64.h"

namespace tenon::golden {

using Json = nlohmann::json;

// A tensor, or why the text is none.
host::Result<host::Tensor> TensorFrom(const Json& json);
host::Result<host::Attr> AttrFrom(const std::string& name, const Json& json);

}  // namespace tenon::golden

#endif  // TENON_TESTS_GOLDEN_TENSOR_JSON_H_
