// SPDX-License-Identifier: Apache-2.0
// The standard health and reflection services, as functions of messages.
//
// gRPC's own bring threads that poll beside the queue's (which doubles the time of a round trip) and protobuf; these
// answer a few small messages on the queue's thread. health.proto's Check says SERVING, or NOT_SERVING when the
// listener takes nobody in any more; Watch is UNIMPLEMENTED, which its protocol allows. Reflection is known as v1alpha
// and v1.
#ifndef TENON_NET_GRPC_SERVICES_H_
#define TENON_NET_GRPC_SERVICES_H_

#include <grpcpp/support/status.h>

#include <string>
#include <string_view>

namespace tenon::grpc_net {

enum class Service { kNone, kHealth, kReflection };
Service ServiceOf(std::string_view method);

// One request's response; INVALID_ARGUMENT for what is no message.
grpc::Status CheckHealth(std::string_view request, bool serving, std::string* response);
grpc::Status Reflect(std::string_view request, std::string* response);

}  // namespace tenon::grpc_net
#endif  // TENON_NET_GRPC_SERVICES_H_
