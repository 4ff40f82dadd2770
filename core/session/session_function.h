// SPDX-License-Identifier: Apache-2.0
// SessionFunction: a function of a session's graph as kernels call it: a callable of its body, made when it is first
// called.
//
// It may be kept longer than the session lives. A call enters the session's works, which the session waits for before
// it goes.
#ifndef TENON_CORE_SESSION_SESSION_FUNCTION_H_
#define TENON_CORE_SESSION_SESSION_FUNCTION_H_

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "core/exec/kernel/kernel_instance.h"
#include "core/exec/work/function.h"
#include "core/exec/work/session_works.h"
#include "core/graph/function/function_body.h"
#include "core/optimize/optimize.h"
#include "core/session/run_options.h"

namespace tenon::session {

class Callable;

// Calls of functions on one thread that lie in one another, at most.
inline constexpr int kMostNestedCalls = 32;

// What a session does for its functions, for who has entered its works.
struct FunctionHost {
  std::shared_ptr<exec::SessionWorks> works;
  BufferPool* pool;
  std::function<graph::Graph()> empty_graph;  // with the library of the session's graph
  std::function<Result<std::shared_ptr<Callable>>(const graph::Graph& graph, optimize::Request request,
                                                  const RunOptions& options, exec::KernelStore* store)>
      prepare;
};

// What the session has of it.
class FunctionCode {
 public:
  // ref: bound to `definition`; device: of the body's nodes that name none.
  FunctionCode(FunctionHost host, graph::FunctionRef ref, std::shared_ptr<const graph::FunctionDef> definition,
               graph::FunctionSignature signature, std::string device);
  Status Call(Cancellation* cancellation, std::span<const tenon_tensor_view* const> arguments,
              std::span<const tenon_tensor_view* const> places, std::span<tenon_tensor_view> out_results);
  const graph::FunctionSignature& signature() const { return signature_; }
  // The session closes, and nobody is in a call.
  void Drop();

 private:
  Result<std::shared_ptr<Callable>> Ready(Cancellation* cancellation);
  Result<std::shared_ptr<Callable>> Make(Cancellation* cancellation);

  const FunctionHost host_;
  const graph::FunctionRef ref_;
  const std::shared_ptr<const graph::FunctionDef> definition_;
  const graph::FunctionSignature signature_;
  const std::string device_;
  exec::KernelStore store_;  // of its own: the names of a body's nodes are those of other calls' too
  std::mutex mutex_;
  std::shared_ptr<Callable> callable_;
};

struct SessionFunction : tenon_function {
  explicit SessionFunction(std::shared_ptr<FunctionCode> code, std::string of) : code_(std::move(code)) {
    name = std::move(of);
    argument_types = code_->signature().arguments;
    result_types = code_->signature().results;
  }
  Status Call(Cancellation* cancellation, std::span<const tenon_tensor_view* const> arguments,
              std::span<const tenon_tensor_view* const> places, std::span<tenon_tensor_view> out_results) override {
    return code_->Call(cancellation, arguments, places, out_results);
  }

 private:
  const std::shared_ptr<FunctionCode> code_;
};

}  // namespace tenon::session

#endif  // TENON_CORE_SESSION_SESSION_FUNCTION_H_
