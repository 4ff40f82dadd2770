# SPDX-License-Identifier: Apache-2.0
# tenon_add_python_module(target VERSION v OUTPUT_DIRECTORY folder [LIBRARIES target...] [STABLE_ABI]): the module
# `_core` for the Python that find_package(Python) found, and its stub. The tree calls it with its own targets, and
# sdk/app/python/wheel with those of an installed prefix: find_package(Tenon).
#
# STABLE_ABI: one file for CPython 3.12 and all later ones (abi3); an older Python gets its own all the same.
option(TENON_PYTHON_FREE_THREADED
    "Declare the Python module to need no GIL, in a free-threaded Python; nobody has tested that yet" OFF)

execute_process(COMMAND "${Python_EXECUTABLE}" -m nanobind --cmake_dir OUTPUT_VARIABLE nanobind_ROOT
    OUTPUT_STRIP_TRAILING_WHITESPACE)
find_package(nanobind CONFIG REQUIRED)
# Headers of apache-tvm-ffi's C ABI, for functions of it as kernels; its library is there when a program has one.
execute_process(COMMAND "${Python_EXECUTABLE}" -c
    "from tvm_ffi.libinfo import *; print(find_include_path(), find_dlpack_include_path(), sep=';')"
                OUTPUT_VARIABLE TENON_TVM_FFI_HEADERS OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
set(TENON_PYTHON_SOURCE_DIR "${CMAKE_CURRENT_LIST_DIR}")

function(tenon_add_python_module target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "STABLE_ABI" "VERSION;OUTPUT_DIRECTORY" "LIBRARIES")
  set(options NB_STATIC NOMINSIZE)
  if(arg_STABLE_ABI)
    list(APPEND options STABLE_ABI)
  endif()
  if(TENON_PYTHON_FREE_THREADED)
    list(APPEND options FREE_THREADED)
  endif()
  file(GLOB sources CONFIGURE_DEPENDS "${TENON_PYTHON_SOURCE_DIR}/src/*.cc")
  nanobind_add_module(${target} ${options} ${sources})
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-Os>)
  set_property(SOURCE "${TENON_PYTHON_SOURCE_DIR}/src/module.cc" APPEND PROPERTY COMPILE_DEFINITIONS
      TENON_MODULE_VERSION="${arg_VERSION}")
  target_link_libraries(${target} PRIVATE ${arg_LIBRARIES})
  target_include_directories(${target} SYSTEM PRIVATE ${TENON_TVM_FFI_HEADERS})
  # Before Python's own folder, in which Debian has the headers of an older NumPy.
  target_include_directories(${target} BEFORE PRIVATE "${Python_NumPy_INCLUDE_DIRS}")
  set_target_properties(${target} PROPERTIES OUTPUT_NAME _core LIBRARY_OUTPUT_DIRECTORY "${arg_OUTPUT_DIRECTORY}")
  target_link_options(${target} PRIVATE "LINKER:--exclude-libs,ALL" "LINKER:--gc-sections")
  if(TENON_SANITIZE)
    return()  # what makes the stub would have to be a Python with the sanitizer
  endif()
  # Of the module alone: the package puts operators into it, which the patterns say in words.
  nanobind_add_stub(${target}_stub MODULE _core OUTPUT "${arg_OUTPUT_DIRECTORY}/_core.pyi" PYTHON_PATH
      "${arg_OUTPUT_DIRECTORY}" DEPENDS ${target}
                    PATTERN_FILE "${TENON_PYTHON_SOURCE_DIR}/stub_patterns.txt")
endfunction()
