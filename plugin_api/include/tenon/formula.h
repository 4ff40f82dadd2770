/* SPDX-License-Identifier: Apache-2.0
 *
 * Formulas: what an op computes of one element, in functions that are known. An op says it in its definition
 * ("computes" in tenon/op.h), so that a compiler which never heard of the op makes the code that it makes of ours:
 * computes(mul(x, sigmoid(x))).
 *
 *   formula  = function(operand, ...)
 *   operand  = formula | an input's name | an attribute's (float, int or bool) | a number
 *
 * Each function takes values of one type, bfloat16 and float16 among them, and gives one of the same type; comparisons
 * and questions give a bool, logical ones take bools, select takes a bool first, cast gives the type of the node's
 * output. A number, and an attribute, has the type of what stands beside it. What of a formula lies between two
 * functions is of float32 at least: an op that rounds to 16 bits there does not compute it. Where the kernel rounds
 * otherwise, by as much as its type allows, the formula is still its own.
 *
 *   of one        neg abs sign square reciprocal sqrt rsqrt floor ceil exp expm1 log log1p erf erfc erfinv lgamma
 *                 digamma sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh
 *                 round (half to even)           logical_not   bitwise_not   is_nan   is_inf   is_finite
 *                 sigmoid 1 / (1 + e^-x)         softplus log(1 + e^x)       softsign x / (1 + |x|)
 *                 relu max(x, 0)                 relu6 min(max(x, 0), 6)
 *                 elu x, or e^x - 1 below 0      selu 1.0507... x, or 1.7580... (e^x - 1) below 0
 *   of two        add sub mul maximum minimum pow atan2(y, x) next_after
 *                 div (of whole numbers towards 0)   floor_div   truncate_div   floor_mod   truncate_mod
 *                 squared_difference (x - y)^2
 *                 div_no_nan x / y, mul_no_nan x y, of which both are 0 where y is 0
 *                 xdivy x / y, xlogy x log(y), xlog1py x log(1 + y), which are 0 where x is 0
 *                 equal not_equal less less_equal greater greater_equal logical_and logical_or
 *                 bitwise_and bitwise_or bitwise_xor left_shift right_shift
 *                 leaky_relu(x, alpha) x, or alpha x where x is not positive
 *                 cast(x, truncate), a bool: numbers lose the bits that do not fit unrounded
 *   of three      select(condition, x, y)   clip(x, low, high) max(low, min(x, high))
 *   of any        add_n ((x + y) + z) + ...; of lists, too
 *   gradients     of y, the function's value, and dy:
 *                 tanh_grad dy (1 - y^2)         sigmoid_grad dy y (1 - y)   sqrt_grad dy / (2 y)
 *                 rsqrt_grad -dy y^3 / 2         reciprocal_grad -dy y^2     which are 0 where dy is 0
 *                 of dy and y:
 *                 elu_grad dy, or dy (y + 1) where y is negative
 *                 selu_grad 1.0507... dy, or dy (y + 1.7580...) where y is negative
 *                 of dy and x, its argument:
 *                 relu_grad dy where x is positive, else 0 dy   relu6_grad dy where x is between 0 and 6, else 0 dy
 *                 softplus_grad dy / (1 + e^-x)                 softsign_grad dy / (1 + |x|)^2
 *                 leaky_relu_grad(dy, x, alpha) dy where x is positive, else alpha dy
 *
 * A node tells its op's formula (`formula` of tenon_node_properties) as words in the order in which a stack takes them,
 * with a blank between two, at most TENON_MAX_FORMULA_WORDS:
 *
 *   $x           input x of the op: its element, or, of a list, that of each of its tensors, in order
 *   @alpha       attribute alpha
 *   0.5          a number
 *   mul/2        the function, of the last two words' values, which it takes away, and leaves its own
 *
 * so that the formula above is "$x $x sigmoid/1 mul/2". The list of functions grows: who meets a word that it does not
 * know leaves the node as it is. Meaning at the edges (of NaN, infinities, -0): that of the op of TensorFlow of the
 * like name, by its documentation.
 */
#ifndef TENON_FORMULA_H_
#define TENON_FORMULA_H_

#define TENON_MAX_FORMULA_WORDS 32

#endif /* TENON_FORMULA_H_ */
