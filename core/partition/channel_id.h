// SPDX-License-Identifier: Apache-2.0
// ChannelId: a channel between the parts of a graph (parts.h).
#ifndef TENON_CORE_PARTITION_CHANNEL_ID_H_
#define TENON_CORE_PARTITION_CHANNEL_ID_H_

#include "core/base/id.h"

namespace tenon::partition {

using ChannelId = Id<struct ChannelKind>;

}  // namespace tenon::partition

#endif  // TENON_CORE_PARTITION_CHANNEL_ID_H_
