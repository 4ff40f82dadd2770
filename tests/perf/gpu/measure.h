// SPDX-License-Identifier: Apache-2.0
// What gpu_bench measures, each on one device, as JSON.
//
// Times are of steps in a row of which the last one's result is brought to the host: as long as that takes, divided by
// their number, and of many such rows the median and the least. peers.py counts its steps in the same way.
#ifndef TENON_TESTS_PERF_GPU_MEASURE_H_
#define TENON_TESTS_PERF_GPU_MEASURE_H_

#include <cstdint>
#include <string>

#include "networks.h"
#include "sdk/app/cli/json.h"
#include "tenon/tenon.h"

namespace tenon::perf {

struct Bench {
  const host::Runtime& runtime;
  host::SessionOptions session;  // its device is measured
  double seconds = 1;            // of each timing
};

// The device that the name means; NOT_FOUND says which there are.
host::Result<tenon_device_info> FindDevice(const host::Runtime& runtime, const std::string& name);
cli::Json DeviceJson(const tenon_device_info& device);

struct TrainingRun {
  int64_t losses = 4;  // of the first steps, before anything is timed
  std::string folder;  // gets the first weights and the batch, as .npy; "": none
};
// Steps of a network's training. Names the nodes that run elsewhere than on the device.
host::Result<cli::Json> MeasureTraining(const Bench& bench, const NetworkKind& kind, const Size& size,
                                        const TrainingRun& run);

// A step of `count` products of two matrices of side x side elements, each of the one before and a variable.
host::Result<cli::Json> MeasureProducts(const Bench& bench, int64_t side, int64_t count);

// A step of `nodes` nodes in a chain, each a kernel of some numbers that no compiler of chains takes.
host::Result<cli::Json> MeasureLaunches(const Bench& bench, int64_t nodes);

// Copies of so many bytes: host to device and back; and on the device, a variable of so many bytes added to another.
host::Result<cli::Json> MeasureCopies(const Bench& bench, int64_t bytes);

}  // namespace tenon::perf

#endif  // TENON_TESTS_PERF_GPU_MEASURE_H_
