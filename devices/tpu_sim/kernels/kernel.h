// SPDX-License-Identifier: Apache-2.0
// What the kernels share: a class with a Plan becomes a kernel that submits one piece of work.
//
//   struct Twice {
//     struct Plan {                                                             // what shapes and host arguments
//     decide
//       Plan(const Twice&, Shapes& s) : count(sdk::Count(s.in(0))) { s.Vector(count); }
//       void Work(char* const* at) const { ... at[0] is the input, at[1] the output ... }  // on the queue's thread
//       int64_t count;
//     };
//   };
//   TENON_TPU_KERNEL(Twice) = Kernel<Twice>("Twice", {...});                  // TENON_TPU_PLAIN_KERNEL:
//   PlainKernel<...>
//
// Rules. A class may hold attributes (a constructor from CreateContext). kHostInputs names the arguments that stay on
// the host: Plan reads their values, Work never sees them (its pointer is NULL). Where they are not constant, every run
// plans anew. Work touches nothing but its operands and the plan, which stays until it is done; it fails by sdk::Fail.
// Plan says what the work is (Vector, Matrix); what it moves is known from the shapes; from both come its cycles.
#ifndef TENON_DEVICES_TPU_SIM_KERNELS_KERNEL_H_
#define TENON_DEVICES_TPU_SIM_KERNELS_KERNEL_H_

#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "driver.h"
#include "tenon/sdk/kernel/element.h"
#include "tenon/sdk/kernel/kernel.h"
#include "tenon/extras/kernel/operands.h"

namespace tenon::tpu_sim {

using sdk::Bfloat16;
using sdk::HostInput;
using sdk::Operands;
using sdk::Tag;
using sdk::Types;
using sdk::Wide;
using View = tenon_tensor_view;

using Reals = Types<float, Bfloat16, double>;
using Numbers = Types<float, Bfloat16, double, int32_t, int64_t>;

// What a piece of work asks of the machine.
struct Effort {
  Product product;
  int64_t products = 0;    // how many of them
  int32_t left = 0;        // operand that is the left matrix
  int64_t operations = 0;  // of the vector unit
  int64_t read_bytes = 0, written_bytes = 0;
};
Cycles CyclesOf(const Machine& machine, const Effort& effort);

// Shapes of a node's operands, the values of its host arguments, and what its plan says of the work.
class Shapes : public sdk::OperandShapes {
 public:
  Shapes(const View* const* inputs, int32_t input_count, const View* const* outputs, int32_t output_count,
         const Device& device, uint32_t precision, uint64_t host_inputs);

  const Machine& machine() const { return device_.options().machine; }
  // Whether the matrix unit gets the elements of this type as bfloat16.
  bool Rounds(uint32_t dtype) const;

  void Vector(int64_t operations) { effort.operations += operations; }
  // A product of matrices with elements of this type.
  void Matrix(int64_t m, int64_t n, int64_t k, uint32_t dtype, int64_t times = 1);

  Effort effort;

 private:
  const Device& device_;
  uint32_t precision_;
};

// A plan of any kernel.
class PreparedWork {
 public:
  virtual ~PreparedWork() = default;
  // at: addresses of the inputs, then of the outputs.
  virtual void Work(char* const* at) const = 0;

  const char* op = "";  // static
  bool ready = false;   // planned; else every run does it
  uint32_t precision = 0;
  uint64_t host_inputs = 0;  // bit i: input i stays on the host
  Effort effort;
  Cycles cost;
};

// The op's name as static text.
const char* OpName(std::string_view op);
// The kernel of the op that has a plan; NULL: there is none, or it has no plan.
const tenon_kernel_registration* PlannedKernel(std::string_view op);

// Where the elements of a view are, for work of the frame's device. what and index: for a failure.
char* Address(const sdk::RunContext& c, const View& view, const char* what, int32_t index);
// Those of the frame's inputs and outputs; NULL for inputs whose bit in host_inputs is set.
Operands OperandsOf(const sdk::RunContext& c, uint64_t host_inputs);
// The order for a kernel's work on the frame's queue.
Order OrderOf(const sdk::RunContext& c, const char* op, const Cycles& cost);
template <class Function>
void Submit(const sdk::RunContext& c, const char* op, const Cycles& cost, Function&& run) {
  const Outcome outcome = Queue::Of(c.frame()->queue)->Submit(OrderOf(c, op, cost), std::forward<Function>(run));
  if (!outcome.ok()) sdk::Fail(outcome.code, outcome.message);
}
// Submits planned work on the frame's operands. The second keeps the plan until the work is done.
void Submit(const sdk::RunContext& c, const PreparedWork& work);
void Submit(const sdk::RunContext& c, std::unique_ptr<const PreparedWork> work);

// What the device's clock will say of a run: its launch, and the work that cycles(machine) gives. 0: the query names no
// device.
template <class Function>
double SecondsOf(const sdk::KernelQuery& question, Function&& cycles) {
  if (question.query().device == nullptr) return 0;
  const Options& options = Device::Of(question.query().device)->options();
  return static_cast<double>(cycles(options.machine).total() + options.launch_cycles) / options.machine.clock;
}
// Of a kernel that submits nothing: the least number that is not 0, which would say that nobody knows.
inline constexpr double kNoSeconds = std::numeric_limits<double>::min();

namespace internal {

// K with what the SDK wants of a kernel.
template <class K>
struct Launch {
  explicit Launch(sdk::CreateContext& c) : kernel(Make(c)), op(OpName(c.op())) {}

