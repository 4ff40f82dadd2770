// SPDX-License-Identifier: Apache-2.0
// What the ops of staging areas mean; how one behaves stands in stage.h. Nodes of one container and shared_name have
// one area.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

// Whoever lays an element into the area says its shapes.
static void StagedShape(ShapeContext&) {}
static void AnyKeyShape(ShapeContext& c) { c.SetOutput(0, Shape::Scalar()); }

TENON_OP(kStage) = DefineOp({
    .name = "Stage",
    .inputs = "values: dtypes",
    .attrs = "capacity: int >= 0 = 0; memory_limit: int >= 0 = 0; dtypes: list(type) >= 1; container: string = ''; "
             "shared_name: string = ''",
    .doc = "Lays an element into the staging area, when there is room.",
    .traits = TENON_OP_STATEFUL,
});

TENON_OP(kUnstage) = DefineOp({
    .name = "Unstage",
    .outputs = "values: dtypes",
    .attrs = "capacity: int >= 0 = 0; memory_limit: int >= 0 = 0; dtypes: list(type) >= 1; container: string = ''; "
             "shared_name: string = ''",
    .doc = "Takes the first element of the staging area, when there is one.",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<StagedShape>,
});

TENON_OP(kStagePeek) = DefineOp({
    .name = "StagePeek",
    .inputs = "index: int32",
    .outputs = "values: dtypes",
    .attrs = "capacity: int >= 0 = 0; memory_limit: int >= 0 = 0; dtypes: list(type) >= 1; container: string = ''; "
             "shared_name: string = ''",
    .constraints = "rank(index) == 0",
    .doc = "Gives an element of the staging area, which stays, when there are so many.",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<StagedShape>,
});

TENON_OP(kStageSize) = DefineOp({
    .name = "StageSize",
    .outputs = "size: int32",
    .attrs = "capacity: int >= 0 = 0; memory_limit: int >= 0 = 0; dtypes: list(type); container: string = ''; "
             "shared_name: string = ''",
    .doc = "How many elements are in the staging area.",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ScalarShape>,
});

TENON_OP(kStageClear) = DefineOp({
    .name = "StageClear",
    .attrs = "capacity: int >= 0 = 0; memory_limit: int >= 0 = 0; dtypes: list(type); container: string = ''; "
             "shared_name: string = ''",
    .doc = "Drops what is in the staging area.",
    .traits = TENON_OP_STATEFUL,
});

TENON_OP(kMapStage) = DefineOp({
    .name = "MapStage",
    .inputs = "key: int64, indices: int32, values: fake_dtypes",
    .attrs = "capacity: int >= 0 = 0; memory_limit: int >= 0 = 0; dtypes: list(type); fake_dtypes: list(type) >= 1; "
             "container: string = ''; shared_name: string = ''",
    .constraints = "rank(key) == 0",
    .doc = "Lays values of the element with this key into the staging area, when there is room; it can be taken once "
           "all have come.",
    .traits = TENON_OP_STATEFUL,
});

TENON_OP(kMapUnstage) = DefineOp({
    .name = "MapUnstage",
    .inputs = "key: int64, indices: int32",
    .outputs = "values: dtypes",
    .attrs = "capacity: int >= 0 = 0; memory_limit: int >= 0 = 0; dtypes: list(type) >= 1; container: string = ''; "
             "shared_name: string = ''",
    .constraints = "rank(key) == 0",
    .doc = "Takes values of the element with this key, when all of it has come.",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<StagedShape>,
});

TENON_OP(kMapPeek) = DefineOp({
    .name = "MapPeek",
    .inputs = "key: int64, indices: int32",
    .outputs = "values: dtypes",
    .attrs = "capacity: int >= 0 = 0; memory_limit: int >= 0 = 0; dtypes: list(type) >= 1; container: string = ''; "
             "shared_name: string = ''",
    .constraints = "rank(key) == 0",
    .doc = "Gives values of the element with this key, which stay, when all of it has come.",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<StagedShape>,
});

TENON_OP(kMapUnstageNoKey) = DefineOp({
    .name = "MapUnstageNoKey",
    .inputs = "indices: int32",
    .outputs = "key: int64, values: dtypes",
    .attrs = "capacity: int >= 0 = 0; memory_limit: int >= 0 = 0; dtypes: list(type) >= 1; container: string = ''; "
             "shared_name: string = ''",
    .doc = "Takes values of the element with any key, when there is one.",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<AnyKeyShape>,
});

