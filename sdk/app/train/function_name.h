// SPDX-License-Identifier: Apache-2.0
// A name for a function that a graph has not yet.
#ifndef TENON_SDK_TRAIN_FUNCTION_NAME_H_
#define TENON_SDK_TRAIN_FUNCTION_NAME_H_

#include <string>

#include "tenon/train/base.h"

namespace tenon::train {

// The wish itself where it is free, else the wish and a number.
inline std::string FreeFunctionName(const Graph& graph, const std::string& wish) {
  std::string name = wish;
  for (int i = 1; host::FindFunction(graph, name).ok(); ++i) name = wish + "_" + std::to_string(i);
  return name;
}

}  // namespace tenon::train

#endif  // TENON_SDK_TRAIN_FUNCTION_NAME_H_
