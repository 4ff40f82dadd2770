// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <charconv>
#include <cmath>
#include <string_view>

namespace tenon::tpu_sim {
namespace {

#ifdef NDEBUG
#define TENON_TPU_SIM_GUARD "false"
#else
#define TENON_TPU_SIM_GUARD "true"
#endif

Outcome ParseInt(std::string_view key, std::string_view text, int64_t low, int64_t high, int64_t* out) {
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), *out);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || *out < low || *out > high) {
    return Fault(TENON_INVALID_ARGUMENT, "option ", key, " is '", text, "'; it may be a whole number from ", low,
                 " to ", high);
  }
  return {};
}

Outcome ParseFloat(std::string_view key, std::string_view text, double low, double* out) {
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), *out);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || !std::isfinite(*out) || *out < low) {
    return Fault(TENON_INVALID_ARGUMENT, "option ", key, " is '", text, "'; it may be a number from ", low, " on");
  }
  return {};
}

Outcome ParseBool(std::string_view key, std::string_view text, bool* out) {
  if (text != "true" && text != "false" && text != "1" && text != "0") {
    return Fault(TENON_INVALID_ARGUMENT, "option ", key, " is '", text, "'; it may be true or false");
  }
  *out = text == "true" || text == "1";
  return {};
}

Outcome ParseFailLate(std::string_view text, Faults* out) {
  const size_t colon = text.rfind(':');
  if (text.empty()) return {};
  int64_t number = 0;
  if (colon == std::string_view::npos || colon == 0 ||
      !ParseInt("fail_late", text.substr(colon + 1), 1, INT64_MAX, &number).ok()) {
    return Fault(TENON_INVALID_ARGUMENT, "option fail_late is '", text, "'; it may be NAME:NUMBER, such as MatMul:2");
  }
  out->fail_late_name = text.substr(0, colon);
  out->fail_late_number = number;
  return {};
}

constexpr int64_t kMostBytes = INT64_C(1) << 46;

Outcome ParseOne(std::string_view key, std::string_view value, Options* o) {
  const auto integer = [&](int64_t low, int64_t high, int64_t* out) { return ParseInt(key, value, low, high, out); };
  if (key == "devices") return integer(0, 64, &o->devices);
  if (key == "rows") return integer(1, kMostCells, &o->machine.rows);
  if (key == "columns") return integer(1, kMostCells, &o->machine.columns);
  if (key == "clock") return ParseFloat(key, value, 1, &o->machine.clock);
  if (key == "vector_lanes") return integer(1, 1 << 20, &o->machine.vector_lanes);
  if (key == "cores") return integer(1, 64, &o->cores);
  if (key == "launch_cycles") return integer(0, 1 << 30, &o->launch_cycles);
  if (key == "memory_bytes") return integer(4096, kMostBytes, &o->memory_bytes);
  if (key == "staging_bytes") return integer(0, kMostBytes, &o->staging_bytes);
  if (key == "buffer_bytes") return integer(1024, kMostBytes, &o->machine.buffer_bytes);
  if (key == "bandwidth") return ParseFloat(key, value, 0, &o->machine.memory_bandwidth);
  if (key == "host_bandwidth") return ParseFloat(key, value, 0, &o->machine.host_bandwidth);
  if (key == "interconnect_bandwidth") return ParseFloat(key, value, 0, &o->machine.interconnect_bandwidth);
  if (key == "pace") return ParseFloat(key, value, 0, &o->pace);
  if (key == "guard") return ParseBool(key, value, &o->guard);
  if (key == "log_spans") return integer(0, 1 << 24, &o->log_spans);
  if (key == "fault_device") return integer(0, 63, &o->faults.device);
  if (key == "fail_allocation_after") return integer(-1, INT64_MAX, &o->faults.fail_allocation_after);
  if (key == "lose_device_after") return integer(-1, INT64_MAX, &o->faults.lose_device_after);
  if (key == "delay_completion_us") return integer(0, 60'000'000, &o->faults.delay_completion_us);
  if (key == "fail_late") return ParseFailLate(value, &o->faults);
  if (key == "seed") {
    int64_t seed = 0;
    Outcome outcome = integer(0, INT64_MAX, &seed);
    o->seed = static_cast<uint64_t>(seed);
    return outcome;
  }
  if (key == "precision") {
    if (value == "policy") o->precision = Precision::kPolicy;
    else if (value == "exact") o->precision = Precision::kExact;
    else if (value == "bfloat16") o->precision = Precision::kBfloat16;
    else return Fault(TENON_INVALID_ARGUMENT, "option precision is '", value, "'; it may be policy, exact or bfloat16");
    return {};
  }
  return Fault(TENON_INVALID_ARGUMENT, "unknown option '", key, "'");
}

}  // namespace

