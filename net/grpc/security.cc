// SPDX-License-Identifier: Apache-2.0
#include "security.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <climits>

#include <fstream>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "tenon/sdk/span.h"

namespace tenon::grpc_net {
namespace {

using nlohmann::json;
using sdk::Failure;

tenon_status* CheckKeys(const json& object, std::string_view what, std::initializer_list<std::string_view> known) {
  for (const auto& [key, value] : object.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    std::string list;
    for (const std::string_view name : known) list += std::string(list.empty() ? "" : ", ").append(name);
    return Failure(TENON_INVALID_ARGUMENT, what, " have the unknown key '", key, "'; known are ", list);
  }
  return nullptr;
}

tenon_status* TakeText(const json& object, const char* key, std::string* out) {
  const auto found = object.find(key);
  if (found == object.end()) return nullptr;
  if (!found->is_string())
    return Failure(TENON_INVALID_ARGUMENT, "'", key, "' of gRPC's credentials should be a text, not ", found->dump());
  *out = found->get<std::string>();
  return nullptr;
}

tenon_status* TakeFlag(const json& object, const char* key, bool* out) {
  const auto found = object.find(key);
  if (found == object.end()) return nullptr;
  if (!found->is_boolean())
    return Failure(TENON_INVALID_ARGUMENT, "'", key, "' of gRPC's credentials should be true or false, not ",
                   found->dump());
  *out = found->get<bool>();
  return nullptr;
}

tenon_status* TakeFile(const json& object, const char* key, std::string* out) {
  std::string path;
  TENON_SDK_RETURN_IF_ERROR(TakeText(object, key, &path));
  if (path.empty()) return nullptr;
  std::ifstream file(path, std::ios::binary);
  out->assign(std::istreambuf_iterator<char>(file), {});
  if (!out->empty()) return nullptr;
  return Failure(TENON_NOT_FOUND, "cannot read the ", key, " of gRPC's credentials: ", path,
                 " is missing, empty or not readable");
}

tenon_status* TakeTls(const json& tls, Security* out) {
  if (!tls.is_object())
    return Failure(TENON_INVALID_ARGUMENT, "'tls' of gRPC's credentials should be an object, not ", tls.dump());
  TENON_SDK_RETURN_IF_ERROR(
      CheckKeys(tls, "gRPC's tls credentials", {"certificate", "key", "authority", "mutual", "name"}));
  out->tls = true;
  TENON_SDK_RETURN_IF_ERROR(TakeFile(tls, "certificate", &out->certificate));
  TENON_SDK_RETURN_IF_ERROR(TakeFile(tls, "key", &out->key));
  TENON_SDK_RETURN_IF_ERROR(TakeFile(tls, "authority", &out->authority));
  TENON_SDK_RETURN_IF_ERROR(TakeText(tls, "name", &out->name));
  TENON_SDK_RETURN_IF_ERROR(TakeFlag(tls, "mutual", &out->mutual));
  if (out->certificate.empty() != out->key.empty()) {
    return Failure(TENON_INVALID_ARGUMENT,
                   "gRPC's tls credentials have a certificate without its key, or a key alone; give both or neither");
  }
  if (out->mutual && (out->key.empty() || out->authority.empty())) {
    return Failure(TENON_INVALID_ARGUMENT,
                   "mutual TLS needs 'certificate', 'key' and 'authority' in gRPC's credentials");
  }
  return nullptr;
}

bool IsLoopback(const std::string& host) {
  in_addr four{};
  in6_addr six{};
  if (inet_pton(AF_INET, host.c_str(), &four) == 1) return ntohl(four.s_addr) >> 24 == 127;
  if (inet_pton(AF_INET6, host.c_str(), &six) == 1) return IN6_IS_ADDR_LOOPBACK(&six);
  return host == "localhost";
}

// The address of this host alone that a name of it stands for, as "ADDRESS:PORT"; empty: it is another's, or leads out
// as well.
std::string Here(const std::string& host, const std::string& port) {
  char own[HOST_NAME_MAX + 1] = {};
  if (gethostname(own, sizeof own - 1) != 0) return {};
  const std::string_view name = own;
  if (host != name && host != name.substr(0, name.find('.'))) return {};
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return {};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(found, freeaddrinfo);
  std::string first;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    char text[NI_MAXHOST];
    if (getnameinfo(each->ai_addr, each->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0 ||
        !IsLoopback(text))
      return {};
    if (first.empty())
      first = each->ai_family == AF_INET6 ? sdk::Concat("[", text, "]:", port) : sdk::Concat(text, ":", port);
  }
  return first;
}

// What is said there stays within this host.
bool IsOnHost(const Address& address) { return address.is_unix() || !address.here.empty() || IsLoopback(address.host); }

bool IsPort(std::string_view text) {
  if (text.empty() || text.size() > 5 || text.find_first_not_of("0123456789") != text.npos) return false;
  return std::stoi(std::string(text)) <= 65535;
}

}  // namespace

tenon_status* ParseSecurity(std::string_view text, Security* out) {
  if (text.empty()) return nullptr;
  const json credentials = json::parse(text, nullptr, false);
  if (!credentials.is_object())
    return Failure(TENON_INVALID_ARGUMENT, "gRPC's credentials should be a JSON object, {\"tls\": {...}}");
  TENON_SDK_RETURN_IF_ERROR(CheckKeys(credentials, "gRPC's credentials", {"tls", "token", "plaintext"}));
  TENON_SDK_RETURN_IF_ERROR(TakeText(credentials, "token", &out->token));
  TENON_SDK_RETURN_IF_ERROR(TakeFlag(credentials, "plaintext", &out->plaintext));
  if (const auto tls = credentials.find("tls"); tls != credentials.end()) return TakeTls(*tls, out);
  return nullptr;
}

tenon_status* ParseAddress(std::string_view text, Address* out) {
  out->text = text;
  const std::string_view rest = text;
  if (rest.starts_with('/')) {
    out->target = sdk::Concat("unix:", rest);
    return nullptr;
  }
  const size_t colon = rest.rfind(':');
  std::string_view host = rest.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']'))
    host = host.substr(1, host.size() - 2);
  else if (host.find(':') != host.npos)
    host = {};
  if (colon == rest.npos || host.empty() || !IsPort(rest.substr(colon + 1))) {
    return Failure(TENON_INVALID_ARGUMENT, "'", text,
                   "' is no address of gRPC's: grpc://host:port, grpc://[::1]:port or grpc:///path of a socket");
  }
  out->host = host;
  out->port = rest.substr(colon + 1);
  out->target = rest;
  out->here = Here(out->host, out->port);
  return nullptr;
}

