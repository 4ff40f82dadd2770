// SPDX-License-Identifier: Apache-2.0
// Programs as files, for other hosts and for people.
#ifndef TENON_TESTS_CROSSINGS_WRITE_H_
#define TENON_TESTS_CROSSINGS_WRITE_H_

#include <string>

#include "tests/crossings/manner.h"

namespace tenon::crossings {

// Into FOLDER: program.txt, graph.pb in the manner's form, and case.json: feeds of the steps, what is fetched, run and
// expected (in the manner), by name. text: more for program.txt. A failure is said, and false given.
bool WriteProgram(World& world, const Program& program, const Manner& manner, const std::string& folder,
                  const std::string& text);

}  // namespace tenon::crossings

#endif  // TENON_TESTS_CROSSINGS_WRITE_H_
