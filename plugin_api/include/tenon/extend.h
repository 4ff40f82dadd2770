/* SPDX-License-Identifier: Apache-2.0
 * A session's graph, added within a time: what app.h has no room for. */
#ifndef TENON_EXTEND_H_
#define TENON_EXTEND_H_

#include "tenon/app.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As tenon_session_extend, until the options' timeout passes or their cancellation is cancelled: DEADLINE_EXCEEDED, CANCELLED, and nothing is added. Options may be NULL; what
 * they say of steps alone (out_trace, watch) is left alone. */
TENON_EXPORT tenon_status* tenon_session_extend_within(tenon_session* session, const tenon_run_options* options, tenon_span graph_def);

#ifdef __cplusplus
}
#endif
#endif /* TENON_EXTEND_H_ */
