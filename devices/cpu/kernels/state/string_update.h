// SPDX-License-Identifier: Apache-2.0
// Variables of strings that are changed in places. Their bytes take other room than the old ones', so the value is made
// anew as a whole: as large as a look before the update says, and once more when another update came between.
#ifndef TENON_DEVICES_CPU_KERNELS_STATE_STRING_UPDATE_H_
#define TENON_DEVICES_CPU_KERNELS_STATE_STRING_UPDATE_H_

#include <algorithm>
#include <memory_resource>
#include <string>
#include <vector>

#include "kernels/common/types.h"
#include "tenon/extras/kernel/step_memory.h"
#include "tenon/sdk/kernel/string_tensor.h"
#include "tenon/extras/kernel/update.h"

namespace tenon::cpu {

// Texts in memory that counts against the limit of the step's session: one update may be put into every element.
using Texts = std::pmr::vector<std::pmr::string>;
class TextMemory {
 public:
  explicit TextMemory(const sdk::RunContext& c) : memory_(c) {}
  std::pmr::memory_resource* get() { return &pool_; }

 private:
  sdk::StepMemory memory_;
  std::pmr::unsynchronized_pool_resource pool_{&memory_};
};

// put(context, old value, texts): writes into `texts`, which are the old value's, copied, since the new value may lie
// where the old one does; its failures cost nothing. lock: of UpdateLock. INVALID_ARGUMENT where the variable is of no
// strings.
template <class Put>
void UpdateStrings(const sdk::RunContext& c, tenon_resource* handle, uint32_t lock, const Put& put) {
  TextMemory memory(c);
  const auto after = [&](const tenon_tensor_view& value) {
    if (value.dtype != TENON_DT_STRING)
      sdk::Fail(TENON_INVALID_ARGUMENT, "the variable is ", sdk::TypeName(value.dtype), "; the updates are strings");
    const std::vector<std::string_view> old = sdk::StringsOf(value);
    Texts texts(old.begin(), old.end(), memory.get());
    put(c, value, texts);
    return texts;
  };
  for (;; c.CheckCancelled()) {
    tenon_tensor_view value = {};
    sdk::Check(c.services().variable_read(c.frame(), handle, &value));
    const uint64_t bytes = sdk::BytesOf(after(value));
    sdk::Update update(c, handle, lock | TENON_UPDATE_INITIALIZE, TENON_DT_STRING, sdk::DimsOf(value), bytes);
    update.NothingWritten();
    const tenon_tensor_view& old = update.old_view();
    if (old.dl.data == nullptr || !std::ranges::equal(sdk::DimsOf(old), sdk::DimsOf(value))) continue;
    const Texts texts = after(old);
    if (sdk::BytesOf(texts) != bytes) continue;
    update.BeginWriting();
    sdk::WriteStrings(update.template new_data<char>(), texts);
    update.Commit();
    return;
  }
}

}  // namespace tenon::cpu

#endif  // TENON_DEVICES_CPU_KERNELS_STATE_STRING_UPDATE_H_
