// SPDX-License-Identifier: Apache-2.0
// Runs a kernel from its registration without an engine: create, prepare, run, with a faked host and frame.
//
// The fake parallel_for runs uneven shares one after the other, so that a kernel that depends on where a range begins
// is found. Every output and workspace is followed by guard bytes that are checked after the run. Variables are plain
// tensors; an update gets separate old and new memory unless `in_place` is set.
//
//   Result r = Kernel("AddV2").Run({Make<float>({2}, {1, 2}), Make<float>({}, {3})}, {Out<float>({2})});
//   EXPECT_EQ(Values<float>(r[0]), (std::vector<float>{4, 5}));
#ifndef TENON_DEVICES_CPU_TESTING_HARNESS_H_
#define TENON_DEVICES_CPU_TESTING_HARNESS_H_

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "kernels/types.h"
#include "tenon/plugin.h"

// The host's opaque status and resource, as this fake host has them.
struct tenon_status {
  uint32_t code;
  std::string message;
};

namespace tenon::cpu::testing {

// 64-byte aligned memory with guard bytes behind it.
class Memory {
 public:
  Memory() : Memory(size_t{0}) {}
  explicit Memory(size_t size);
  ~Memory();
  Memory(const Memory& other);
  Memory& operator=(const Memory& other);
  char* data() const { return data_; }
  size_t size() const { return size_; }
  bool intact() const;

 private:
  char* data_;
  size_t size_;
};

struct Tensor {
  uint32_t dtype = TENON_DT_INVALID;
  std::vector<int64_t> dims;
  Memory memory;
  int64_t count() const {
    int64_t n = 1;
    for (int64_t d : dims) n *= d;
    return n;
  }
};

template <class T>
Tensor Make(std::vector<int64_t> dims, const std::vector<T>& values) {
  Tensor t{DtypeOf<T>::value, std::move(dims), Memory(values.size() * sizeof(T))};
  for (size_t i = 0; i < values.size(); ++i) {
    const T value = values[i];
    std::memcpy(t.memory.data() + i * sizeof(T), &value, sizeof(T));
  }
  return t;
}
template <class T>
Tensor Scalar(T value) {
  return Make<T>({}, {value});
}
template <class T>
Tensor Vector(const std::vector<T>& values) {
  return Make<T>({static_cast<int64_t>(values.size())}, values);
}
Tensor Strings(std::vector<int64_t> dims, const std::vector<std::string>& values);

template <class T>
std::vector<T> Values(const Tensor& t) {
  std::vector<T> out(static_cast<size_t>(t.count()));
  for (size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(&value, t.memory.data() + i * sizeof(T), sizeof(T));
    out[i] = value;
  }
  return out;
}
std::vector<std::string> Texts(const Tensor& t);

// What an output is to be; dynamic ones need no dims.
struct OutSpec {
  uint32_t dtype;
  std::vector<int64_t> dims;
};
template <class T>
OutSpec Out(std::vector<int64_t> dims = {}) {
  return {DtypeOf<T>::value, std::move(dims)};
}

struct Result {
  uint32_t code = TENON_OK;
  std::string message;
  std::vector<Tensor> outputs;
  const Tensor& operator[](size_t i) const { return outputs.at(i); }
};

// A variable behind a resource or reference input.
struct Variable {
  bool initialized = false;
  bool in_place = false;
  Tensor value;
  uint32_t last_flags = 0;
};
Tensor Handle(Variable* variable);                         // a resource tensor
Tensor Reference(Variable* variable, uint32_t base_dtype);  // a reference

using AttrValue = std::variant<int64_t, float, bool, std::string, std::vector<int64_t>, uint32_t>;

class Kernel {
 public:
  // The registration of `op` whose constraint on `attr` allows dtype; without dtype the first one.
  explicit Kernel(std::string op, uint32_t dtype = 0);
  Kernel& Attr(const std::string& name, AttrValue value);
  Kernel& Threads(uint32_t threads);
  Kernel& Constant(int input);    // its value is known at prepare
  Kernel& InPlace(int input);     // output 0 shares this input's memory
  Kernel& GivenUp();              // the step was cancelled before it runs
  Kernel& OnDevice(const tenon_kernel_package& package);
  Result Run(std::vector<Tensor> inputs, const std::vector<OutSpec>& outputs);
  // Runs again with the same kernel object, for stateful ones.
  Result Again(std::vector<Tensor> inputs, const std::vector<OutSpec>& outputs) { return Run(std::move(inputs), outputs); }

  struct State;
  ~Kernel();
  Kernel(Kernel&&) noexcept;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace tenon::cpu::testing

#endif  // TENON_DEVICES_CPU_TESTING_HARNESS_H_
