// SPDX-License-Identifier: Apache-2.0
// Runs kernels of a device, and those of a reference on the host, which say what is right.
//
//   const DeviceCase add = {"AddV2", {}, {Make<float>({2, 1}, {1, 2}), Make<float>({3}, {1, 2, 3})}, {{TENON_DT_FLOAT,
//       {2, 3}}}};
//   DeviceBench bench(library, {{"devices", "1"}}, 0, cpu);
//   ExpectEq(bench.OnDevice(add, &outputs), "");       // "" or the failure; the outputs come back from the device
//   ExpectEq(Compare(bench, add, 1e-6), "");           // against the reference's kernel
//
// Inputs in `host` stay in the host's memory, as the registration's host_memory_args say. Variables are inputs
// VariableInput(): which ones is said at the run, in their order. Their values lie in the device's memory for the
// device's kernels. One thread at a time.
#ifndef TENON_TESTING_DEVICE_BENCH_H_
#define TENON_TESTING_DEVICE_BENCH_H_

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tenon/testing/device.h"
#include "tenon/testing/kernel_case.h"

namespace tenon::testing {

// Stands for a variable that the run names.
inline Tensor VariableInput() { return {TENON_DT_RESOURCE, {}, Bytes()}; }

struct DeviceCase {
  std::string op;
  Attributes attributes = {};  // T is the first input's type, unless it is said
  std::vector<Tensor> inputs = {};
  std::vector<Tensor> outputs = {};  // dtypes and dims
  std::vector<int> host = {};        // inputs that stay on the host
  std::vector<int> host_outputs = {};
  uint32_t precision = TENON_PRECISION_STRICT;
  bool constant = true;  // host inputs are known to prepare()

  Node node() const {
    Node made = {op, attributes};
    uint32_t base = TENON_DT_FLOAT;
    for (auto input = inputs.rbegin(); input != inputs.rend(); ++input)
      base = input->dtype != TENON_DT_RESOURCE ? input->dtype : base;
    if (!inputs.empty()) made.attributes.try_emplace("T", Type{base});
    for (const Tensor& input : inputs) made.input_types.push_back(input.dtype);
    for (const Tensor& output : outputs) made.output_types.push_back(output.dtype);
    return made;
  }
};

inline bool Holds(const std::vector<int>& indices, size_t index) {
  return std::find(indices.begin(), indices.end(), static_cast<int>(index)) != indices.end();
}

class DeviceBench {
 public:
  using Variables = std::vector<tenon_resource*>;

  DeviceBench(const Library& tested_library, const Settings& settings, uint32_t index, const Library& reference)
      : plugin_(tested_library, settings), reference_(reference), device(plugin_, index), queue(device.Queue()),
        tested(*tested_library.Capability<tenon_kernel_package>(TENON_CAPABILITY_KERNELS)),
        expected(*reference.Capability<tenon_kernel_package>(TENON_CAPABILITY_KERNELS)) {}

  // Gives "" or the failure, also a late one; then the outputs.
  std::string OnDevice(const DeviceCase& given, std::vector<Tensor>* out_outputs, const Variables& variables = {}) {
    const tenon_kernel_registration* const kernel = FindKernel(tested, given.node());
    if (kernel == nullptr) return "no kernel";
    std::vector<Tensor> inputs = InputsOf(given, variables), outputs = given.outputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!Holds(given.host, i) && inputs[i].dtype != TENON_DT_RESOURCE) inputs[i] = Uploaded(inputs[i]);
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!Holds(given.host_outputs, i)) outputs[i].bytes = Bytes(Allocate(outputs[i].bytes.size(), outputs[i].dims));
    }
    tenon_semaphore* const timeline = device.Semaphore();
    RunOptions options = OptionsOf(given);
    options.place = PlaceOf(timeline);
    std::string text;
    {
      const Node node = given.node();
      const KernelObject object(*kernel, node, step_, device.device);
      const Call call(*kernel, object, node, step_, ViewsOf(inputs), ViewsOf(outputs), std::move(options));
      text = call.outcome().text();
      if (text.empty()) {
        ExpectEq(device.Barrier(queue, {{}, timeline, 1}), "");
        text = device.Wait(timeline, 1);
      }
      device.Finish(queue);  // after a failure that is told early, work may still use the workspace
      if (text.empty()) *out_outputs = Downloaded(given, call.output_views());
    }
    device.Destroy(timeline);
    return text;
  }

  // The same by the reference's kernel, on the host.
  std::string OnCpu(const DeviceCase& given, std::vector<Tensor>* out_outputs, const Variables& variables = {}) {
    const Node node = given.node();
    const tenon_kernel_registration* const kernel = FindKernel(expected, node);
    if (kernel == nullptr) return "no kernel";
    const std::vector<Tensor> inputs = InputsOf(given, variables), outputs = given.outputs;
    const KernelObject object(*kernel, node, step_);
    const Call call(*kernel, object, node, step_, ViewsOf(inputs), ViewsOf(outputs), OptionsOf(given));
    if (call.outcome().ok()) *out_outputs = call.outputs();
    return call.outcome().text();
  }

  // The same tensor in the device's memory, which is freed with the device.
  Tensor Uploaded(const Tensor& tensor) {
    tenon_buffer* const there = Allocate(tensor.bytes.size(), tensor.dims);
    if (!tensor.bytes.empty()) device.UploadBytes(queue, tensor.bytes.data(), there->data, tensor.bytes.size());
    return {tensor.dtype, tensor.dims, Bytes(there)};
  }
  // What lies in the device's memory, in the host's.
  Tensor Downloaded(const Tensor& tensor) {
    Tensor here(tensor.dtype, tensor.dims);
    if (!here.bytes.empty()) device.DownloadBytes(queue, tensor.bytes.data(), here.bytes.data(), here.bytes.size());
    return here;
  }
  // Memory of the device that a kernel asks for.
  Place PlaceOf(tenon_semaphore* timeline) {
    const auto copy = [this](const void* source, void* target, uint64_t bytes) {
      if (bytes > 0) ExpectEq(device.CopyWithin(queue, source, target, bytes), "");
    };
    return {device.device, queue, timeline,
            [this](uint64_t bytes, const Dimensions& dims) { return Allocate(bytes, dims); }, copy};
  }

 private:
  const Loaded plugin_;
  const Loaded reference_;
  Step step_;

 public:
  Device device;
  tenon_queue* queue;
  const tenon_kernel_package &tested, &expected;

 private:
  tenon_buffer* Allocate(uint64_t bytes, const Dimensions& dims) {
    return NewForeignBuffer(device.Memory(std::max<uint64_t>(bytes, 1)), bytes, dims);
  }

  static std::vector<Tensor> InputsOf(const DeviceCase& given, const Variables& variables) {
    std::vector<Tensor> inputs = given.inputs;
    size_t next = 0;
    for (Tensor& input : inputs) {
      if (input.dtype == TENON_DT_RESOURCE) input = Handle(*variables.at(next++));
    }
    return inputs;
  }
  static RunOptions OptionsOf(const DeviceCase& given) {
    RunOptions options;
    options.precision = given.precision;
    options.host_outputs = given.host_outputs;
    if (given.constant) options.constants = given.host;
    return options;
  }
  static std::vector<tenon_tensor_view> ViewsOf(const std::vector<Tensor>& tensors) {
    std::vector<tenon_tensor_view> views;
    for (const Tensor& tensor : tensors) views.push_back(tensor.view());
    return views;
  }
  std::vector<Tensor> Downloaded(const DeviceCase& given, const std::vector<tenon_tensor_view>& views) {
    std::vector<Tensor> outputs;
    for (size_t i = 0; i < views.size(); ++i) {
      const Tensor output = Tensor::Sharing(views[i]);
      outputs.push_back(Holds(given.host_outputs, i) ? output : Downloaded(output));
    }
    return outputs;
  }
};