TENON_OP(kMapSize) = DefineOp({
    .name = "MapSize",
    .outputs = "size: int32",
    .attrs = "capacity: int >= 0 = 0; memory_limit: int >= 0 = 0; dtypes: list(type); container: string = ''; "
             "shared_name: string = ''",
    .doc = "How many elements can be taken.",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ScalarShape>,
});

TENON_OP(kMapIncompleteSize) = DefineOp({
    .name = "MapIncompleteSize",
    .outputs = "size: int32",
    .attrs = "capacity: int >= 0 = 0; memory_limit: int >= 0 = 0; dtypes: list(type); container: string = ''; "
             "shared_name: string = ''",
    .doc = "Of how many elements some values are still to come.",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ScalarShape>,
});

TENON_OP(kMapClear) = DefineOp({
    .name = "MapClear",
    .attrs = "capacity: int >= 0 = 0; memory_limit: int >= 0 = 0; dtypes: list(type); container: string = ''; "
             "shared_name: string = ''",
    .doc = "Drops what is in the staging area.",
    .traits = TENON_OP_STATEFUL,
});

TENON_OP(kOrderedMapStage) = DefineOp({
    .name = "OrderedMapStage",
    .inputs = "key: int64, indices: int32, values: fake_dtypes",
    .attrs = "capacity: int >= 0 = 0; memory_limit: int >= 0 = 0; dtypes: list(type); fake_dtypes: list(type) >= 1; "
             "container: string = ''; shared_name: string = ''",
    .constraints = "rank(key) == 0",
    .doc = "Lays values of the element with this key into the staging area, when there is room; it can be taken once "
           "all have come.",
    .traits = TENON_OP_STATEFUL,
});

TENON_OP(kOrderedMapUnstage) = DefineOp({
    .name = "OrderedMapUnstage",
    .inputs = "key: int64, indices: int32",
    .outputs = "values: dtypes",
    .attrs = "capacity: int >= 0 = 0; memory_limit: int >= 0 = 0; dtypes: list(type) >= 1; container: string = ''; "
             "shared_name: string = ''",
    .constraints = "rank(key) == 0",
    .doc = "Takes values of the element with this key, when all of it has come.",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<StagedShape>,
});

TENON_OP(kOrderedMapPeek) = DefineOp({
    .name = "OrderedMapPeek",
    .inputs = "key: int64, indices: int32",
    .outputs = "values: dtypes",
    .attrs = "capacity: int >= 0 = 0; memory_limit: int >= 0 = 0; dtypes: list(type) >= 1; container: string = ''; "
             "shared_name: string = ''",
    .constraints = "rank(key) == 0",
    .doc = "Gives values of the element with this key, which stay, when all of it has come.",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<StagedShape>,
});

TENON_OP(kOrderedMapUnstageNoKey) = DefineOp({
    .name = "OrderedMapUnstageNoKey",
    .inputs = "indices: int32",
    .outputs = "key: int64, values: dtypes",
    .attrs = "capacity: int >= 0 = 0; memory_limit: int >= 0 = 0; dtypes: list(type) >= 1; container: string = ''; "
             "shared_name: string = ''",
    .doc = "Takes values of the element with the smallest key, when there is one.",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<AnyKeyShape>,
});

TENON_OP(kOrderedMapSize) = DefineOp({
    .name = "OrderedMapSize",
    .outputs = "size: int32",
    .attrs = "capacity: int >= 0 = 0; memory_limit: int >= 0 = 0; dtypes: list(type); container: string = ''; "
             "shared_name: string = ''",
    .doc = "How many elements can be taken.",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ScalarShape>,
});

TENON_OP(kOrderedMapIncompleteSize) = DefineOp({
    .name = "OrderedMapIncompleteSize",
    .outputs = "size: int32",
    .attrs = "capacity: int >= 0 = 0; memory_limit: int >= 0 = 0; dtypes: list(type); container: string = ''; "
             "shared_name: string = ''",
    .doc = "Of how many elements some values are still to come.",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ScalarShape>,
});

TENON_OP(kOrderedMapClear) = DefineOp({
    .name = "OrderedMapClear",
    .attrs = "capacity: int >= 0 = 0; memory_limit: int >= 0 = 0; dtypes: list(type); container: string = ''; "
             "shared_name: string = ''",
    .doc = "Drops what is in the staging area.",
    .traits = TENON_OP_STATEFUL,
});

}  // namespace tenon::ops
