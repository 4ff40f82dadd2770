// SPDX-License-Identifier: Apache-2.0
// Programs from seeds: the same seed and features give the same program, on every machine.
#ifndef TENON_TESTS_CROSSINGS_GENERATE_H_
#define TENON_TESTS_CROSSINGS_GENERATE_H_

#include <set>
#include <string>
#include <vector>

#include "tests/crossings/program.h"

namespace tenon::crossings {

// What programs may be made of. Each has some of them: a program of all of everything says little when it fails.
#define TENON_CROSSINGS_FEATURES(X)                                                                                    \
  X(strings)                                                                                                           \
  X(lists) X(list_splits) X(optionals) X(sparse) X(ragged) X(variables) X(updates) X(late_reads) X(random) X(queues)   \
      X(loops) X(elements) X(branches) X(functions) X(empty) X(wide) /* matrices and what rearranges them */ X(smooth) \
          X(gradients) X(second_gradients) X(training) X(iterators) X(recursion)

enum class Feature {
#define TENON_CROSSINGS_ENUM(name) k_##name,
  TENON_CROSSINGS_FEATURES(TENON_CROSSINGS_ENUM)
#undef TENON_CROSSINGS_ENUM
};
using Features = std::set<Feature>;
const char* NameOf(Feature feature);
const std::vector<Feature>& AllFeatures();

Program Generate(uint32_t seed, const Features& features);

}  // namespace tenon::crossings

#endif  // TENON_TESTS_CROSSINGS_GENERATE_H_
