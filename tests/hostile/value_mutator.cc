// SPDX-License-Identifier: Apache-2.0
#include "tests/hostile/value_mutator.h"

#include <algorithm>
#include <cstring>

namespace tenon::hostile {

using tensorflow::AttrValue;
using tensorflow::TensorProto;
using tensorflow::TensorShapeProto;

namespace {

constexpr int64_t kMostElements = 4096;

// How many elements a shape has, when they are few.
int64_t FewElements(const TensorShapeProto& shape) {
  int64_t count = 1;
  for (const auto& dim : shape.dim()) {
    if (dim.size() < 0 || dim.size() > kMostElements) return -1;
    count *= dim.size();
    if (count > kMostElements) return -1;
  }
  return count;
}

template <typename T>
std::string Little(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}

void ClearValues(TensorProto* tensor) {
  const auto dtype = tensor->dtype();
  const TensorShapeProto shape = tensor->tensor_shape();
  tensor->Clear();
  tensor->set_dtype(dtype);
  *tensor->mutable_tensor_shape() = shape;
}

// Elements of its own for each place, where they are few; else one that stands for all.
void Fill(Dice& dice, TensorProto* tensor) {
  ClearValues(tensor);
  const int64_t count = FewElements(tensor->tensor_shape());
  if (tensor->dtype() == tensorflow::DT_STRING) {
    for (int64_t i = 0; i < std::max<int64_t>(count, 1); ++i)
      tensor->add_string_val(dice.OneIn(3) ? dice.OddText() : "word");
    return;
  }
  if (ElementSize(tensor->dtype()) == 0) return;
  if (count < 0) {
    tensor->add_int_val(static_cast<int32_t>(dice.OddInt()));
    tensor->add_float_val(static_cast<float>(dice.OddFloat()));
    tensor->add_int64_val(dice.OddInt());
    return;
  }
  std::string content;
  for (int64_t i = 0; i < count; ++i) content += OddElement(dice, tensor->dtype());
  tensor->set_tensor_content(content);
}

// One element of those that are written.
void ChangeElement(Dice& dice, TensorProto* tensor) {
  const size_t size = ElementSize(tensor->dtype());
  std::string* content = tensor->mutable_tensor_content();
  if (size != 0 && content->size() >= size) {
    content->replace(dice.Under(content->size() / size) * size, size, OddElement(dice, tensor->dtype()));
    return;
  }
  const auto any = [&](int count) { return static_cast<int>(dice.Under(static_cast<size_t>(count))); };
  if (tensor->int_val_size() > 0) tensor->set_int_val(any(tensor->int_val_size()), static_cast<int32_t>(dice.OddInt()));
  if (tensor->int64_val_size() > 0) tensor->set_int64_val(any(tensor->int64_val_size()), dice.OddInt());
  if (tensor->float_val_size() > 0)
    tensor->set_float_val(any(tensor->float_val_size()), static_cast<float>(dice.OddFloat()));
  if (tensor->double_val_size() > 0) tensor->set_double_val(any(tensor->double_val_size()), dice.OddFloat());
  if (tensor->string_val_size() > 0) tensor->set_string_val(any(tensor->string_val_size()), dice.OddText());
  if (tensor->bool_val_size() > 0) tensor->set_bool_val(0, dice.OneIn(2));
}

void ChangeString(Dice& dice, std::string* text) {
  if (dice.OneIn(3) && !text->empty()) text->resize(dice.Under(text->size() + 1));
  else *text = dice.OddText();
}

template <typename Repeated, typename Change, typename Add>
void ChangeList(Dice& dice, Repeated* list, const Change& change, const Add& add) {
  const size_t count = static_cast<size_t>(list->size());
  switch (dice.Under(5)) {
    case 0: return add();
    case 1: return list->Clear();
    case 2:
      if (count > 0) list->RemoveLast();
      return;
    case 3:
      if (count > 1) list->SwapElements(static_cast<int>(dice.Under(count)), static_cast<int>(dice.Under(count)));
      return;
    default:
      if (count > 0) change(static_cast<int>(dice.Under(count)));
  }
}

void MutateList(Dice& dice, AttrValue::ListValue* list) {
  if (list->i_size() > 0 || dice.OneIn(12))
    ChangeList(
        dice, list->mutable_i(), [&](int at) { list->set_i(at, dice.OddInt()); }, [&] { list->add_i(dice.OddInt()); });
  else if (list->type_size() > 0 || dice.OneIn(8))
    ChangeList(
        dice, list->mutable_type(),
        [&](int at) { list->set_type(at, static_cast<tensorflow::DataType>(dice.OddType())); },
        [&] { list->add_type(static_cast<tensorflow::DataType>(dice.OddType())); });
  else if (list->shape_size() > 0)
    ChangeList(
        dice, list->mutable_shape(), [&](int at) { MutateShape(dice, list->mutable_shape(at)); },
        [&] { list->add_shape(); });
  else if (list->f_size() > 0)
    ChangeList(dice, list->mutable_f(), [&](int at) { list->set_f(at, static_cast<float>(dice.OddFloat())); },
               [&] { list->add_f(static_cast<float>(dice.OddFloat())); });
  else if (list->func_size() > 0)
    ChangeList(
        dice, list->mutable_func(), [&](int at) { list->mutable_func(at)->set_name(dice.OddText()); },
        [&] { list->add_func(); });
  else
    ChangeList(
        dice, list->mutable_s(), [&](int at) { ChangeString(dice, list->mutable_s(at)); },
        [&] { list->add_s(dice.OddText()); });
}

// Of any kind at all.
void OtherKind(Dice& dice, AttrValue* attr) {
  switch (dice.Under(9)) {
    case 0: return attr->set_i(dice.OddInt());
    case 1: return attr->set_s(dice.OddText());
    case 2: return attr->set_f(static_cast<float>(dice.OddFloat()));
    case 3: return attr->set_b(dice.OneIn(2));
    case 4: return attr->set_type(static_cast<tensorflow::DataType>(dice.OddType()));
    case 5: return MutateShape(dice, attr->mutable_shape());
    case 6: return attr->set_placeholder(dice.OddText());
    case 7: return MutateList(dice, attr->mutable_list());
    default: return attr->clear_value();
  }
}

}  // namespace

size_t ElementSize(int dtype) {
  switch (dtype) {
    case tensorflow::DT_FLOAT:
    case tensorflow::DT_INT32:
    case tensorflow::DT_UINT32:
    case tensorflow::DT_QINT32: return 4;
    case tensorflow::DT_DOUBLE:
    case tensorflow::DT_INT64:
    case tensorflow::DT_UINT64:
    case tensorflow::DT_COMPLEX64: return 8;
    case tensorflow::DT_UINT8:
    case tensorflow::DT_INT8:
    case tensorflow::DT_BOOL:
    case tensorflow::DT_QINT8:
    case tensorflow::DT_QUINT8: return 1;
    case tensorflow::DT_INT16:
    case tensorflow::DT_UINT16:
    case tensorflow::DT_HALF:
    case tensorflow::DT_BFLOAT16:
    case tensorflow::DT_QINT16:
    case tensorflow::DT_QUINT16: return 2;
    case tensorflow::DT_COMPLEX128: return 16;
    default: return 0;
  }
}

std::string OddElement(Dice& dice, int dtype) {
  switch (dtype) {
    case tensorflow::DT_FLOAT: return Little(static_cast<float>(dice.OddFloat()));
    case tensorflow::DT_DOUBLE: return Little(dice.OddFloat());
    case tensorflow::DT_COMPLEX64:
      return Little(static_cast<float>(dice.OddFloat())) + Little(static_cast<float>(dice.OddFloat()));
    case tensorflow::DT_COMPLEX128: return Little(dice.OddFloat()) + Little(dice.OddFloat());
    case tensorflow::DT_BOOL: return std::string(1, static_cast<char>(dice.Under(2)));
    default: return Little(dice.OddInt()).substr(0, ElementSize(dtype));
  }
}

void Retype(Dice& dice, int dtype, TensorProto* tensor) {
  tensor->set_dtype(static_cast<tensorflow::DataType>(dtype));
  Fill(dice, tensor);
}

void MutateShape(Dice& dice, TensorShapeProto* shape) {
  const auto count = static_cast<size_t>(shape->dim_size());
  switch (dice.Under(8)) {
    case 0: shape->add_dim()->set_size(dice.OddInt()); return;
    case 1:
      if (count > 0) shape->mutable_dim()->RemoveLast();
      return;
    case 2: shape->clear_dim(); return;
    case 3: shape->set_unknown_rank(true); return;
    case 4:
      if (dice.OneIn(4))
        for (int i = 0; i < 260; ++i) shape->add_dim()->set_size(1);
      return;
    case 5:
      if (count > 1)
        shape->mutable_dim()->SwapElements(static_cast<int>(dice.Under(count)), static_cast<int>(dice.Under(count)));
      return;
    default:
      if (count > 0)
        shape->mutable_dim(static_cast<int>(dice.Under(count)))
            ->set_size(dice.OneIn(2) ? static_cast<int64_t>(dice.Under(5)) : dice.OddInt());
  }
}

void MutateTensor(Dice& dice, TensorProto* tensor) {
  switch (dice.Under(10)) {
    case 0: case 1: case 2: return ChangeElement(dice, tensor);
    case 3: case 4:
      MutateShape(dice, tensor->mutable_tensor_shape());
      return Fill(dice, tensor);
    case 5: return MutateShape(dice, tensor->mutable_tensor_shape());
    case 6: return Retype(dice, dice.OddType(), tensor);
    case 7: return tensor->set_dtype(static_cast<tensorflow::DataType>(dice.OddType()));
    case 8: return tensor->mutable_tensor_content()->resize(dice.Under(tensor->tensor_content().size() + 9));
    default: return Fill(dice, tensor);
  }
}

void MutateAttr(Dice& dice, const std::vector<std::string>& functions, AttrValue* attr) {
  if (dice.OneIn(6)) return OtherKind(dice, attr);
  switch (attr->value_case()) {
    case AttrValue::kI:
      return attr->set_i(dice.OneIn(3) ? static_cast<int64_t>(static_cast<uint64_t>(attr->i()) + dice.Under(3) - 1)
                                       : dice.OddInt());
    case AttrValue::kF: return attr->set_f(static_cast<float>(dice.OddFloat()));
    case AttrValue::kB: return attr->set_b(!attr->b());
    case AttrValue::kS: return ChangeString(dice, attr->mutable_s());
    case AttrValue::kType: return attr->set_type(static_cast<tensorflow::DataType>(dice.OddType()));
    case AttrValue::kShape: return MutateShape(dice, attr->mutable_shape());
    case AttrValue::kTensor: return MutateTensor(dice, attr->mutable_tensor());
    case AttrValue::kList: return MutateList(dice, attr->mutable_list());
    case AttrValue::kFunc:
      return attr->mutable_func()->set_name(functions.empty() || dice.OneIn(4) ? dice.OddText()
                                                                               : dice.AnyOf(functions));
    default: return OtherKind(dice, attr);
  }
}

}  // namespace tenon::hostile
