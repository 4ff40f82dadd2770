// SPDX-License-Identifier: Apache-2.0
// Messages' bytes: members that are taken out and put in as they are.
#ifndef TENON_CORE_GRAPH_GRAPHDEF_WIRE_H_
#define TENON_CORE_GRAPH_GRAPHDEF_WIRE_H_

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <string>
#include <string_view>
#include <vector>

namespace tenon::graph {

// The same message gives the same bytes: maps in the order of their keys.
template <typename Message>
bool WriteInOrder(const Message& message, std::string* out) {
  google::protobuf::io::StringOutputStream stream(out);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  return message.SerializeToCodedStream(&coded);
}

// The bytes of a message's members of that number, in their order. The message has been parsed: it is well formed.
std::vector<std::string_view> MembersOf(std::string_view message, int number);

// Adds a member to a message's bytes.
void AddMember(int number, std::string_view bytes, std::string* message);

}  // namespace tenon::graph

#endif  // TENON_CORE_GRAPH_GRAPHDEF_WIRE_H_
