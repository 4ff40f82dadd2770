// SPDX-License-Identifier: Apache-2.0
// Lists that nobody writes: what shall be in one says so where it is defined, in whatever source file that is.
//
//   TENON_ENTRY(tenon_ops, tenon_op_definition, kSquare);  // a pointer to kSquare is in the list tenon_ops
//   constinit const tenon_op_definition kSquare = ...;
//   TENON_LIST(tenon_ops, tenon_op_definition)  // [TENON_LIST_BEGIN(tenon_ops), TENON_LIST_END(tenon_ops))
//
// A list is a section of the library by its name, which must be one of C; the linker puts the pointers of all object
// files into it, in no order to rely on, and says where it begins and ends. A library sees its own entries alone. Two
// packages that are linked into one program (a test) need lists of two names. A list without an entry does not link.
// Object files of an archive (.a) that nothing else asks for are left out, entries and all: packages are linked from
// object files.
//
// TENON_OP (op.h) and TENON_KERNEL (kernel.h) are what packages write; package.h reads the lists.
#ifndef TENON_SDK_LIST_H_
#define TENON_SDK_LIST_H_

// `used` is for the compiler, `retain` for linkers that are told to drop what nobody refers to. Sanitizers put nothing
// between the pointers: they leave variables alone whose section has a name of C.
#if defined(__has_attribute)
#if __has_attribute(retain)
#define TENON_LIST_KEPT_ used, retain
#endif
#endif
#if !defined(TENON_LIST_KEPT_)
#define TENON_LIST_KEPT_ used
#endif

// Declares the constant `name` of `type`, and puts its address into the list. In namespace scope.
#define TENON_ENTRY(list, type, name) \
  extern const type name;             \
  __attribute__((TENON_LIST_KEPT_, section(#list))) static const type* const name##_in_##list = &name

#define TENON_LIST(list, type)                                                          \
  extern "C" __attribute__((visibility("hidden"))) const type* const __start_##list[]; \
  extern "C" __attribute__((visibility("hidden"))) const type* const __stop_##list[];
#define TENON_LIST_BEGIN(list) (__start_##list)
#define TENON_LIST_END(list) (__stop_##list)

#endif  // TENON_SDK_LIST_H_
