// SPDX-License-Identifier: Apache-2.0
// Whether two manners said the same, and what is found about one program.
#ifndef TENON_TESTS_CROSSINGS_COMPARE_H_
#define TENON_TESTS_CROSSINGS_COMPARE_H_

#include <map>
#include <string>
#include <vector>

#include "tests/crossings/manner.h"

namespace tenon::crossings {

// A difference, with its kind: "value", "refusal" (one answers, the other refuses), "internal", "hang", "gradient"
// (against differences).
struct Finding {
  std::string kind;  // "": none
  std::string manner;
  std::string text;
  explicit operator bool() const { return !kind.empty(); }
};

// What was refused by name and is no finding, by kind: how often.
using Explained = std::map<std::string, uint64_t>;

Finding Compare(const Program& program, const Manner& manner, const Outcome& found, const Outcome& right,
                Explained* explained);

// All findings of a program in these manners; stops at the first where `first` is set.
std::vector<Finding> Check(World& world, const Program& program, const std::vector<const Manner*>& manners, bool first,
                           Explained* explained, const std::function<void(const std::string& manner)>& tell = {});

// The first of `count` programs from `seed` on that finds the plant by a value that differs from the same manner's
// without it; 0: none does.
uint32_t FindPlant(World& world, const Plant& plant, uint32_t seed, uint32_t count,
                   const std::function<Program(uint32_t seed)>& generate);

}  // namespace tenon::crossings

#endif  // TENON_TESTS_CROSSINGS_COMPARE_H_
