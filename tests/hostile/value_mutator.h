// SPDX-License-Identifier: Apache-2.0
// Damages values: shapes, tensors, attributes. Half of what comes out is of the right kind and merely unlikely, so that
// it gets far.
#ifndef TENON_TESTS_HOSTILE_VALUE_MUTATOR_H_
#define TENON_TESTS_HOSTILE_VALUE_MUTATOR_H_

#include <string>
#include <vector>

#include "core/graph/graphdef/graph.pb.h"
#include "tests/hostile/dice.h"

namespace tenon::hostile {

void MutateShape(Dice& dice, tensorflow::TensorShapeProto* shape);
void MutateTensor(Dice& dice, tensorflow::TensorProto* tensor);
// functions: names that an attribute of functions may get.
void MutateAttr(Dice& dice, const std::vector<std::string>& functions, tensorflow::AttrValue* attr);

// Bytes of an element; 0: not of a fixed size.
size_t ElementSize(int dtype);
// An element of a type, little-endian: a small number or an extreme one.
std::string OddElement(Dice& dice, int dtype);
// `tensor` in another type: as many elements, of odd values.
void Retype(Dice& dice, int dtype, tensorflow::TensorProto* tensor);

}  // namespace tenon::hostile

#endif  // TENON_TESTS_HOSTILE_VALUE_MUTATOR_H_
