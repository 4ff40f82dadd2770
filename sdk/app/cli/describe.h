// SPDX-License-Identifier: Apache-2.0
// Types, shapes and signatures in the words of those who give arrays: NumPy's.
#ifndef TENON_CLI_DESCRIBE_H_
#define TENON_CLI_DESCRIBE_H_

#include <string>

#include "sdk/app/cli/json.h"
#include "tenon/model/meta_graph.h"
#include "tenon/tenon.h"

namespace tenon::cli {

// "float32", where the engine says "float"; "?" of none.
std::string DTypeText(host::DType dtype);
// "float32[?,3]"
std::string TensorText(host::DType dtype, const host::Shape& shape);
// [-1, 3]; null where not even the rank is known.
Json ShapeJson(const host::Shape& shape);

// "x float32[?,3], scale float32[] (has a default)", or "none".
std::string InfosText(const std::vector<model::TensorInfo>& infos);
// "predict (x float32[?,3]) -> (y float32[?,2])", of all of them, with "; " between.
std::string SignaturesText(const std::vector<model::Signature>& signatures);

}  // namespace tenon::cli

#endif  // TENON_CLI_DESCRIBE_H_
