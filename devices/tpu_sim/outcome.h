// SPDX-License-Identifier: Apache-2.0
#ifndef TENON_DEVICES_TPU_SIM_OUTCOME_H_
#define TENON_DEVICES_TPU_SIM_OUTCOME_H_

#include "tenon/sdk/outcome.h"

namespace tenon::tpu_sim {
using sdk::Fault;
using sdk::Outcome;
using sdk::TakeStatus;
using sdk::ToStatus;
}  // namespace tenon::tpu_sim

#endif  // TENON_DEVICES_TPU_SIM_OUTCOME_H_
