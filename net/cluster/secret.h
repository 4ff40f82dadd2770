// SPDX-License-Identifier: Apache-2.0
// Who a session's owner is: a name that others may see, and a secret that proves it.
//
// An owner is given as "NAME", or as "NAME\nSECRET" by an application that keeps a secret of its own, so that another
// process of it may end its earlier sessions. Where it gives none, the process makes one, the same for all its sessions
// of that name.
#ifndef TENON_NET_CLUSTER_SECRET_H_
#define TENON_NET_CLUSTER_SECRET_H_

#include <string>
#include <string_view>

namespace tenon::cluster {

struct Owner {
  std::string name, secret;

  static Owner Of(std::string_view given);
};

// Takes as long whatever the difference is.
bool SameSecret(std::string_view a, std::string_view b);

}  // namespace tenon::cluster

#endif  // TENON_NET_CLUSTER_SECRET_H_
