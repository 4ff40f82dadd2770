// SPDX-License-Identifier: Apache-2.0
#include "tenon/extras/example/columns_definitions.h"