  struct Plan final : PreparedWork {
    Plan(const Launch& launch, sdk::PrepareContext& c)
        : Plan(launch, c.args().inputs, c.args().input_count, c.args().outputs, c.args().output_count, c.args().device,
               c.args().precision) {}
    Plan(const Launch& launch, const View* const* inputs, int32_t input_count, const View* const* outputs,
         int32_t output_count, const tenon_device* device, uint32_t given_precision) {
      op = launch.op;
      precision = given_precision;
      host_inputs = sdk::HostInputBits<K>(input_count);
      Shapes shapes(inputs, input_count, outputs, output_count, *Device::Of(device), precision, host_inputs);
      if (!shapes.complete()) return;
      plan.emplace(launch.kernel, shapes);
      effort = shapes.effort;
      cost = CyclesOf(shapes.machine(), effort);
      ready = true;
    }
    void Work(char* const* at) const override { plan->Work(at); }
    std::optional<typename K::Plan> plan;
  };

  // 0: it hangs on values that are known only then, or the shapes are those of no plan.
  static double Cost(sdk::KernelQuery& question) {
    const tenon_kernel_query& q = question.query();
    if (q.device == nullptr) return 0;
    const tenon_create_args args = {
        TENON_HEAD(tenon_create_args), q.node_services, q.node, nullptr, nullptr, q.device, q.self};
    sdk::CreateContext create(args);
    try {
      const Launch launch(create);
      if (tenon_status* refused = create.Finish()) throw sdk::KernelError(refused);
      const Plan plan(launch, q.inputs, q.input_count, q.outputs, q.output_count, q.device, q.precision);
      return plan.ready ? SecondsOf(question, [&plan](const Machine&) { return plan.cost; }) : 0;
    } catch (const sdk::KernelError&) {
      return 0;  // who runs the node says it
    }
  }

  void Run(const Plan& plan, sdk::RunContext c) const {
    if (plan.ready) [[likely]] return Submit(c, plan);
    const tenon_frame& f = *c.frame();
    Submit(c, std::make_unique<const Plan>(*this, f.inputs, f.input_count, f.outputs, f.output_count, f.device,
                                           plan.precision));
  }

  static K Make(sdk::CreateContext& c) {
    if constexpr (std::is_constructible_v<K, sdk::CreateContext&>) {
      return K(c);
    } else {
      return K();
    }
  }
  K kernel;
  const char* op;
};

}  // namespace internal

// The registration of a class with a Plan.
template <class K>
constexpr tenon_kernel_registration Kernel(std::string_view op, sdk::Traits traits) {
  traits.device_type = kDeviceType;
  traits.host_memory = sdk::HostInputNames<K>::list;
  return sdk::Registration<internal::Launch<K>>(op, traits);
}
// The registration of a class with a Run of its own.
template <class K>
constexpr tenon_kernel_registration PlainKernel(std::string_view op, sdk::Traits traits) {
  traits.device_type = kDeviceType;
  return sdk::Registration<K>(op, traits);
}

// Defines a kernel of this package: one with a plan, of which a region may be made (compiler.h), or a plain one.
#define TENON_TPU_KERNEL(name)                                        \
  TENON_ENTRY(tenon_tpu_planned, tenon_kernel_registration, k##name##Kernel); \
  TENON_TPU_PLAIN_KERNEL(name)
#define TENON_TPU_PLAIN_KERNEL(name) TENON_KERNEL_OF(tenon_tpu_kernels, k##name##Kernel)

}  // namespace tenon::tpu_sim

#endif  // TENON_DEVICES_TPU_SIM_KERNELS_KERNEL_H_
