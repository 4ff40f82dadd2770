// SPDX-License-Identifier: Apache-2.0
#include "core/graph/graphdef/wire.h"

#include <google/protobuf/wire_format_lite.h>

namespace tenon::graph {

std::vector<std::string_view> MembersOf(std::string_view message, int number) {
  using google::protobuf::internal::WireFormatLite;
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t*>(message.data()),
                                            static_cast<int>(message.size()));
  std::vector<std::string_view> members;
  while (const uint32_t tag = in.ReadTag()) {
    if (tag != WireFormatLite::MakeTag(number, WireFormatLite::WIRETYPE_LENGTH_DELIMITED)) {
      if (!WireFormatLite::SkipField(&in, tag)) break;
      continue;
    }
    int size = 0;
    if (!in.ReadVarintSizeAsInt(&size)) break;
    members.push_back(message.substr(static_cast<size_t>(in.CurrentPosition()), static_cast<size_t>(size)));
    if (!in.Skip(size)) break;
  }
  return members;
}

void AddMember(int number, std::string_view bytes, std::string* message) {
  google::protobuf::io::StringOutputStream stream(message);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.WriteTag(static_cast<uint32_t>(number) << 3 | 2);  // of a length, then bytes
  coded.WriteVarint32(static_cast<uint32_t>(bytes.size()));
  coded.WriteRaw(bytes.data(), static_cast<int>(bytes.size()));
}

}  // namespace tenon::graph
