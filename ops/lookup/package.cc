// SPDX-License-Identifier: Apache-2.0
// Package lookup: tables from keys to values. One line for each op and each kernel, all of which run on the host.
#include "tenon/sdk/package.h"

TENON_OPS(
    kHashTableV2,
    kInitializeTableFromTextFileV2,
    kInitializeTableV2,
    kLookupTableExportV2,
    kLookupTableFindV2,
    kLookupTableImportV2,
    kLookupTableInsertV2,
    kLookupTableRemoveV2,
    kLookupTableSizeV2,
    kMutableHashTableOfTensorsV2,
    kMutableHashTableV2)

TENON_KERNELS(
    kHashTableV2Kernel,
    kInitializeTableFromTextFileV2Kernel,
    kInitializeTableV2Kernel,
    kLookupTableExportV2Kernel,
    kLookupTableFindV2Kernel,
    kLookupTableImportV2Kernel,
    kLookupTableInsertV2Kernel,
    kLookupTableRemoveV2Kernel,
    kLookupTableSizeV2Kernel,
    kMutableHashTableOfTensorsV2Kernel,
    kMutableHashTableV2Kernel)

TENON_OP_AND_KERNEL_PLUGIN("tenon.ops.lookup", "0.1.0", "Tables from keys to values.")
