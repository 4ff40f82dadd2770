// SPDX-License-Identifier: Apache-2.0
// Entries of two files, which the linker is told to drop what nobody refers to.
#include "tenon/sdk/list.h"

#include <gtest/gtest.h>

#include <vector>

#include "tenon/sdk/package.h"

namespace tenon::sdk::list_test {

TENON_ENTRY(tenon_list_test, int, kThree);
constinit const int kThree = 3;
TENON_ENTRY(tenon_list_test, int, kOne);
constinit const int kOne = 1;

TENON_LIST(tenon_list_test, int)

namespace {

// Once for the process, as a package has it.
const auto sorted =
    SortedList(TENON_LIST_BEGIN(tenon_list_test), TENON_LIST_END(tenon_list_test), [](int value) { return value; });

TEST(List, HasTheEntriesOfEveryFileOnce) {
  std::vector<int> values;
  for (const int* each : sorted) values.push_back(*each);
  EXPECT_EQ(values, (std::vector<int>{1, 2, 3, 4}));
}

TEST(List, PointsAtTheConstantsThemselves) {
  ASSERT_EQ(sorted.size(), 4u);
  EXPECT_EQ(sorted[0], &kOne);
  EXPECT_EQ(sorted[2], &kThree);
}

TEST(Package, IsInTheOrderOfNamesWhateverTheListsIs) {
  tenon_kernel_registration add = {}, add_too = {}, zeros = {};
  add.op = add_too.op = ToSpan("Add");
  zeros.op = ToSpan("Zeros");
  const tenon_kernel_registration* const list[] = {&zeros, &add, &add_too};
  static const tenon_kernel_package package = KernelPackageOf(list, list + 3);
  ASSERT_EQ(package.count, 3u);
  EXPECT_EQ(package.registrations[0], &add);
  EXPECT_EQ(package.registrations[1], &add_too);
  EXPECT_EQ(package.registrations[2], &zeros);
}

}  // namespace
}  // namespace tenon::sdk::list_test
