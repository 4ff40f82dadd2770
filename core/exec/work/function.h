// SPDX-License-Identifier: Apache-2.0
// Function: a function of a graph's library as a kernel calls it; the session that has the graph runs it.
#ifndef TENON_CORE_EXEC_WORK_FUNCTION_H_
#define TENON_CORE_EXEC_WORK_FUNCTION_H_

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/tensor/dtype.h"
#include "tenon/kernel.h"

namespace tenon {
class Cancellation;
}

// The C ABI's opaque function. It may outlive its session: then it refuses to run.
struct tenon_function {
  tenon_function() = default;
  tenon_function(const tenon_function&) = delete;
  tenon_function& operator=(const tenon_function&) = delete;
  virtual ~tenon_function() = default;

  // A step. arguments: in host memory, as many as there are argument types. places: none, or for each result nullptr or
  // where it goes if it is of that dtype and shape. out_results: as many as there are result types; each gets a buffer
  // with a reference for the caller, or none when it lies in its place or when it fails.
  virtual tenon::Status Call(tenon::Cancellation* cancellation, std::span<const tenon_tensor_view* const> arguments,
                             std::span<const tenon_tensor_view* const> places,
                             std::span<tenon_tensor_view> out_results) = 0;

  std::string name;
  std::vector<tenon::DType> argument_types, result_types;  // fixed
  std::atomic<int64_t> references{1};
  tenon_function* next = nullptr;  // of those to let go of, once nobody has it
};

#endif  // TENON_CORE_EXEC_WORK_FUNCTION_H_
