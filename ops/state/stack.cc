// SPDX-License-Identifier: Apache-2.0
// Stacks: values that a loop keeps for its gradient. A stack lives for one step and holds what was pushed
// without copying it, where it already lives in a buffer. Its kernels are the host's, so that what a device made goes
// to the host's memory, and comes back when it is popped: how long a loop may be does not hang on the device's memory.
#include <memory>
#include <mutex>
#include <vector>

#include "tenon/extras/kernel/charge.h"
#include "tenon/sdk/kernel/kept_tensor.h"
#include "tenon/sdk/kernel/resource.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

class Stack {
 public:
  Stack(Charge charge, std::string name, uint32_t element_type, int64_t max_size)
      : charge_(std::move(charge)), name_(std::move(name)), element_type_(element_type), max_size_(max_size) {}

  void Push(KeptTensor tensor) {
    const std::lock_guard lock(mutex_);
    CheckOpen();
    if (max_size_ >= 0 && static_cast<int64_t>(elements_.size()) >= max_size_) {
      Fail(TENON_INVALID_ARGUMENT, "the stack '", name_, "' already holds its max_size of ", max_size_);
    }
    elements_.push_back(std::move(tensor));
  }
  KeptTensor Pop() {
    const std::lock_guard lock(mutex_);
    CheckOpen();
    if (elements_.empty()) {
      Fail(TENON_INVALID_ARGUMENT, "the stack '", name_, "' is empty: more was popped than was pushed");
    }
    KeptTensor tensor = std::move(elements_.back());
    elements_.pop_back();
    return tensor;
  }
  void Close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    elements_.clear();
  }
  void CheckType(uint32_t dtype) const {
    if (dtype != element_type_) {
      Fail(TENON_INVALID_ARGUMENT, "the stack '", name_, "' holds ", TypeName(element_type_), ", not ",
           TypeName(dtype));
    }
  }

 private:
  void CheckOpen() const {
    if (closed_) Fail(TENON_FAILED_PRECONDITION, "the stack '", name_, "' is closed");
  }
  const Charge charge_;  // for this
  const std::string name_;
  const uint32_t element_type_;
  const int64_t max_size_;
  std::mutex mutex_;
  std::vector<KeptTensor> elements_;
  bool closed_ = false;
};

constexpr tenon_span kStackType = TENON_SPAN("tenon.Stack");

Stack& StackOf(const RunContext& c) { return ObjectOf<Stack>(c, c.resource(0), kStackType); }

struct MakeStack {
  explicit MakeStack(CreateContext& c) : element_type(c.Type("elem_type")), name(c.String("stack_name")) {
    if (name.empty()) name = c.name();
  }
  void Run(RunContext c) const {
    tenon_resource* handle = nullptr;
    // A fresh one at every run: in a loop each turn has its own.
    Check(c.services().step_resource(c.frame(), ToSpan("stack"), &handle));
    (void)ObjectOf<Stack>(c, handle, kStackType, [&] {
      return std::make_unique<Stack>(Charge(c, sizeof(Stack) + name.size()), name, element_type, *c.input<int32_t>(0));
    });
    *c.output<tenon_resource*>(0) = handle;
  }
  uint32_t element_type;
  std::string name;
};

struct Push {
  void Run(RunContext c) const {
    Stack& stack = StackOf(c);
    stack.CheckType(c.input_view(1).dtype);
    KeptTensor tensor = KeptTensor::OfInput(c, 1);
    const tenon_tensor_view view = tensor.view();
    Check(c.services().set_output(c.frame(), 0, &view));
    stack.Push(std::move(tensor));
  }
};

struct Pop {
  explicit Pop(CreateContext& c) : element_type(c.Type("elem_type")) {}
  void Run(RunContext c) const {
    Stack& stack = StackOf(c);
    stack.CheckType(element_type);
    KeptTensor tensor = stack.Pop();
    const tenon_tensor_view view = tensor.view();
    Check(c.services().set_output(c.frame(), 0, &view));
  }
  uint32_t element_type;
};

struct Close {
  void Run(RunContext c) const { StackOf(c).Close(); }
};

}  // namespace

TENON_KERNEL(kStackV2Kernel) =
    Registration<MakeStack>("StackV2", {.flags = TENON_KERNEL_STATEFUL | TENON_KERNEL_DETERMINISTIC});
TENON_KERNEL(kStackPushV2Kernel) =
    Registration<Push>("StackPushV2", {.dynamic_outputs = 1, .retained_inputs = 2});
TENON_KERNEL(kStackPopV2Kernel) =
    Registration<Pop>("StackPopV2", {.dynamic_outputs = 1});
TENON_KERNEL(kStackCloseV2Kernel) = Registration<Close>("StackCloseV2", {});

TENON_OP(kStackV2) = DefineOp({
    .name = "StackV2",
    .inputs = "max_size: int32",
    .outputs = "handle: resource",
    .attrs = "elem_type: type; stack_name: string = ''",
    .constraints = "rank(max_size) == 0",
    .roles = "stack",
    .doc = "A new stack that lives until the step ends; a negative max_size is no limit.",
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<ScalarShape>,
});

static void PushShape(ShapeContext& c) { c.SetOutput(0, c.Input(1)); }

TENON_OP(kStackPushV2) = DefineOp({
    .name = "StackPushV2",
    .inputs = "handle: resource, elem: T",
    .outputs = "output: T",
    .attrs = "T: type; swap_memory: bool = false",
    .roles = "stack_push",
    .doc = "Pushes elem onto the stack, and gives it on. What a device made is kept in the host's memory, whatever "
           "swap_memory says.",
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<PushShape>,
});

// What comes out has the shape that went in, which another node knows.
static void PopShape(ShapeContext& c) { c.SetOutput(0, Shape()); }

TENON_OP(kStackPopV2) = DefineOp({
    .name = "StackPopV2",
    .inputs = "handle: resource",
    .outputs = "elem: elem_type",
    .attrs = "elem_type: type",
    .roles = "stack_pop",
    .doc = "Takes what was pushed last from the stack.",
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<PopShape>,
});

TENON_OP(kStackCloseV2) = DefineOp({
    .name = "StackCloseV2",
    .inputs = "handle: resource",
    .doc = "Empties the stack; using it afterwards is an error.",
    .traits = TENON_OP_STATEFUL,
});

}  // namespace tenon::ops
