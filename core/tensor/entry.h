// SPDX-License-Identifier: Apache-2.0
// How values come into the slots of a step.
//
// What a kernel makes is allocated for the type that the node declares, or goes through set_output, which holds it
// against that (kernel/frame_services.cc, CheckGiven). At every other place a value was made elsewhere and says itself
// what it is: another graph, another step or another process may have meant another type by the same name. A string or
// a variant that is none would be followed as pointers. So each of these places calls CheckEntry, or a check of its own
// that is stricter:
//
//   a variable behind a reference    Dereference: program/operations.cc RunRead, dataflow/dynamic_instance.cc
//                                    ReadReference, dataflow/fetched_values.cc Read
//   a variable behind a handle       the kernel gets a view that says its type (variable_read), and what it gives on
//                                    goes through set_output
//   another part of the step         Unpacked: program/operations.cc RunReceive, dataflow/dynamic_instance.cc Conclude,
//                                    whichever process it stands in; before that, what a peer sends is plain or
//                                    strings and as long as it says (net/cluster/packet.cc DecodeHead,
//                                    worker_values.cc MakeRoom)
//   feeds, of functions' calls too   core/session/callable.cc CheckFeed; of partial runs, before they meet the
//                                    receives above
//   the application's tensors        sdk/app/host (tensor.cc, dlpack.cc), before they are feeds
//   what plugins keep                queues, tables, iterators, lists, captured arguments: it comes back through
//                                    set_output
#ifndef TENON_CORE_TENSOR_ENTRY_H_
#define TENON_CORE_TENSOR_ENTRY_H_

#include "core/tensor/tensor.h"

namespace tenon {

// That the value is of the type which its reader was made for, and that its size is that of its shape.
// INVALID_ARGUMENT.
Status CheckEntry(const tenon_tensor_view& value, DType declared);

}  // namespace tenon

#endif  // TENON_CORE_TENSOR_ENTRY_H_