#define TENON_TPU_SIM_OPTION(key, value, type, text) {TENON_SPAN(key), TENON_SPAN(value), TENON_SPAN(text), type, 0}
constinit const tenon_option_declaration kOptionDeclarations[kOptionCount] = {
    TENON_TPU_SIM_OPTION("devices", "0", TENON_OPTION_INT,
                         "how many devices there are; a simulated one stands there only when it is asked for"),
    TENON_TPU_SIM_OPTION("rows", "128", TENON_OPTION_INT, "rows of the matrix unit"),
    TENON_TPU_SIM_OPTION("columns", "128", TENON_OPTION_INT, "columns of the matrix unit"),
    TENON_TPU_SIM_OPTION("clock", "700e6", TENON_OPTION_FLOAT, "cycles a second"),
    TENON_TPU_SIM_OPTION("vector_lanes", "1024", TENON_OPTION_INT, "operations a cycle of the vector unit"),
    TENON_TPU_SIM_OPTION("cores", "1", TENON_OPTION_INT,
                         "how many kernels of a device run side by side, each on units of its own"),
    TENON_TPU_SIM_OPTION("launch_cycles", "700", TENON_OPTION_INT, "cycles that every kernel takes before it works"),
    TENON_TPU_SIM_OPTION("memory_bytes", "1073741824", TENON_OPTION_INT, "device memory of each device"),
    TENON_TPU_SIM_OPTION("staging_bytes", "268435456", TENON_OPTION_INT, "host-visible memory of each device at most"),
    TENON_TPU_SIM_OPTION("buffer_bytes", "16777216", TENON_OPTION_INT, "on-chip buffer"),
    TENON_TPU_SIM_OPTION("bandwidth", "350e9", TENON_OPTION_FLOAT, "bytes a second of device memory; 0: no limit"),
    TENON_TPU_SIM_OPTION("host_bandwidth", "16e9", TENON_OPTION_FLOAT,
                         "bytes a second between host and device; 0: no limit"),
    TENON_TPU_SIM_OPTION("interconnect_bandwidth", "62.5e9", TENON_OPTION_FLOAT,
                         "bytes a second between devices; 0: no limit"),
    TENON_TPU_SIM_OPTION("precision", "policy", TENON_OPTION_STRING,
                         "of float products: policy (what the step allows), exact, or bfloat16 always"),
    TENON_TPU_SIM_OPTION("guard", TENON_TPU_SIM_GUARD, TENON_OPTION_BOOL,
                         "the host faults where it touches device memory; on in debug builds"),
    TENON_TPU_SIM_OPTION("pace", "0", TENON_OPTION_FLOAT,
                         "real seconds that a simulated second takes at least; 0: as fast as the host computes"),
    TENON_TPU_SIM_OPTION("log_spans", "65536", TENON_OPTION_INT,
                         "the profile keeps so many of the latest spans of each device"),
    TENON_TPU_SIM_OPTION("seed", "0", TENON_OPTION_INT,
                         "other than 0: delays are random, up to delay_completion_us, and the same for the same seed"),
    TENON_TPU_SIM_OPTION("fault_device", "0", TENON_OPTION_INT, "number of the device that has the faults below"),
    TENON_TPU_SIM_OPTION("fail_allocation_after", "-1", TENON_OPTION_INT,
                         "allocations after so many fail with RESOURCE_EXHAUSTED; -1: none"),
    TENON_TPU_SIM_OPTION("lose_device_after", "-1", TENON_OPTION_INT,
                         "the device is lost after so many pieces of work; -1: never"),
    TENON_TPU_SIM_OPTION("fail_late", "", TENON_OPTION_STRING,
                         "NAME:NUMBER: that piece of work of the name (an op, a node, kernel, region, copy, fill) "
                         "fails when it is done"),
    TENON_TPU_SIM_OPTION("delay_completion_us", "0", TENON_OPTION_INT, "every completion is so much later"),
};
#undef TENON_TPU_SIM_OPTION

Outcome ParseOptions(const tenon_load_args& args, Options* out_options) {
  // Defaults stand in the declarations alone.
  for (uint64_t i = 0; i < kOptionCount; ++i) {
    Outcome outcome = ParseOne(sdk::ToText(kOptionDeclarations[i].key),
                               sdk::ToText(kOptionDeclarations[i].default_value), out_options);
    if (!outcome.ok()) return outcome;
  }
  for (uint64_t i = 0; i < args.option_count; ++i) {
    Outcome outcome = ParseOne(sdk::ToText(args.options[i].key), sdk::ToText(args.options[i].value), out_options);
    if (!outcome.ok()) return outcome;
  }
  return {};
}

}  // namespace tenon::tpu_sim
