// SPDX-License-Identifier: Apache-2.0
// Machine code of a program, by Xbyak.
#ifndef TENON_DEVICES_CPU_CODEGEN_GENERATOR_H_
#define TENON_DEVICES_CPU_CODEGEN_GENERATOR_H_

#include <cstdint>
#include <vector>

#include "program.h"

namespace tenon::cpu_codegen {

// Code of the form EntryPoint (code.h), which runs wherever it stands, with the constants that it reads behind it. The program is right: operands stand before their
// nodes, and IsGenerated() holds. Empty: it would be too large.
std::vector<uint8_t> Generate(const Program& program);
// Of programs with reductions, which Generate() leaves to it.
std::vector<uint8_t> GenerateRows(const Program& program);

inline constexpr size_t kMostCode = 256 << 10;

}  // namespace tenon::cpu_codegen

#endif  // TENON_DEVICES_CPU_CODEGEN_GENERATOR_H_
