// SPDX-License-Identifier: Apache-2.0
#include "core/session/session_function.h"

#include <utility>
#include <vector>

#include "core/graph/builder.h"
#include "core/graph/function/function_def.h"
#include "core/graph/graph.h"
#include "core/graph/node_name.h"
#include "core/session/callable.h"

namespace tenon::session {
namespace {

thread_local int nested = 0;

struct Nested {
  Nested() { ++nested; }
  ~Nested() { --nested; }
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;
};

}  // namespace

FunctionCode::FunctionCode(FunctionHost host, graph::FunctionRef ref,
                           std::shared_ptr<const graph::FunctionDef> definition, graph::FunctionSignature signature,
                           std::string device)
    : host_(std::move(host)),
      ref_(std::move(ref)),
      definition_(std::move(definition)),
      signature_(std::move(signature)),
      device_(std::move(device)) {}

Status FunctionCode::Call(Cancellation* cancellation, std::span<const tenon_tensor_view* const> arguments,
                          std::span<const tenon_tensor_view* const> places, std::span<tenon_tensor_view> out_results) {
  const exec::SessionWorks::Entered entered(host_.works.get());
  if (!entered) return entered.why();
  if (nested == kMostNestedCalls)
    return ResourceExhausted(StrCat("function '", ref_.name,
                                    "' is called by functions that lie in one another deeper than ", kMostNestedCalls,
                                    "; a recursion needs an end, or a loop"));
  const Nested deeper;
  auto callable = Ready(cancellation);
  RunOptions options;
  options.cancellation = cancellation;
  Status status = callable.ok() ? (*callable)->RunKept(options, arguments.data(), host_.pool, places, out_results)
                                : callable.status();
  return status.ok() ? status : std::move(status).Annotate(StrCat("function '", ref_.name, "'"));
}

// Who finds none makes one, and the first is kept: to wait for another maker could be to wait for each other.
Result<std::shared_ptr<Callable>> FunctionCode::Ready(Cancellation* cancellation) {
  {
    std::lock_guard lock(mutex_);
    if (callable_ != nullptr) return callable_;
  }
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<Callable> made, Make(cancellation));
  std::lock_guard lock(mutex_);
  if (callable_ == nullptr) callable_ = std::move(made);
  return callable_;
}

// What nodes of the function are called below: a function's name may have what a node's may not, as
// "__inference_<lambda>_7".
static std::string ScopeOf(std::string name) {
  for (char& c : name)
    if (!graph::IsValidNodeName(std::string("_") + c)) c = '_';
  return graph::IsValidNodeName(name) ? name : StrCat("f", name);
}

Result<std::shared_ptr<Callable>> FunctionCode::Make(Cancellation* cancellation) {
  graph::Graph graph = host_.empty_graph();
  graph::Builder builder(&graph);
  optimize::Request request;
  for (size_t i = 0; i < signature_.arguments.size(); ++i) {
    graph::AttrMap attrs{{"T", graph::AttrValue::Type(signature_.arguments[i])},
                         {"index", graph::AttrValue::Int(static_cast<int64_t>(i))}};
    TENON_ASSIGN_OR_RETURN(const graph::NodeId id,
                           builder.AddRole("argument", {}, std::move(attrs), StrCat("argument_", i)));
    request.feeds.push_back({id, 0});
  }
  graph::CallSite site{"a kernel's call",
                       ScopeOf(ref_.name),
                       StrCat("function ", ref_.name),
                       device_,
                       request.feeds,
                       signature_.results,
                       ref_.attrs ? *ref_.attrs : graph::AttrMap(),
                       {},
                       false,
                       {}};
  TENON_RETURN_IF_ERROR(graph::AddFunctionBody(&graph, site, *definition_, &request.fetches, &request.targets));
  RunOptions options;
  options.cancellation = cancellation;
  return host_.prepare(graph, std::move(request), options, &store_);
}

void FunctionCode::Drop() {
  std::shared_ptr<Callable> dropped;  // goes without the lock
  {
    std::lock_guard lock(mutex_);
    dropped.swap(callable_);
  }
  dropped.reset();
  store_.Clear();
}

}  // namespace tenon::session
