// SPDX-License-Identifier: Apache-2.0
#include "tenon/sdk/example/columns_definitions.h"
