// SPDX-License-Identifier: Apache-2.0
// A sample of programs that cross features, in every manner. `make crossings` runs as many as are asked for.
// Fifteen programs and the planted faults take a minute: each manner makes sessions of its own, and what is crossed
// rarely needs programs of many steps.
#include <gtest/gtest.h>

#include "tests/crossings/compare.h"
#include "tests/crossings/generate.h"
#include "tests/crossings/left_out.h"
#include "tests/fakes/whole.h"

namespace tenon::crossings {
namespace {

const uint32_t kPrograms = fakes::IsWhole() ? 50 : 15;

TEST(Crossings, AllMannersGiveTheSame) {
  Features features;
  for (const Feature feature : AllFeatures())
    if (!IsLeftOut(NameOf(feature))) features.insert(feature);
  std::vector<const Manner*> manners;
  for (const Manner& manner : AllManners())
    if (!IsLeftOut(manner.name) && manner.where != Where::kShm && manner.where != Where::kGrpc)
      manners.push_back(&manner);
  World world;
  Explained explained;
  int wrong = 0;
  for (uint32_t seed = 1; seed <= kPrograms && wrong < 5; ++seed) {
    const Program program = Generate(seed, features);
    std::vector<Finding> findings = Check(world, program, manners, false, &explained);
    std::erase_if(findings, [](const Finding& finding) { return IsKnown(finding.text); });
    if (findings.size() > 1) findings.resize(1);
    for (const Finding& finding : findings)
      ADD_FAILURE() << "seed " << seed << ", " << finding.manner << ": " << finding.kind << ": " << finding.text << "\n"
                    << Describe(program);
    wrong += findings.empty() ? 0 : 1;
  }
}

// What the machine is for: each planted fault is found, by a difference and not by chance. The same manner without it
// differs nowhere there.
TEST(Crossings, PlantedFaultsAreFound) {
  World world;
  const Features features(AllFeatures().begin(), AllFeatures().end());
  for (const Plant& plant : kPlants) {
    EXPECT_TRUE(plant.seed >= 1 && plant.seed <= 2000) << plant.name;
    EXPECT_EQ(FindPlant(world, plant, plant.seed, 1, [&](uint32_t seed) { return Generate(seed, features); }),
              plant.seed)
        << plant.name << ": " << plant.what
        << "; where programs of these seeds have changed, `crossings --plants all --count 2000` says which find it";
  }
}

}  // namespace
}  // namespace tenon::crossings
