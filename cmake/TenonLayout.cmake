# SPDX-License-Identifier: Apache-2.0
# The build folder looks like an install prefix: bin/, lib/libtenon.so, lib/tenon/plugins/*.so,
# include/tenon/*.h. So the tree, the tests and a user run the same thing.

set(CMAKE_INSTALL_LIBDIR lib CACHE PATH "Libraries, relative to the prefix")
include(GNUInstallDirs)

set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/archive")  # internal, never installed
set(TENON_PLUGIN_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib/tenon/plugins")
set(TENON_PLUGIN_INSTALL_DIRECTORY "${CMAKE_INSTALL_LIBDIR}/tenon/plugins")
set(TENON_INCLUDE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/include")

# A folder that is moved as a whole still runs.
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
set(CMAKE_INSTALL_RPATH "$ORIGIN/../lib")
# tenon_rpath_as_installed(target...): what is installed lies in the build folder as in a prefix, and looks for
# libraries as there. CMake would fill a shorter path with empty ones, which are the current folder.
function(tenon_rpath_as_installed)
  set_target_properties(${ARGN} PROPERTIES BUILD_WITH_INSTALL_RPATH ON)
endfunction()

# Links every header under FOLDER into the build folder's include/, and installs it.
# FOLDER holds tenon/..., as plugin_api/include does; several rooms may publish side by side.
function(tenon_publish_headers folder)
  cmake_path(ABSOLUTE_PATH folder BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" NORMALIZE)
  file(GLOB_RECURSE headers RELATIVE "${folder}" CONFIGURE_DEPENDS "${folder}/*.h")
  foreach(header IN LISTS headers)
    cmake_path(GET header PARENT_PATH parent)
    file(MAKE_DIRECTORY "${TENON_INCLUDE_OUTPUT_DIRECTORY}/${parent}")
    file(CREATE_LINK "${folder}/${header}" "${TENON_INCLUDE_OUTPUT_DIRECTORY}/${header}" SYMBOLIC)
  endforeach()
  install(DIRECTORY "${folder}/" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.h")
endfunction()

# A header that was renamed or removed must not live on in the build folder.
file(GLOB_RECURSE links LIST_DIRECTORIES false "${TENON_INCLUDE_OUTPUT_DIRECTORY}/*.h")
foreach(link IN LISTS links)
  if(IS_SYMLINK "${link}")
    file(REMOVE "${link}")
  endif()
endforeach()
unset(links)