tenon_status* CheckPlaintext(const Security& security, const Address& address) {
  if (security.tls || security.plaintext || IsOnHost(address)) return nullptr;
  return Failure(TENON_FAILED_PRECONDITION, "plaintext is refused at ", address.text,
                 ", which is not this host alone: give {\"tls\": {...}}, or ",
                 "{\"plaintext\": true} to let everybody on the way read and change what is sent");
}

tenon_status* CheckListener(const Security& security, const Address& address) {
  TENON_SDK_RETURN_IF_ERROR(CheckPlaintext(security, address));
  if (security.plaintext || security.mutual || !security.token.empty() || IsOnHost(address)) return nullptr;
  return Failure(TENON_FAILED_PRECONDITION, "listening at ", address.text,
                 " is refused: with a certificate and its key alone everybody who ",
                 "reaches it is let in, from other hosts too; give a \"token\" as well, or \"mutual\": true with the "
                 "\"authority\" of the ",
                 "clients' certificates");
}

tenon_status* ListenerCredentials(const Security& security, std::shared_ptr<grpc::ServerCredentials>* out) {
  if (!security.tls) {
    *out = grpc::InsecureServerCredentials();
    return nullptr;
  }
  if (security.key.empty())
    return Failure(TENON_INVALID_ARGUMENT, "a listener with TLS needs 'certificate' and 'key' in gRPC's credentials");
  grpc::SslServerCredentialsOptions options(security.mutual ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                                            : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  options.pem_root_certs = security.authority;
  options.pem_key_cert_pairs.push_back({security.key, security.certificate});
  *out = grpc::SslServerCredentials(options);
  return nullptr;
}

std::shared_ptr<grpc::ChannelCredentials> ConnectorCredentials(const Security& security) {
  if (!security.tls) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = security.authority;
  if (security.mutual) {
    options.pem_private_key = security.key;
    options.pem_cert_chain = security.certificate;
  }
  return grpc::SslCredentials(options);
}

bool SameToken(std::string_view given, std::string_view wanted) {
  volatile unsigned difference = given.size() == wanted.size() ? 0 : 1;
  for (size_t i = 0; i < given.size(); ++i) {
    const unsigned char other = wanted.empty() ? 0 : static_cast<unsigned char>(wanted[i % wanted.size()]);
    difference = difference | (static_cast<unsigned char>(given[i]) ^ other);
  }
  return difference == 0;
}

}  // namespace tenon::grpc_net
