// SPDX-License-Identifier: Apache-2.0
// What the credentials' JSON says, and where plaintext is let through.
//
//   {"tls": {"certificate": FILE, "key": FILE, "authority": FILE, "mutual": true, "name": "host"}, "token": "...",
//   "plaintext": true}
//
// Files are PEM. A listener proves its certificate; "mutual": the connecting side must prove one of the same authority.
// "name": the certificate's name that the connecting side expects, where it is not the address' host. "token": both
// sides have the same; it goes over TLS or within this host, unless "plaintext" asks for more.
#ifndef TENON_NET_GRPC_SECURITY_H_
#define TENON_NET_GRPC_SECURITY_H_

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>
#include <string_view>

#include "tenon/abi.h"

namespace tenon::grpc_net {

struct Security {
  bool tls = false;
  bool mutual = false;
  bool plaintext = false;
  std::string certificate;  // contents
  std::string key;
  std::string authority;
  std::string name;
  std::string token;
};

// What follows "grpc://": a host and port, or the path of a Unix socket.
struct Address {
  std::string text;
  std::string target;  // as gRPC writes it
  std::string host;    // empty: a Unix socket
  std::string port;
  // "127.0.1.1:2222": what the host's name stands for, where it is this host's own and means itself alone. Who relies
  // on that uses this, and asks for no name again.
  std::string here;
  bool is_unix() const { return host.empty(); }
};

// INVALID_ARGUMENT says what is wrong; of the files NOT_FOUND.
[[nodiscard]] tenon_status* ParseSecurity(std::string_view json, Security* out);
[[nodiscard]] tenon_status* ParseAddress(std::string_view text, Address* out);

// FAILED_PRECONDITION: plaintext off this host that was not asked for.
[[nodiscard]] tenon_status* CheckPlaintext(const Security& security, const Address& address);
// The same for one that listens: off this host it also asks who comes in, by a certificate or a token.
[[nodiscard]] tenon_status* CheckListener(const Security& security, const Address& address);

[[nodiscard]] tenon_status* ListenerCredentials(const Security& security,
                                                std::shared_ptr<grpc::ServerCredentials>* out);
std::shared_ptr<grpc::ChannelCredentials> ConnectorCredentials(const Security& security);

// Takes as long whatever the difference is.
bool SameToken(std::string_view given, std::string_view wanted);

}  // namespace tenon::grpc_net
#endif  // TENON_NET_GRPC_SECURITY_H_
