# SPDX-License-Identifier: Apache-2.0
# tenon_add_test(name SOURCES ... LIBS ... [LABELS ...] [SHARDS N] [WHOLE])
#
# SHARDS: as many ctest entries, name_1 and so on, which run side by side and have a share of the program's tests each.
# WHOLE: one more, name_whole, of which the others run a sample (tests/fakes/whole.h). It has the label "slow", which
# `make test` leaves out and `make test-slow` runs.
#
# The label "outside" is for tests of what reads what strangers give (files, graphs, messages): the target
# `outside_programs` builds them, and `make test-outside` runs them under sanitizers.
#
# One GoogleTest executable in <build>/tests/bin and one ctest entry of the same name. A test sees
# TENON_TEST_SOURCE_DIR and TENON_TEST_BUILD_DIR (the build folder laid out as a prefix).
#
# tenon_tests_on_gpus(test...): some of these tests' cases run on an emulated GPU (tests/device/gpu.h). With TENON_GPU
# they belong to the lane of GPUs too, by the label "gpu", and no case may be left out for want of one; without it,
# those cases are skipped and say so.
#
# Tests in Python run with ${TENON_PYTHON}: Debian's own where there is one, because python3-numpy
# of packages-all.txt belongs to it and not to another python3 that may come first in PATH.

if(TENON_TESTS)
  enable_testing()
  find_package(GTest REQUIRED)
  find_program(TENON_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH DOC "Python 3 for tests")
  find_program(TENON_PYTHON python3 REQUIRED)
endif()

function(tenon_add_test name)
  if(NOT TENON_TESTS)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "WHOLE" "SHARDS" "SOURCES;LIBS;LABELS")
  if(NOT arg_SOURCES OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tenon_add_test(${name}): SOURCES is missing, or unknown: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LIBS} tenon_warnings GTest::gtest GTest::gtest_main)
  # What is tested is built as it is shipped; the tests themselves take a fifth less time to compile so.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  target_compile_definitions(${name} PRIVATE
    TENON_TEST_SOURCE_DIR="${PROJECT_SOURCE_DIR}" TENON_TEST_BUILD_DIR="${PROJECT_BINARY_DIR}")
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests/bin")
  set(entries ${name})
  if(arg_SHARDS)
    set(entries)
    foreach(shard RANGE 1 ${arg_SHARDS})
      list(APPEND entries ${name}_${shard})
    endforeach()
  endif()
  foreach(entry IN LISTS entries)
    add_test(NAME ${entry} COMMAND ${name})
  endforeach()
  set(seconds 300)
  if(TENON_SANITIZE)
    set(seconds 1200)  # it takes several times as long, on a machine with other work more
  endif()
  set_tests_properties(${entries} PROPERTIES TIMEOUT ${seconds} LABELS "${arg_LABELS}")
  if(arg_SHARDS)
    foreach(shard RANGE 1 ${arg_SHARDS})
      math(EXPR index "${shard} - 1")
      set_tests_properties(${name}_${shard} PROPERTIES ENVIRONMENT
          "GTEST_TOTAL_SHARDS=${arg_SHARDS};GTEST_SHARD_INDEX=${index}")
    endforeach()
  endif()
  if(arg_WHOLE)
    add_test(NAME ${name}_whole COMMAND ${name})
    set_tests_properties(${name}_whole PROPERTIES TIMEOUT 3600 LABELS "${arg_LABELS};slow" ENVIRONMENT TENON_WHOLE=1)
  endif()
  if("outside" IN_LIST arg_LABELS)
    set_property(GLOBAL APPEND PROPERTY TENON_OUTSIDE_PROGRAMS ${name})
  endif()
endfunction()

function(tenon_tests_on_gpus)
  if(NOT TENON_TESTS OR NOT TENON_GPU)
    return()
  endif()
  foreach(test IN LISTS ARGN)
    set_property(TEST ${test} APPEND PROPERTY LABELS gpu)
    set_property(TEST ${test} APPEND PROPERTY FAIL_REGULAR_EXPRESSION "no emulated GPU is built here")
    if(TARGET ${test})
      add_dependencies(${test} tenon_gpu_emulated)
    endif()
  endforeach()
endfunction()

# Programs that measure, with the plugins that they alone load: in build/bin, and built by the target `benchmarks`, not
# with all.
function(tenon_benchmarks)
  set_target_properties(${ARGN} PROPERTIES EXCLUDE_FROM_ALL ON)
  set_property(GLOBAL APPEND PROPERTY TENON_BENCHMARKS ${ARGN})
endfunction()
