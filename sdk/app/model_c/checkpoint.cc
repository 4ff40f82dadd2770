// SPDX-License-Identifier: Apache-2.0
// The checkpoints of model.h.
#include "tenon/model/checkpoint.h"

#include "sdk/app/model_c/objects.h"
#include "tenon/model.h"
#include "tenon/bytes/near_miss.h"

using namespace tenon;           // NOLINT: this file implements C functions of the global namespace
using namespace tenon::model_c;  // NOLINT

extern "C" {

tenon_status* tenon_checkpoint_open(tenon_span path, tenon_checkpoint** out_checkpoint) {
  return Guard([&]() -> Status {
    TENON_CHECK(path, out_checkpoint);
    TENON_TRY_ASSIGN(model::CheckpointIndex index, model::CheckpointIndex::Read(Copy(path)));
    *out_checkpoint = new tenon_checkpoint{std::move(index)};
    return Status();
  });
}

void tenon_checkpoint_release(tenon_checkpoint* checkpoint) { delete checkpoint; }

uint64_t tenon_checkpoint_count(const tenon_checkpoint* checkpoint) {
  return checkpoint == nullptr ? 0 : checkpoint->index.tensors.size();
}

tenon_status* tenon_checkpoint_get(const tenon_checkpoint* checkpoint, uint64_t index,
                                   tenon_checkpoint_entry* out_entry) {
  return Guard([&]() -> Status {
    TENON_CHECK(checkpoint, out_entry);
    TENON_TRY(CheckIndex(index, checkpoint->index.tensors.size(), "tensor"));
    const model::CheckpointTensor& tensor = checkpoint->index.tensors[index];
    tenon_checkpoint_entry entry = {};
    entry.struct_size = sizeof(entry);
    entry.name = Span(tensor.name);
    entry.shape = tensor.shape.c_shape();
    entry.bytes = tensor.bytes;
    entry.parts = static_cast<uint64_t>(tensor.parts);
    entry.dtype = static_cast<uint32_t>(tensor.dtype);
    return WriteStruct(entry, out_entry);
  });
}

tenon_status* tenon_checkpoint_find(const tenon_checkpoint* checkpoint, tenon_span name, uint64_t* out_index) {
  return Guard([&]() -> Status {
    TENON_CHECK(checkpoint, name, out_index);
    const model::CheckpointTensor* const tensor = checkpoint->index.Find(Text(name));
    if (tensor != nullptr) {
      *out_index = static_cast<uint64_t>(tensor - checkpoint->index.tensors.data());
      return Status();
    }
    sdk::NearMiss near(Text(name));
    for (const model::CheckpointTensor& each : checkpoint->index.tensors) near.Try(each.name);
    return Status(Code::kNotFound,
                  "the checkpoint '" + checkpoint->index.prefix + "' holds no '" + Copy(name) + "'" + near.Hint());
  });
}

tenon_status* tenon_checkpoint_read(const tenon_checkpoint* checkpoint, tenon_runtime* runtime, uint64_t index,
                                    tenon_tensor** out_tensor) {
  return Guard([&]() -> Status {
    TENON_CHECK(checkpoint, runtime, out_tensor);
    TENON_TRY(CheckIndex(index, checkpoint->index.tensors.size(), "tensor"));
    TENON_TRY_ASSIGN(Tensor tensor, model::ReadCheckpointTensor(host::Runtime::Borrow(runtime), checkpoint->index,
                                                                checkpoint->index.tensors[index]));
    GiveTensors({tensor}, out_tensor);
    return Status();
  });
}

}  // extern "C"
