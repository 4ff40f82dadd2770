/* SPDX-License-Identifier: Apache-2.0 */
/* A library of which two plugins bring different copies: same names, other answers, and state of its own. */
int twin_calls = 0;
int twin_answer(void) {
  ++twin_calls;
  return TWIN_ANSWER;
}
