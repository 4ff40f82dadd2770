# SPDX-License-Identifier: Apache-2.0
# cmake -DBUILD= -DSOURCE= -DFOLDER= -DGENERATOR= -DCC= -DCXX= -DREADELF= -P build_templates.cmake
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

function(build_template template prefix binary)
  file(REMOVE_RECURSE "${binary}")
  run("${CMAKE_COMMAND}" -S "${SOURCE}/sdk/templates/${template}" -B "${binary}" -G "${GENERATOR}"
      "-DCMAKE_PREFIX_PATH=${prefix}" "-DCMAKE_C_COMPILER=${CC}" "-DCMAKE_C_FLAGS=-Wall -Wextra -Werror"
      "-DCMAKE_CXX_COMPILER=${CXX}" "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror"
      -DCUBE_TESTS=ON --no-warn-unused-cli -DCMAKE_BUILD_TYPE=Release "-DCMAKE_INSTALL_PREFIX=${FOLDER}/installed")
  run("${CMAKE_COMMAND}" --build "${binary}")
endfunction()

file(REMOVE_RECURSE "${FOLDER}/first" "${FOLDER}/prefix" "${FOLDER}/installed")
run("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${FOLDER}/first")
file(RENAME "${FOLDER}/first" "${FOLDER}/prefix")

build_template(op_plugin "${FOLDER}/prefix" "${FOLDER}/op_plugin")
check_library("${FOLDER}/op_plugin/lib/tenon/plugins/tenon_cube.so")
# Its test is built from the installed headers alone.
run("${CMAKE_CTEST_COMMAND}" --test-dir "${FOLDER}/op_plugin" --output-on-failure --no-tests=error)
build_template(null_device "${FOLDER}/prefix" "${FOLDER}/null_device")
check_library("${FOLDER}/null_device/lib/tenon/plugins/tenon_null_device.so")
build_template(async_device "${FOLDER}/prefix" "${FOLDER}/async_device")
check_library("${FOLDER}/async_device/lib/tenon/plugins/tenon_async_device.so")
build_template(op_plugin "${BUILD}" "${FOLDER}/op_plugin_of_build_folder")
check_library("${FOLDER}/op_plugin_of_build_folder/lib/tenon/plugins/tenon_cube.so")

run("${CMAKE_COMMAND}" --install "${FOLDER}/op_plugin")
check_library("${FOLDER}/installed/lib/tenon/plugins/tenon_cube.so")

find_program(pkg_config pkg-config)
if(pkg_config)
  run("${CMAKE_COMMAND}" -E env "PKG_CONFIG_PATH=${FOLDER}/prefix/lib/pkgconfig" "${pkg_config}" --cflags tenon)
  # The path is given relative to where tenon.pc stands.
  string(REGEX REPLACE "^-I([^ \n]+).*" "\\1" include "${output}")
  if(NOT EXISTS "${include}/tenon/app.h")
    message(FATAL_ERROR "pkg-config says ${output}, where tenon/app.h is not")
  endif()
endif()
