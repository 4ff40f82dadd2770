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
expect("${FOLDER}/paper_figures/white_paper_figure1" "9 [0-9.]+\n$")
expect("${FOLDER}/paper_figures/osdi_figure1" "step 299  loss 0\\.[0-2]")
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
  run("${CMAKE_COMMAND}" -E env "PKG_CONFIG_PATH=${PREFIX}/lib/pkgconfig" "${pkg_config}" --cflags --libs tenon-train tenon-model)
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
