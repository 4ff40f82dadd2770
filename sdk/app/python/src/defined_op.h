// SPDX-License-Identifier: Apache-2.0
// Ops that Python defines: each is a plugin of one op and one kernel, in this process's memory
// (tenon_runtime_add_plugin).
//
// The plugin's tables live as long as the process, since graphs keep pointers to them; Python's objects in it as long
// as some runtime has it loaded, or Python its DefinedOpBox. The engine calls it from threads of its own, without the
// interpreter's lock.
#ifndef TENON_PYTHON_DEFINED_OP_H_
#define TENON_PYTHON_DEFINED_OP_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "errors.h"
#include "tenon/kernel.h"
#include "tenon/op.h"

namespace tenon::python {

// A function of apache-tvm-ffi as a kernel, by the addresses that its library has (tvm/ffi/c_api.h).
struct ForeignFunction {
  uint64_t function = 0;  // the object's; a reference is kept by DefinedOp::run
  uint64_t call = 0, take_error = 0, release = 0;  // TVMFFIFunctionCall, TVMFFIErrorMoveFromRaised, TVMFFIObjectDecRef
};

// What Python says of an op. Texts are those of tenon_op_definition.
struct DefinedOp {
  std::string plugin, name, inputs, outputs, attrs, constraints, doc, properties;
  uint64_t traits = 0;
  std::vector<std::string> attr_names;
  // The op that computes the gradient, "": none. It takes all inputs, the gradients of `gradient_of`, outputs by index,
  // and has the same attributes; it gives gradients of `gradient_to`, inputs by index.
  std::string gradient;
  std::vector<int32_t> gradient_of, gradient_to;
  // run(list of arrays, dict of attributes) -> sequence of outputs; or the foreign function's object.
  nb::object run;
  // shape(list of shapes, dict of attributes) -> sequence of shapes. None: they are not known before the kernel runs.
  nb::object shape;
  ForeignFunction foreign;

  std::string number;  // by which load() knows it
  std::atomic<int> loads{0};
  tenon_op_definition definition;
  const tenon_op_definition* definitions[1];
  tenon_op_package op_package;
  tenon_kernel_registration kernel;
  const tenon_kernel_registration* kernels[1];
  tenon_kernel_package kernel_package;
  tenon_capability capabilities[2];
  tenon_option_declaration option;
  tenon_plugin descriptor;
};

// The host of this process; set before anything of a defined op is called.
const tenon_host& TheHost();
// The exception that is set, as a status; it is no longer set, and becomes the __cause__ of the error that the status
// becomes (cause.h). what: "op 'Mine>Sin'". node: in which it was raised; "": none.
tenon_status* StatusOfException(const std::string& what, const std::string& node = {}) noexcept;
// The same of whatever was thrown, in a catch block.
tenon_status* StatusOfThrown(const std::string& what, const std::string& node = {}) noexcept;
nb::dict AttributesOf(const DefinedOp& op, const tenon_node_services& services, const tenon_node* node);

// Fill what the kernel is; the rest is there.
void UsePythonKernel(tenon_kernel_registration* kernel);   // python_kernel.cc
void UseForeignKernel(tenon_kernel_registration* kernel);  // foreign_kernel.cc

}  // namespace tenon::python

#endif  // TENON_PYTHON_DEFINED_OP_H_
