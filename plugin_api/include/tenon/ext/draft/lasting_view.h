/* SPDX-License-Identifier: Apache-2.0 */
/* Draft flag of views: what a kernel makes of an input may serve in later steps. Not frozen until a real user has
 * passed.
 *
 * A kernel gets the value of a variable that is read by its resource (ReadVariableOp) with this flag: as long as
 * anybody holds a reference to the view's buffer (buffer_retain), nobody changes what it shows; who writes to the
 * variable meanwhile takes other memory. So a kernel may retain the buffer, keep what it has made of the value (a
 * filter in another layout), and use that whenever an input with this flag has the same buffer and address again.
 * Whoever holds the buffer makes the variable's next update copy it: a kernel does so only where the value was found
 * unchanged before, lets go when another comes, and then waits longer and longer before it holds one again. Work that
 * is captured (ext/draft/capture.h) is launched again with the same addresses: what was made of a value serves it only
 * while the value is held, so as long as the graph. A value that the captured work itself updates in place does not
 * have the flag there. Constants are known when the kernel is prepared, and do not have the flag; feeds, reference
 * variables and what other nodes compute do not have it either. */
#ifndef TENON_EXT_DRAFT_LASTING_VIEW_H_
#define TENON_EXT_DRAFT_LASTING_VIEW_H_

#define TENON_VIEW_LASTING 16u /* of tenon_tensor_view.flags */

#endif /* TENON_EXT_DRAFT_LASTING_VIEW_H_ */
