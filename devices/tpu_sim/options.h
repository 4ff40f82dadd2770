// SPDX-License-Identifier: Apache-2.0
// What may be chosen when the plugin is loaded: the machine, its memory, and the faults that it is to have.
#ifndef TENON_DEVICES_TPU_SIM_OPTIONS_H_
#define TENON_DEVICES_TPU_SIM_OPTIONS_H_

#include <cstdint>
#include <string>

#include "model/cycle_model.h"
#include "outcome.h"

namespace tenon::tpu_sim {

enum class Precision { kPolicy, kExact, kBfloat16 };

// Faults of the device `device`. -1 (or an empty name): never.
struct Faults {
  int64_t device = 0;
  int64_t fail_allocation_after = -1;
  int64_t lose_device_after = -1;
  std::string fail_late_name;
  int64_t fail_late_number = 0;  // from 1 on
  int64_t delay_completion_us = 0;
};

struct Options {
  int64_t devices = 0;
  Machine machine;
  int64_t cores = 1;            // matrix and vector units, each with a memory channel of its own
  int64_t launch_cycles = 700;  // of a kernel without work
  int64_t memory_bytes = INT64_C(1) << 30;
  int64_t staging_bytes = INT64_C(256) << 20;
  Precision precision = Precision::kPolicy;
  bool guard = false;
  double pace = 0;  // seconds of real time for a second of simulated time
  int64_t log_spans = 65536;
  uint64_t seed = 0;
  Faults faults;
};

inline constexpr uint64_t kOptionCount = 23;
extern const tenon_option_declaration kOptionDeclarations[kOptionCount];

// Reads what load() was given. INVALID_ARGUMENT names the option and what it may be.
Outcome ParseOptions(const tenon_load_args& args, Options* out_options);

}  // namespace tenon::tpu_sim

#endif  // TENON_DEVICES_TPU_SIM_OPTIONS_H_
