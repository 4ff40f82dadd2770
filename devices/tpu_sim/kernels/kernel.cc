// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernel.h"

namespace tenon::tpu_sim {
namespace {

int64_t Bytes(const View& view) {
  return sdk::Multiply(sdk::Count(view), static_cast<int64_t>(sdk::ElementSize(view.dtype)));
}

[[noreturn, gnu::cold]] void Misplaced(const sdk::RunContext& c, const void* data, uint64_t bytes, const char* what,
                                       int32_t index) {
  const Device& device = *Device::Of(c.frame()->device);
  const std::shared_ptr<Device> owner = device.system().Owner(data);
  sdk::Fail(TENON_INVALID_ARGUMENT, what, " ", index, " of a kernel on ", device.name(), ", of ", bytes, " bytes, is ",
            owner == nullptr         ? "no device memory"
            : owner.get() == &device ? "in no living block"
                                     : "in the memory of " + owner->name());
}

}  // namespace

Cycles CyclesOf(const Machine& machine, const Effort& effort) {
  if (effort.products == 0) return VectorCycles(machine, effort.operations, effort.read_bytes, effort.written_bytes);
  const Cycles one = MatrixCycles(machine, effort.product);
  Cycles total = VectorCycles(machine, effort.operations, 0, 0);
  for (int64_t Cycles::*part : {&Cycles::matrix, &Cycles::vector, &Cycles::load, &Cycles::stall}) {
    total.*part += sdk::Multiply(one.*part, effort.products);
  }
  return total;
}

Shapes::Shapes(const View* const* inputs, int32_t input_count, const View* const* outputs, int32_t output_count,
               const Device& device, uint32_t precision, uint64_t host_inputs)
    : OperandShapes(inputs, input_count, outputs, output_count, host_inputs), device_(device), precision_(precision) {
  for (int32_t i = 0; i < input_count; ++i) {
    if (!on_host(i)) effort.read_bytes += Bytes(input(i));
  }
  for (int32_t i = 0; i < output_count; ++i) effort.written_bytes += Bytes(output(i));
}

bool Shapes::Rounds(uint32_t dtype) const {
  const Precision precision = device_.options().precision;
  return dtype == TENON_DT_BFLOAT16 || precision == Precision::kBfloat16 ||
         (precision == Precision::kPolicy && precision_ == TENON_PRECISION_ALLOW_BFLOAT16);
}

void Shapes::Matrix(int64_t m, int64_t n, int64_t k, uint32_t dtype, int64_t times) {
  effort.product.m = m;
  effort.product.n = n;
  effort.product.k = k;
  effort.product.input_bytes = effort.product.output_bytes = static_cast<int64_t>(sdk::ElementSize(dtype));
  effort.product.passes = Rounds(dtype) ? 1 : kFloatPasses;
  effort.products += times;
}

char* Address(const sdk::RunContext& c, const View& view, const char* what, int32_t index) {
  if (view.byte_size == 0) return nullptr;
  const char* data = sdk::Data<const char>(view);
  char* at = Device::Of(c.frame()->device)->memory().Locate(data, view.byte_size);
  if (at == nullptr) [[unlikely]] Misplaced(c, data, view.byte_size, what, index);
  return at;
}

Operands OperandsOf(const sdk::RunContext& c, uint64_t host_inputs) {
  const int32_t inputs = c.input_count(), outputs = c.output_count();
  Operands operands(inputs + outputs);
  char** at = operands.at();
  for (int32_t i = 0; i < inputs; ++i) {
    const bool host = i < 64 && (host_inputs >> i & 1) != 0;
    at[i] = host ? nullptr : Address(c, c.input_view(i), "input", i);
  }
  for (int32_t i = 0; i < outputs; ++i) at[inputs + i] = Address(c, c.output_view(i), "output", i);
  return operands;
}

Order OrderOf(const sdk::RunContext& c, const char* op, const Cycles& cost) {
  const tenon_frame& frame = *c.frame();
  if (frame.queue == nullptr) sdk::Fail(TENON_FAILED_PRECONDITION, op, " runs on a TPU; its frame has no queue");
  Order order = {.what = op, .kind = "kernel", .unit = Unit::kCompute, .cost = cost, .label = frame.label};
  order.cost.stall += Device::Of(frame.device)->options().launch_cycles;
  order.timeline = Timeline::Of(frame.timeline);
  return order;
}

void Submit(const sdk::RunContext& c, const PreparedWork& work) {
  Submit(c, work.op, work.cost, [&work, operands = OperandsOf(c, work.host_inputs)] { work.Work(operands.at()); });
}

void Submit(const sdk::RunContext& c, std::unique_ptr<const PreparedWork> work) {
  const PreparedWork& w = *work;
  Submit(c, w.op, w.cost,
         [work = std::move(work), operands = OperandsOf(c, w.host_inputs)] { work->Work(operands.at()); });
}

}  // namespace tenon::tpu_sim
