// SPDX-License-Identifier: Apache-2.0
#include "tenon/extras/example/parse_definitions.h"
