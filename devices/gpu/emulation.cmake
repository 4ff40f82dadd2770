# SPDX-License-Identifier: Apache-2.0
# A vendor's libraries without its GPUs, for tests: a plugin of emulated GPUs that asks them, and emulated ones beside
# it.
set(TENON_GPU_FOLDER "${CMAKE_CURRENT_LIST_DIR}")

# tenon_gpu_emulated_plugin(vendor source...): tests/plugins/tenon_gpu_emulated_<vendor>.so, with what
# tenon_<vendor>_objects has of these sources.
function(tenon_gpu_emulated_plugin vendor)
  find_package(Boost 1.74 REQUIRED COMPONENTS context)
  list(JOIN ARGN "|" names)
  tenon_add_plugin(gpu_emulated_${vendor} SOURCES
      "$<FILTER:$<TARGET_OBJECTS:tenon_${vendor}_objects>,INCLUDE,/(${names})>" "$<TARGET_OBJECTS:tenon_gpu_emulation>"
      "$<TARGET_OBJECTS:tenon_gpu_objects>"
                   LIBRARIES tenon_gpu_emulated_observer ${CMAKE_DL_LIBS} Threads::Threads Boost::context OPTIONS
                   "-I${TENON_GPU_FOLDER}"
                   OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests/plugins" NO_INSTALL)
  tenon_gpu_headers(tenon_gpu_emulated_${vendor})
endfunction()

# tenon_gpu_emulated_library(vendor file source [folder]): tests/plugins/<folder>/<file>, which the vendor's plugin of
# emulated GPUs finds there; the folder is "libraries", or one of a library that differs. Its target is emulated_<file>,
# or emulated_<folder>_<file>.
function(tenon_gpu_emulated_library vendor file source)
  set(target emulated_${file})
  set(folder libraries)
  if(ARGC GREATER 3)
    set(folder ${ARGV3})
    set(target emulated_${folder}_${file})
  endif()
  add_library(${target} SHARED ${source})
  target_link_libraries(${target} PRIVATE Tenon::plugin tenon_warnings)
  target_include_directories(${target} PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}" "${TENON_GPU_FOLDER}")
  target_compile_options(${target} PRIVATE -fvisibility=default)
  set_target_properties(${target} PROPERTIES PREFIX "" SUFFIX "" OUTPUT_NAME "${file}"
                                             LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests/plugins/${folder}")
  add_dependencies(tenon_gpu_emulated_${vendor} ${target})
endfunction()

# tenon_gpu_libraries_test(vendor SOURCES ...): the products, einsums and convolutions of devices/gpu on that plugin,
# and the vendor's own tests.
function(tenon_gpu_libraries_test vendor)
  cmake_parse_arguments(PARSE_ARGV 1 given "" "" "SOURCES")
  set(tests "${TENON_GPU_FOLDER}/kernels/testing")
  tenon_add_test(${vendor}_libraries_test SOURCES ${given_SOURCES} "${TENON_GPU_FOLDER}/testing/libraries_test.cc"
      "${tests}/product_test.cc"
                 "${tests}/einsum_test.cc" "${tests}/conv_test.cc"
                 "$<FILTER:$<TARGET_OBJECTS:tenon_gpu_emulation>,INCLUDE,/(code/product|emulation/grid)>"
                 LIBS Tenon::testing ${CMAKE_DL_LIBS} Threads::Threads Boost::context LABELS gpu)
  target_include_directories(${vendor}_libraries_test PRIVATE "${PROJECT_SOURCE_DIR}" "${TENON_GPU_FOLDER}")
  target_compile_definitions(${vendor}_libraries_test PRIVATE
      TENON_TESTED_PLUGIN="$<TARGET_FILE:tenon_gpu_emulated_${vendor}>")
  add_dependencies(${vendor}_libraries_test tenon_gpu_emulated_${vendor} tenon_cpu)
endfunction()
