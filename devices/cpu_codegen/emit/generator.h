// SPDX-License-Identifier: Apache-2.0
// Machine code of a program, by Xbyak.
#ifndef TENON_DEVICES_CPU_CODEGEN_EMIT_GENERATOR_H_
#define TENON_DEVICES_CPU_CODEGEN_EMIT_GENERATOR_H_

#include <cstdint>
#include <vector>

#include "code/program.h"

namespace tenon::cpu_codegen {

// Code of the form EntryPoint (code.h), which runs wherever it stands, with the constants that it reads behind it. The
// program is right: operands stand before their nodes, and IsGenerated() holds. Empty: it would be too large.
std::vector<uint8_t> Generate(const Program& program);
// Of programs with reductions, which Generate() leaves to it.
std::vector<uint8_t> GenerateRows(const Program& program);

inline constexpr size_t kMostCode = 256 << 10;

// Of a loop. Every input of the call is 64 bytes of its own, Lanes() elements as they lie in registers: truths as 32
// bits of ones or zeros. Runs `count` turns at most; then the carried inputs are what they have become, and `count` is
// the turns that were left: 0: the condition is to be asked again.
std::vector<uint8_t> Generate(const Loop& loop);

}  // namespace tenon::cpu_codegen

#endif  // TENON_DEVICES_CPU_CODEGEN_EMIT_GENERATOR_H_
