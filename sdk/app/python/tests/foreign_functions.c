/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of apache-tvm-ffi's C ABI, as its compilers make them: kernels for test_defined_op.py. */
#include <stdio.h>
#include <string.h>
#include <tvm/ffi/c_api.h>

/* z = x + y * n * f, or minus that product; word must be "ok". Of float32 in rows without gaps. */
TVM_FFI_DLL_EXPORT int __tvm_ffi_add_scaled(void* self, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
  (void)self;
  if (count != 7 || args[0].type_index != kTVMFFIDLTensorPtr || args[3].type_index != kTVMFFIInt ||
      args[4].type_index != kTVMFFIFloat || args[5].type_index != kTVMFFIBool || args[6].type_index != kTVMFFIRawStr) {
    TVMFFIErrorSetRaisedFromCStr("TypeError", "other arguments are wanted");
    return -1;
  }
  if (strcmp(args[6].v_c_str, "ok") != 0) {
    char text[64];
    snprintf(text, sizeof(text), "word is '%s'", args[6].v_c_str);
    TVMFFIErrorSetRaisedFromCStr("ValueError", text);
    return -1;
  }
  const DLTensor* x = (const DLTensor*)args[0].v_ptr;
  const DLTensor* y = (const DLTensor*)args[1].v_ptr;
  const DLTensor* z = (const DLTensor*)args[2].v_ptr;
  const float times = (float)args[3].v_int64 * (float)args[4].v_float64 * (args[5].v_int64 != 0 ? -1.0f : 1.0f);
  int64_t elements = 1;
  for (int32_t i = 0; i < x->ndim; ++i) elements *= x->shape[i];
  if (x->ndim > 0 && x->strides[x->ndim - 1] != 1) return -1;
  for (int64_t i = 0; i < elements; ++i)
    ((float*)((char*)z->data + z->byte_offset))[i] = ((const float*)((char*)x->data + x->byte_offset))[i] +
                                                     times * ((const float*)((char*)y->data + y->byte_offset))[i];
  result->type_index = kTVMFFINone;
  return 0;
}

TVM_FFI_DLL_EXPORT int __tvm_ffi_give_three(void* self, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
  (void)self, (void)args, (void)count;
  result->type_index = kTVMFFIInt;
  result->v_int64 = 3;
  return 0;
}
