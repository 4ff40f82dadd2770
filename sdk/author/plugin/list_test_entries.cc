// SPDX-License-Identifier: Apache-2.0
// The other file of list_test.cc.
#include "tenon/sdk/list.h"

namespace tenon::sdk {

TENON_ENTRY(tenon_list_test, int, kFour);
constinit const int kFour = 4;
TENON_ENTRY(tenon_list_test, int, kTwo);
constinit const int kTwo = 2;

}  // namespace tenon::sdk