// "" or how the outputs differ by more than `tolerance`, relative to the largest element of either.
inline std::string Difference(const std::vector<Tensor>& got, const std::vector<Tensor>& want, double tolerance) {
  for (size_t i = 0; i < want.size(); ++i) {
    const std::vector<double> a = Numbers(got[i]), b = Numbers(want[i]);
    const std::string where = "output " + std::to_string(i);
    if (got[i].dims != want[i].dims || a.size() != b.size()) return where + " has another shape";
    double largest = 0;
    for (double x : b) largest = std::isfinite(x) ? std::max(largest, std::fabs(x)) : largest;
    for (size_t k = 0; k < a.size(); ++k) {
      const bool same = a[k] == b[k] || (a[k] != a[k] && b[k] != b[k]) || std::fabs(a[k] - b[k]) <= tolerance * largest;
      if (!same)
        return where + "[" + std::to_string(k) + "] is " + std::to_string(a[k]) + ", not " + std::to_string(b[k]);
    }
  }
  return "";
}
// "" or the first byte that differs, whatever the bytes mean.
inline std::string DifferentByte(const std::vector<Tensor>& got, const std::vector<Tensor>& want) {
  for (size_t i = 0; i < want.size(); ++i) {
    const auto at = std::mismatch(want[i].bytes.begin(), want[i].bytes.end(), got[i].bytes.begin(), got[i].bytes.end());
    if (got[i].dims != want[i].dims || at.first != want[i].bytes.end() || at.second != got[i].bytes.end()) {
      return "output " + std::to_string(i) + " differs at byte " + std::to_string(at.first - want[i].bytes.begin());
    }
  }
  return "";
}

namespace internal {

template <class Differ>
std::string CompareBy(DeviceBench& bench, const DeviceCase& given, Differ&& differ) {
  std::vector<Tensor> got, want;
  std::string text = bench.OnCpu(given, &want);
  if (!text.empty()) return given.op + " by the reference: " + text;
  text = bench.OnDevice(given, &got);
  if (!text.empty()) return given.op + " on the device: " + text;
  text = differ(got, want);
  return text.empty() ? "" : given.op + ": " + text;
}

}  // namespace internal

// "" when the device's kernel gives what the reference's gives.
inline std::string Compare(DeviceBench& bench, const DeviceCase& given, double tolerance) {
  const tenon_kernel_registration* const kernel = FindKernel(bench.tested, given.node());
  if (kernel == nullptr) return given.op + " has no kernel";
  if ((kernel->host_memory_count == 0) != (given.host.empty() && given.host_outputs.empty()))
    return given.op + ": what is the host's?";
  return internal::CompareBy(bench, given,
                             [&](const auto& got, const auto& want) { return Difference(got, want, tolerance); });
}
// The same to the byte.
inline std::string Same(DeviceBench& bench, const DeviceCase& given) {
  return internal::CompareBy(bench, given, DifferentByte);
}

// A variable of the same value on the device and on the host.
struct Twin {
  Twin(DeviceBench& bench, const Tensor& value)
      : on_device(Variable::Of(bench.Uploaded(value))), on_cpu(Variable::Of(value)) {}
  // "" when both have the same value.
  std::string Differ(DeviceBench& bench, double tolerance) const {
    return Difference({bench.Downloaded(on_device.value)}, {on_cpu.value}, tolerance);
  }
  bool Agree(DeviceBench& bench) const { return bench.Downloaded(on_device.value).bytes == on_cpu.value.bytes; }
  Variable on_device, on_cpu;
};

}  // namespace tenon::testing

#endif  // TENON_TESTING_DEVICE_BENCH_H_
