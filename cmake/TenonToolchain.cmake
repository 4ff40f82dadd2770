# SPDX-License-Identifier: Apache-2.0
# Language levels, flags that hold for every target, and the interface target `tenon_warnings`.

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
find_package(Threads REQUIRED)

# The path of the source tree stays out of the binaries, so that builds of two trees can be compared.
add_compile_options("-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=")

# Tenon's ABI and file formats are little-endian; a big-endian build would compute wrong results.
if(CMAKE_CXX_BYTE_ORDER STREQUAL "BIG_ENDIAN")
  message(FATAL_ERROR "Tenon runs on little-endian machines only; this compiler targets a big-endian one.")
endif()

# Paths below the tree are relative in the cache: another clone, or another work tree, finds what this one compiled.
find_program(TENON_CCACHE ccache)
mark_as_advanced(TENON_CCACHE)
if(TENON_CCACHE)
  foreach(language C CXX)
    if(NOT DEFINED CMAKE_${language}_COMPILER_LAUNCHER)
      set(CMAKE_${language}_COMPILER_LAUNCHER env "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=1
          "${TENON_CCACHE}")
    endif()
  endforeach()
endif()

if(TENON_SANITIZE)
  if(NOT TENON_SANITIZE MATCHES "^(address|undefined|address,undefined|thread)$")
    message(FATAL_ERROR "TENON_SANITIZE is '${TENON_SANITIZE}'; it may be empty, address, undefined, both (address,undefined) or thread.")
  endif()
  add_compile_options(-fsanitize=${TENON_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${TENON_SANITIZE})
  if(TENON_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=all)
  endif()
endif()

# A source is no header because a batch includes it.
if(CMAKE_UNITY_BUILD)
  add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
endif()

add_library(tenon_warnings INTERFACE)
target_compile_options(tenon_warnings INTERFACE -Wall -Wextra -Wno-restrict $<$<BOOL:${TENON_WERROR}>:-Werror>)
# g++ 12 takes the empty half of an optional for a value where a sanitizer's checks stand between.
if(TENON_SANITIZE)
  target_compile_options(tenon_warnings INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-maybe-uninitialized>)
endif()
