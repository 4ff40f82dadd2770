# SPDX-License-Identifier: Apache-2.0
# tenon_link_private(target LIBRARIES library... [WITH file...]): the target, a shared library of ours, calls its own
# copies of these libraries of the system (their names as for -l), whatever the process that it is loaded into has of
# them: lib/tenon/private/libtenon_*.so, with symbols that nobody else has. An archive is linked as it is: it is hidden
# in the target.
#
# tools/private_libraries says how. All copies of a build are made at once, since they need each other.

set(TENON_PRIVATE_FOLDER "${PROJECT_BINARY_DIR}/lib/tenon/private")
set(TENON_PRIVATE_NAMES "${PROJECT_BINARY_DIR}/tools/private_libraries/names.txt")

# WITH file...: objects and archives that are linked in besides the target's objects and calls them too
function(tenon_link_private target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LIBRARIES;WITH")
  foreach(library IN LISTS arg_LIBRARIES)
    find_library(TENON_LIBRARY_${library} "${library}" REQUIRED)
    mark_as_advanced(TENON_LIBRARY_${library})
    if(NOT TENON_LIBRARY_${library} MATCHES "\\.a$")
      set_property(GLOBAL APPEND PROPERTY TENON_PRIVATE_LIBRARIES "${TENON_LIBRARY_${library}}")
    endif()
  endforeach()
  set(link "${PROJECT_BINARY_DIR}/tools/private_libraries/${target}.link")
  add_custom_command(TARGET ${target} PRE_LINK
    COMMAND tenon_make_private_libraries link "${TENON_PRIVATE_NAMES}" "${link}" "$<TARGET_OBJECTS:${target}>"
    ${arg_WITH}
    COMMAND_EXPAND_LISTS VERBATIM)
  # Behind everything that calls them; the system's own, which other words of the line bring, are then needed by
  # nothing.
  target_link_options(${target} PRIVATE "LINKER:--as-needed")
  target_link_libraries(${target} PRIVATE "-Wl,@${link}")
  add_dependencies(${target} tenon_private_libraries)
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS "${TENON_PRIVATE_NAMES}")
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "MODULE_LIBRARY")
    set_property(TARGET ${target} APPEND PROPERTY INSTALL_RPATH "$ORIGIN/../private")
  else()
    set_target_properties(${target} PROPERTIES BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN/tenon/private")
  endif()
endfunction()

# Once every room has said what it links.
function(tenon_copy_private_libraries)
  get_property(libraries GLOBAL PROPERTY TENON_PRIVATE_LIBRARIES)
  list(REMOVE_DUPLICATES libraries)
  add_custom_command(OUTPUT "${TENON_PRIVATE_NAMES}"
    COMMAND tenon_make_private_libraries copy "${TENON_PRIVATE_FOLDER}" "${TENON_PRIVATE_NAMES}"
    "${TENON_PRIVATE_NAMES}.d" ${libraries}
    DEPENDS tenon_make_private_libraries DEPFILE "${TENON_PRIVATE_NAMES}.d"
    COMMENT "Copying the system's libraries under names of Tenon's own" VERBATIM)
  add_custom_target(tenon_private_libraries DEPENDS "${TENON_PRIVATE_NAMES}")
  install(DIRECTORY "${TENON_PRIVATE_FOLDER}/" DESTINATION "${CMAKE_INSTALL_LIBDIR}/tenon/private" FILES_MATCHING
      PATTERN "libtenon_*.so*")
endfunction()
