# SPDX-License-Identifier: Apache-2.0
# cmake -DSOURCE= -DPREFIX= -DCUBE= -DFOLDER= -DGENERATOR= -DCC= -DCXX= -P build_examples.cmake
# PREFIX is an installed Tenon, CUBE a plugin that was built over it. Covers A16, B12, O2.

# Runs a command; `output` is what it printed.
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    list(JOIN ARGV " " command)
    message(FATAL_ERROR "failed (${result}): ${command}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

function(build project binary)
  file(REMOVE_RECURSE "${binary}")
  run("${CMAKE_COMMAND}" -S "${project}" -B "${binary}" -G "${GENERATOR}" "-DCMAKE_PREFIX_PATH=${PREFIX}"
      "-DCMAKE_C_COMPILER=${CC}" "-DCMAKE_CXX_COMPILER=${CXX}" "-DCMAKE_C_FLAGS=-Wall -Wextra"
      "-DCMAKE_CXX_FLAGS=-Wall -Wextra" ${ARGN})
  run("${CMAKE_COMMAND}" --build "${binary}")
endfunction()

# Builds an example, runs its programs, and looks at what they print.
function(expect program regex)
  run("${program}")
  if(NOT output MATCHES "${regex}")
    message(FATAL_ERROR "${program} printed:\n${output}\nwhich does not match ${regex}")
  endif()
endfunction()

# A number with up to three digits behind the point, in thousandths.
function(thousandths number out)
  if(NOT number MATCHES "^([0-9]+)(\\.([0-9]*))?$")
    message(FATAL_ERROR "'${number}' is no such number")
  endif()
  string(SUBSTRING "${CMAKE_MATCH_3}0000" 0 4 fraction)
  # Ten thousandths, rounded; the 1 keeps zeros in front from being another base's.
  math(EXPR value "(${CMAKE_MATCH_1} * 10000 + 1${fraction} - 10000 + 5) / 10")
  set(${out} ${value} PARENT_SCOPE)
endfunction()

# Runs a program, whose lines are to end in these numbers, up to so many thousandths; before them they are as given.
function(expect_numbers program tolerance)
  run("${program}")
  string(REGEX MATCHALL "[^\n]+" lines "${output}")
  list(LENGTH lines count)
  list(LENGTH ARGN expected_count)
  if(NOT count EQUAL expected_count)
    message(FATAL_ERROR "${program} printed ${count} lines instead of ${expected_count}:\n${output}")
  endif()
  foreach(line expected IN ZIP_LISTS lines ARGN)
    string(REGEX MATCH "^(.* )([^ ]+)$" unused "${line}")
    set(words "${CMAKE_MATCH_1}")
    thousandths("${CMAKE_MATCH_2}" number)
    string(REGEX MATCH "^(.* )([^ ]+)$" unused "${expected}")
    thousandths("${CMAKE_MATCH_2}" wanted)
    math(EXPR difference "${number} - ${wanted}")
    if(NOT words STREQUAL CMAKE_MATCH_1 OR difference GREATER tolerance OR difference LESS "-${tolerance}")
      message(FATAL_ERROR "${program} printed '${line}' where '${expected}' is right:\n${output}")
    endif()
  endforeach()
endfunction()

build("${SOURCE}/sdk/examples/c_train" "${FOLDER}/c_train")
expect("${FOLDER}/c_train/c_train" "0\\^1 = (0\\.9|1\\.0)")
build("${SOURCE}/sdk/examples/c_function" "${FOLDER}/c_function")
expect("${FOLDER}/c_function/c_function" "= 0\\.334613 .by hand 0\\.334613")
build("${SOURCE}/sdk/examples/c_model" "${FOLDER}/c_model")
file(REMOVE_RECURSE "${FOLDER}/line")
run("${FOLDER}/c_model/c_model" "${FOLDER}/line")
if(NOT output MATCHES "y.10. = (29|28\\.9)")
  message(FATAL_ERROR "c_model printed: ${output}")
endif()
build("${SOURCE}/sdk/examples/cpp_hello" "${FOLDER}/cpp_hello")
expect("${FOLDER}/cpp_hello/cpp_hello" "^4 6 0 0")
build("${SOURCE}/sdk/examples/paper_figures" "${FOLDER}/paper_figures")
# What NumPy gives in doubles for the same weights, data and steps; the programs calculate in floats.
expect_numbers("${FOLDER}/paper_figures/white_paper_figure1" 2 "0 357.5753" "1 320.7896" "2 302.8983" "3 341.6722"
    "4 333.0664" "5 307.7981" "6 341.3680"
               "7 345.2304" "8 306.9875" "9 262.7225")
expect_numbers("${FOLDER}/paper_figures/osdi_figure1" 1 "step   0  loss 2.3250" "step  50  loss 2.0584"
    "step 100  loss 1.5952" "step 150  loss 0.8626"
               "step 200  loss 0.3687" "step 250  loss 0.1921" "step 299  loss 0.1141")
build("${SOURCE}/sdk/examples/deep_lstm" "${FOLDER}/deep_lstm")
expect("${FOLDER}/deep_lstm/deep_lstm;--steps;1" "steps at once  ")
build("${SOURCE}/sdk/examples/language_model" "${FOLDER}/language_model")
expect("${FOLDER}/language_model/language_model;--steps;20" "perplexity [0-9]")

# A stranger's op gets the same typed wrapper as ours.
run("${PREFIX}/bin/tenon" ops --plugin "${CUBE}" --from example.cube --generate-cpp "${FOLDER}/cube_ops.h")
build("${SOURCE}/tests/consume_examples/cube_program" "${FOLDER}/cube_program" "-DCUBE_HEADER_FOLDER=${FOLDER}")
run("${FOLDER}/cube_program/cube_program" "${CUBE}")
if(NOT output STREQUAL "8 -27\n12 27\n1,234,567\nno archive\n")
  message(FATAL_ERROR "cube_program printed: ${output}")
endif()

# Without CMake: pkg-config says what a compiler needs, C++20 among it.
find_program(pkg_config pkg-config)
if(pkg_config)
  run("${CMAKE_COMMAND}" -E env "PKG_CONFIG_PATH=${PREFIX}/lib/pkgconfig" "${pkg_config}" --cflags --libs tenon-train
      tenon-model)
  separate_arguments(flags UNIX_COMMAND "${output}")
  file(MAKE_DIRECTORY "${FOLDER}/by_pkg_config")
  run("${CXX}" "${SOURCE}/tests/consume_examples/cube_program/main.cc" "-I${FOLDER}" ${flags} "-Wl,-rpath,${PREFIX}/lib"
      -o "${FOLDER}/by_pkg_config/cube_program")
  run("${FOLDER}/by_pkg_config/cube_program" "${CUBE}")
endif()

# The plugin that README.md shows: what stands there is what is built.
file(READ "${SOURCE}/README.md" readme)
string(FIND "${readme}" "```c\n" begin)
string(SUBSTRING "${readme}" ${begin} -1 readme)
string(SUBSTRING "${readme}" 5 -1 readme)
string(FIND "${readme}" "```" end)
string(SUBSTRING "${readme}" 0 ${end} plugin)
file(WRITE "${FOLDER}/twice/twice.c" "${plugin}")
file(WRITE "${FOLDER}/twice/CMakeLists.txt" "cmake_minimum_required(VERSION 3.25)
project(twice C)
find_package(Tenon REQUIRED)
tenon_add_plugin(twice SOURCES twice.c)
")
build("${FOLDER}/twice" "${FOLDER}/twice_build")
run("${PREFIX}/bin/tenon" ops Twice --plugin "${FOLDER}/twice_build/lib/tenon/plugins/tenon_twice.so")
if(NOT output MATCHES "Twice  \\(from example.twice\\).*CPU")
  message(FATAL_ERROR "README.md's plugin: ${output}")
endif()

# The installed program finds its data and its plugins, wherever the prefix stands.
file(REMOVE_RECURSE "${FOLDER}/digits")
run("${PREFIX}/bin/tenon" train digits --folder "${FOLDER}/digits" --steps 5 --json)
