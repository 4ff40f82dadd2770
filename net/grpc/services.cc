// SPDX-License-Identifier: Apache-2.0
#include "services.h"

#include "tenon/bytes/wire.h"

namespace tenon::grpc_net {
namespace {

using sdk::WireReader;
using sdk::WireWriter;

constexpr std::string_view kHealthService = "grpc.health.v1.Health";
constexpr std::string_view kHealthFile = "grpc/health/v1/health.proto";
constexpr std::string_view kServices[] = {kHealthService, "grpc.reflection.v1.ServerReflection",
                                          "grpc.reflection.v1alpha.ServerReflection"};

grpc::Status NoMessage() { return {grpc::StatusCode::INVALID_ARGUMENT, "the request is no protocol buffer"}; }

// ---- descriptor.proto ----

constexpr uint32_t kTypeString = 9, kTypeEnum = 14, kOptional = 1;

std::string Field(std::string_view name, uint32_t type, std::string_view type_name) {
  WireWriter field;
  field.Bytes(1, name);
  field.Varint(3, 1);  // number
  field.Varint(4, kOptional);
  field.Varint(5, type);
  if (!type_name.empty()) field.Bytes(6, type_name);
  return field.bytes();
}
std::string EnumValue(std::string_view name, uint64_t number) {
  WireWriter value;
  value.Bytes(1, name);
  value.Varint(2, number);
  return value.bytes();
}
std::string Method(std::string_view name, bool streams) {
  WireWriter method;
  method.Bytes(1, name);
  method.Bytes(2, ".grpc.health.v1.HealthCheckRequest");
  method.Bytes(3, ".grpc.health.v1.HealthCheckResponse");
  method.Varint(6, streams ? 1 : 0);
  return method.bytes();
}

std::string HealthRequest() {
  WireWriter message;
  message.Bytes(1, "HealthCheckRequest");
  message.Bytes(2, Field("service", kTypeString, ""));
  return message.bytes();
}
std::string HealthResponse() {
  WireWriter states;
  states.Bytes(1, "ServingStatus");
  uint64_t number = 0;
  for (const std::string_view name : {"UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"})
    states.Bytes(2, EnumValue(name, number++));
  WireWriter message;
  message.Bytes(1, "HealthCheckResponse");
  message.Bytes(2, Field("status", kTypeEnum, ".grpc.health.v1.HealthCheckResponse.ServingStatus"));
  message.Bytes(4, states.bytes());
  return message.bytes();
}
std::string HealthDescriptor() {
  WireWriter service;
  service.Bytes(1, "Health");
  service.Bytes(2, Method("Check", false));
  service.Bytes(2, Method("Watch", true));
  WireWriter file;
  file.Bytes(1, kHealthFile);
  file.Bytes(2, "grpc.health.v1");
  file.Bytes(4, HealthRequest());
  file.Bytes(4, HealthResponse());
  file.Bytes(6, service.bytes());
  file.Bytes(12, "proto3");
  return file.bytes();
}

// ---- reflection.proto ----

// Fields of ServerReflectionRequest and ...Response.
enum : uint32_t { kHost = 1, kByFilename = 3, kBySymbol = 4, kListServices = 7 };
enum : uint32_t { kValidHost = 1, kOriginalRequest = 2, kFileResponse = 4, kServicesResponse = 6, kErrorResponse = 7 };

bool IsOfHealth(std::string_view symbol) { return symbol.starts_with("grpc.health.v1."); }

std::string Services() {
  WireWriter list;
  for (const std::string_view name : kServices) {
    WireWriter service;
    service.Bytes(1, name);
    list.Bytes(1, service.bytes());
  }
  return list.bytes();
}
std::string FileResponse() {
  WireWriter files;
  files.Bytes(1, HealthDescriptor());
  return files.bytes();
}
std::string NotFound() {
  WireWriter error;
  error.Varint(1, grpc::StatusCode::NOT_FOUND);
  error.Bytes(2, "only grpc.health.v1 is described here");
  return error.bytes();
}

}  // namespace

Service ServiceOf(std::string_view method) {
  if (method == "/grpc.health.v1.Health/Check") return Service::kHealth;
  if (method == "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo" ||
      method == "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo") {
    return Service::kReflection;
  }
  return Service::kNone;
}

grpc::Status CheckHealth(std::string_view request, bool serving, std::string* response) {
  std::string_view service;
  WireReader reader(request);
  while (reader.Next()) {
    if (reader.field() == 1) service = reader.delimited();
  }
  if (!reader.ok()) return NoMessage();
  if (!service.empty() && service != kHealthService)
    return {grpc::StatusCode::NOT_FOUND, "no service '" + std::string(service) + "' here"};
  constexpr uint64_t kServing = 1, kNotServing = 2;
  WireWriter answer;
  answer.Varint(1, serving ? kServing : kNotServing);
  *response = answer.bytes();
  return grpc::Status::OK;
}

grpc::Status Reflect(std::string_view request, std::string* response) {
  std::string_view host, asked;
  uint32_t kind = 0;
  WireReader reader(request);
  while (reader.Next()) {
    if (reader.field() == kHost) {
      host = reader.delimited();
    } else {
      kind = reader.field();
      asked = reader.delimited();
    }
  }
  if (!reader.ok()) return NoMessage();
  WireWriter answer;
  answer.Bytes(kValidHost, host);
  answer.Bytes(kOriginalRequest, request);
  if (kind == kListServices) {
    answer.Bytes(kServicesResponse, Services());
  } else if ((kind == kByFilename && asked == kHealthFile) || (kind == kBySymbol && IsOfHealth(asked))) {
    answer.Bytes(kFileResponse, FileResponse());
  } else {
    answer.Bytes(kErrorResponse, NotFound());
  }
  *response = answer.bytes();
  return grpc::Status::OK;
}

}  // namespace tenon::grpc_net
