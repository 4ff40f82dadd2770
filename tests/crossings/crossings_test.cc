// SPDX-License-Identifier: Apache-2.0
// A sample of programs that cross features, in every manner. `make crossings` runs as many as are asked for.
#include <gtest/gtest.h>

#include "tests/crossings/compare.h"
#include "tests/crossings/generate.h"
#include "tests/crossings/left_out.h"

namespace tenon::crossings {
namespace {

constexpr uint32_t kPrograms = 80;

TEST(Crossings, AllMannersGiveTheSame) {
  Features features;
  for (const Feature feature : AllFeatures())
    if (!IsLeftOut(NameOf(feature))) features.insert(feature);
  std::vector<const Manner*> manners;
  for (const Manner& manner : AllManners())
    if (!IsLeftOut(manner.name) && manner.where != Where::kShm && manner.where != Where::kGrpc) manners.push_back(&manner);
  World world;
  Explained explained;
  int wrong = 0;
  for (uint32_t seed = 1; seed <= kPrograms && wrong < 5; ++seed) {
    const Program program = Generate(seed, features);
    std::vector<Finding> findings = Check(world, program, manners, false, &explained);
    std::erase_if(findings, [](const Finding& finding) { return IsKnown(finding.text); });
    if (findings.size() > 1) findings.resize(1);
    for (const Finding& finding : findings) ADD_FAILURE() << "seed " << seed << ", " << finding.manner << ": " << finding.kind << ": " << finding.text << "\n" << Describe(program);
    wrong += findings.empty() ? 0 : 1;
  }
}

// What the machine is for: each planted fault is found, by a difference and not by chance. The same manner without it differs nowhere there.
TEST(Crossings, PlantedFaultsAreFound) {
  constexpr uint32_t kMost = 2000;
  World world;
  for (const char* plant : kPlants) {
    Manner manner{"functions", {}, {}};
    manner.form.control = Form::Control::kFunctions;
    manner.options.executor = TENON_EXECUTOR_DYNAMIC;
    manner.options.debug.schedule_seed = 7;
    const Manner whole = manner;
    manner.form.plant = plant;
    Features features(AllFeatures().begin(), AllFeatures().end());
    uint32_t found = 0;
    for (uint32_t seed = 1; seed <= kMost && found == 0; ++seed) {
      const Program program = Generate(seed, features);
      Explained explained;
      const Outcome right = crossings::Run(world, whole, program);
      if (!right.status.ok()) continue;
      if (const Finding finding = Compare(program, manner, crossings::Run(world, manner, program), right, &explained); finding.kind == "value") found = seed;
    }
    EXPECT_NE(found, 0u) << plant;
    std::printf("%s: found by program %u\n", plant, found);
  }
}

}  // namespace
}  // namespace tenon::crossings
