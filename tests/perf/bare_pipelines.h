// SPDX-License-Identifier: Apache-2.0
// What pipelines of input do, written by hand without an engine: what pipelines.py compares with.
#ifndef TENON_TESTS_PERF_BARE_PIPELINES_H_
#define TENON_TESTS_PERF_BARE_PIPELINES_H_

#include <cstdint>
#include <string>

namespace tenon::perf {

// Both end the process with a message when a file is not what it should be.

// Reads TensorFlow's records of a file one after the other into one buffer and compares both checksums. How many there
// were.
int64_t BareRecords(const std::string& path);

// The pictures of a file of records, so many of them (from the begin again at its end), on `threads` threads: each
// decoded from JPEG, cut to kCut x kCut at a place drawn at random, turned left to right or not, made floats, brighter
// by a number of [-32, 32) and of a contrast of [0.5, 1.5), in batches. Something of the values, so that nothing can be
// left out.
inline constexpr int64_t kCut = 224;
float BarePictures(const std::string& path, int64_t batch, int64_t batches, int threads);

}  // namespace tenon::perf

#endif  // TENON_TESTS_PERF_BARE_PIPELINES_H_
