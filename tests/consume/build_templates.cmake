# SPDX-License-Identifier: Apache-2.0
# cmake -DBUILD= -DSOURCE= -DFOLDER= -DGENERATOR= -DCC= -DCXX= -DREADELF= -DPYTHON= -DSANITIZE= -P build_templates.cmake
# Installs the build into FOLDER, moves the prefix, and builds each template against it as its own project; one of them
# against the build folder, too, which must serve as a prefix.

function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    list(JOIN ARGV " " command)
    message(FATAL_ERROR "failed (${result}): ${command}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

# The library must stand where it is looked for, hold its manifest, and export its entry point alone.
function(check_library library)
  if(NOT EXISTS "${library}")
    message(FATAL_ERROR "${library} was not made")
  endif()
  run("${READELF}" -W --dyn-syms "${library}")
  string(REGEX MATCHALL "(GLOBAL|WEAK|UNIQUE) +DEFAULT +[0-9]+ [^\n]*" exported "${output}")
  if(NOT exported MATCHES "^GLOBAL +DEFAULT +[0-9]+ tenon_plugin_query$")
    message(FATAL_ERROR "${library} exports: ${exported}")
  endif()
  run("${READELF}" -W -S "${library}")
  if(NOT output MATCHES "\\.note\\.tenon")
    message(FATAL_ERROR "${library} has no manifest")
  endif()
  run("${READELF}" -W -d "${library}")
  if(NOT output MATCHES "NODELETE")
    message(FATAL_ERROR "${library} can be unmapped")
  endif()
endfunction()

# The templates are the installed ones.
# Further arguments are flags for the compilers.
function(build_template template prefix binary)
  file(REMOVE_RECURSE "${binary}")
  run("${CMAKE_COMMAND}" -S "${FOLDER}/prefix/share/tenon/templates/${template}" -B "${binary}" -G "${GENERATOR}"
      "-DCMAKE_PREFIX_PATH=${prefix}" "-DCMAKE_C_COMPILER=${CC}" "-DCMAKE_C_FLAGS=-Wall -Wextra -Werror ${ARGN}"
      "-DCMAKE_CXX_COMPILER=${CXX}" "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror ${ARGN}"
      -DCUBE_TESTS=ON --no-warn-unused-cli -DCMAKE_BUILD_TYPE=Release "-DCMAKE_INSTALL_PREFIX=${FOLDER}/installed")
  run("${CMAKE_COMMAND}" --build "${binary}")
endfunction()

file(REMOVE_RECURSE "${FOLDER}/first" "${FOLDER}/prefix" "${FOLDER}/installed")
run("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${FOLDER}/first")
file(RENAME "${FOLDER}/first" "${FOLDER}/prefix")

# What is installed takes as little from outside as in the build folder.
if(NOT SANITIZE)
  run("${PYTHON}" -B "${SOURCE}/tests/layers/exports.py" "${FOLDER}/prefix")
endif()

build_template(op_plugin "${FOLDER}/prefix" "${FOLDER}/op_plugin")
check_library("${FOLDER}/op_plugin/lib/tenon/plugins/tenon_cube.so")
# Its test is built from the installed headers alone.
run("${CMAKE_CTEST_COMMAND}" --test-dir "${FOLDER}/op_plugin" --output-on-failure --no-tests=error)
build_template(python_plugin "${FOLDER}/prefix" "${FOLDER}/python_plugin")
check_library("${FOLDER}/python_plugin/lib/tenon/plugins/tenon_halves.so")
build_template(null_device "${FOLDER}/prefix" "${FOLDER}/null_device")
check_library("${FOLDER}/null_device/lib/tenon/plugins/tenon_null_device.so")
build_template(async_device "${FOLDER}/prefix" "${FOLDER}/async_device")
check_library("${FOLDER}/async_device/lib/tenon/plugins/tenon_async_device.so")
build_template(kernel_plugin "${FOLDER}/prefix" "${FOLDER}/kernel_plugin")
check_library("${FOLDER}/kernel_plugin/lib/tenon/plugins/tenon_neg_on_async.so")
build_template(op_plugin "${BUILD}" "${FOLDER}/op_plugin_of_build_folder")
check_library("${FOLDER}/op_plugin_of_build_folder/lib/tenon/plugins/tenon_cube.so")

file(REMOVE_RECURSE "${FOLDER}/extras")
run("${CMAKE_COMMAND}" -S "${SOURCE}/tests/consume/extras" -B "${FOLDER}/extras" -G "${GENERATOR}"
    "-DCMAKE_PREFIX_PATH=${FOLDER}/prefix" "-DCMAKE_CXX_COMPILER=${CXX}" "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror")
run("${CMAKE_COMMAND}" --build "${FOLDER}/extras")

run("${CMAKE_COMMAND}" --install "${FOLDER}/op_plugin")
check_library("${FOLDER}/installed/lib/tenon/plugins/tenon_cube.so")

# The Python package, where this build has it, finds what belongs to it in the prefix that was moved.
file(GLOB package "${FOLDER}/prefix/lib/python*/site-packages")
if(package)
  set(in_prefix "${CMAKE_COMMAND}" -E env "PYTHONPATH=${package}" "${BUILD}/python_environment/bin/python" -B)
  run(${in_prefix} -c "import tenon\nprint(tenon.__file__, tenon.plugin_dir(), *tenon.Session(tenon.default_graph()).run(tenon.constant([1.0]) + 1.0))")
  if(NOT output MATCHES "^${package}/tenon/__init__.py ${FOLDER}/prefix/lib/tenon/plugins 2.0\n$")
    message(FATAL_ERROR "the installed Python package says: ${output}")
  endif()
  run(${in_prefix} -m tenon --cmake-dir)
  if(NOT output STREQUAL "${FOLDER}/prefix/lib/cmake/Tenon\n")
    message(FATAL_ERROR "python -m tenon --cmake-dir says: ${output}")
  endif()
endif()

# With the headers of a later minor version, whose structs are longer: the tests run these on the host of today, and
# here the plugin of today runs on a host of then.
file(REMOVE_RECURSE "${FOLDER}/prefix_longer" "${FOLDER}/longer")
file(COPY "${FOLDER}/prefix/" DESTINATION "${FOLDER}/prefix_longer")
run("${PYTHON}" "${SOURCE}/tests/consume/longer_headers.py" "${FOLDER}/prefix_longer/include")
foreach(template op_plugin null_device async_device kernel_plugin)
  # What a source of today does not name of a longer struct is 0, as it must be.
  build_template("${template}" "${FOLDER}/prefix_longer" "${FOLDER}/longer/${template}" -Wno-missing-field-initializers)
endforeach()
check_library("${FOLDER}/longer/op_plugin/lib/tenon/plugins/tenon_cube.so")
run("${FOLDER}/longer/op_plugin/cube_test" "${FOLDER}/longer/op_plugin/lib/tenon/plugins/tenon_cube.so")
run("${FOLDER}/longer/op_plugin/cube_test" "${FOLDER}/op_plugin/lib/tenon/plugins/tenon_cube.so")
run("${FOLDER}/op_plugin/cube_test" "${FOLDER}/longer/op_plugin/lib/tenon/plugins/tenon_cube.so")

# With a draft that has changed: what does not use it agrees with the host as before.
file(REMOVE_RECURSE "${FOLDER}/changed_api" "${FOLDER}/prefix_changed" "${FOLDER}/changed_draft")
file(COPY "${SOURCE}/plugin_api/" DESTINATION "${FOLDER}/changed_api")
set(draft "${FOLDER}/changed_api/include/tenon/ext/draft/compile.h")
file(READ "${draft}" text)
string(REPLACE "#define TENON_REFUSE_OTHER 5u" "#define TENON_REFUSE_OTHER 50u" changed "${text}")
if(changed STREQUAL text)
  message(FATAL_ERROR "${draft} is not as this test knows it")
endif()
file(WRITE "${draft}" "${changed}")
run("${PYTHON}" -B "${FOLDER}/changed_api/check/abi_check.py" --update --why "a test")
file(COPY "${FOLDER}/prefix/" DESTINATION "${FOLDER}/prefix_changed")
file(COPY "${FOLDER}/changed_api/include/tenon/" DESTINATION "${FOLDER}/prefix_changed/include/tenon")
file(READ "${FOLDER}/prefix/include/tenon/layout_hash.h" hashes)
file(READ "${FOLDER}/prefix_changed/include/tenon/layout_hash.h" changed)
if(changed STREQUAL hashes)
  message(FATAL_ERROR "a changed draft has left every layout hash as it was")
endif()
foreach(template op_plugin null_device)
  build_template("${template}" "${FOLDER}/prefix_changed" "${FOLDER}/changed_draft/${template}")
endforeach()

# A C compiler and the prefix are enough, for each template and example that is in C.
set(templates "${FOLDER}/prefix/share/tenon/templates")
foreach(source op_plugin/cube.c null_device/null_device.c kernel_plugin/neg_on_async.c)
  run("${CC}" -std=c11 -Wall -Wextra -Werror -shared -fPIC "-I${FOLDER}/prefix/include" "-I${templates}/async_device"
      "${templates}/${source}"
      -o "${FOLDER}/by_hand.so")
endforeach()
run("${CC}" -std=c11 "-I${FOLDER}/prefix/include" "${FOLDER}/prefix/share/tenon/examples/c_train/main.c"
    "-L${FOLDER}/prefix/lib" -ltenon -lm
    "-Wl,-rpath,${FOLDER}/prefix/lib" -o "${FOLDER}/c_train")
run("${FOLDER}/c_train")
run("${READELF}" -W -d "${FOLDER}/c_train")
if(NOT output MATCHES "libtenon\\.so\\.0")
  message(FATAL_ERROR "a program is not linked with libtenon.so.0: ${output}")
endif()
foreach(page ops kernels strings devices transports filesystems growth)
  if(NOT EXISTS "${FOLDER}/prefix/share/doc/tenon/plugin_api/${page}.md")
    message(FATAL_ERROR "the page ${page}.md is not installed")
  endif()
endforeach()

find_program(pkg_config pkg-config)
if(pkg_config)
  run("${CMAKE_COMMAND}" -E env "PKG_CONFIG_PATH=${FOLDER}/prefix/lib/pkgconfig" "${pkg_config}" --cflags tenon)
  # The path is given relative to where tenon.pc stands.
  string(REGEX REPLACE "^-I([^ \n]+).*" "\\1" include "${output}")
  if(NOT EXISTS "${include}/tenon/app.h")
    message(FATAL_ERROR "pkg-config says ${output}, where tenon/app.h is not")
  endif()
endif()
