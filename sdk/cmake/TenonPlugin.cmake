# SPDX-License-Identifier: Apache-2.0
# tenon_add_plugin(name SOURCES file...
#                  [LIBRARIES target...]        linked privately; static ones are hidden inside
#                  [OPTIONS flag...]            compile options
#                  [CPU_FEATURES v2|v3|v4 ...]  x86-64 level (compiled for it), then perhaps names as in /proc/cpuinfo
#                  [VARIANT suffix]             one of several libraries of one package id
#                  [PROVIDES_FROM target]       whose manifest says what this one provides, where it cannot run
#                  [OUTPUT_DIRECTORY folder]    instead of <build>/lib/tenon/plugins
#                  [NO_MANIFEST]                for a library that cannot be opened where it is built; it then loads
#                                               by explicit path only, or with a <library>.json beside it
#                  [NO_INSTALL])
#
# Makes the target and the library tenon_<name>[_<suffix>].so, which exports tenon_plugin_query alone, and writes its
# manifest into it as the ELF note .note.tenon. The same function serves the tree and the installed SDK
# (find_package(Tenon)); sources may be C, C++ or both.

set(TENON_PLUGIN_CMAKE_DIRECTORY "${CMAKE_CURRENT_LIST_DIR}")

function(tenon_add_plugin name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "NO_INSTALL;NO_MANIFEST" "VARIANT;PROVIDES_FROM;OUTPUT_DIRECTORY"
                        "SOURCES;LIBRARIES;OPTIONS;CPU_FEATURES")
  if(NOT arg_SOURCES OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tenon_add_plugin(${name}): SOURCES is missing, or not understood: "
                        "${arg_UNPARSED_ARGUMENTS}")
  endif()
  set(target "tenon_${name}")
  if(arg_VARIANT)
    string(APPEND target "_${arg_VARIANT}")
  endif()
  if(NOT arg_OUTPUT_DIRECTORY)
    set(arg_OUTPUT_DIRECTORY "${TENON_PLUGIN_OUTPUT_DIRECTORY}")
  endif()
  if(NOT arg_OUTPUT_DIRECTORY)
    set(arg_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib/tenon/plugins")
  endif()

  add_library(${target} MODULE ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE ${arg_LIBRARIES} Tenon::plugin
                                          $<TARGET_NAME_IF_EXISTS:tenon_warnings>)
  target_compile_options(${target} PRIVATE ${arg_OPTIONS} $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-gnu-unique>)
  set_target_properties(${target} PROPERTIES
    PREFIX "" SUFFIX ".so" OUTPUT_NAME "${target}"
    LIBRARY_OUTPUT_DIRECTORY "${arg_OUTPUT_DIRECTORY}"
    POSITION_INDEPENDENT_CODE ON
    C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    # The build's own padding of an empty path would make the loader look in the current folder.
    BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN" INSTALL_RPATH_USE_LINK_PATH ON
    LINK_DEPENDS "${TENON_PLUGIN_CMAKE_DIRECTORY}/tenon_plugin.map")
  if(NOT DEFINED CMAKE_C_STANDARD)
    set_target_properties(${target} PROPERTIES C_STANDARD 11)
  endif()
  if(NOT DEFINED CMAKE_CXX_STANDARD)
    set_target_properties(${target} PROPERTIES CXX_STANDARD 20)
  endif()
  target_link_options(${target} PRIVATE
    "LINKER:--version-script=${TENON_PLUGIN_CMAKE_DIRECTORY}/tenon_plugin.map"
    "LINKER:-z,nodelete" "LINKER:--no-undefined" "LINKER:--exclude-libs,ALL")

  list(GET arg_CPU_FEATURES 0 level)
  if(level MATCHES "^v[234]$")
    target_compile_options(${target} PRIVATE "-march=x86-64-${level}")
  endif()

  if(NOT arg_NO_MANIFEST)
    tenon_plugin_add_manifest(${target} "${arg_PROVIDES_FROM}" ${arg_CPU_FEATURES})
  endif()

  if(NOT arg_NO_INSTALL)
    set_target_properties(${target} PROPERTIES TENON_INSTALLED TRUE)
    set(folder "${TENON_PLUGIN_INSTALL_DIRECTORY}")
    if(NOT folder)
      # where libtenon of that prefix looks, whatever the system calls its library folder
      set(folder "lib/tenon/plugins")
    endif()
    install(TARGETS ${target} LIBRARY DESTINATION "${folder}")
  endif()
endfunction()

# Writes the manifest after the link. The tool comes from the tree or from the installed SDK.
function(tenon_plugin_add_manifest target provides_from)
  if(NOT CMAKE_OBJCOPY)
    message(FATAL_ERROR "objcopy was not found; it writes the manifest into ${target}. Install binutils.")
  endif()
  set(arguments "")
  foreach(feature IN LISTS ARGN)
    string(REGEX REPLACE "^(v[234])$" "x86-64-\\1" feature "${feature}")
    list(APPEND arguments --cpu-feature "${feature}")
  endforeach()
  if(provides_from)
    add_dependencies(${target} ${provides_from})
    list(APPEND arguments --provides-from "$<TARGET_FILE:${provides_from}>")
  endif()
  set(note "${CMAKE_CURRENT_BINARY_DIR}/${target}.note")
  add_custom_command(TARGET ${target} POST_BUILD
    COMMAND "$<TARGET_FILE:Tenon::manifest>" "$<TARGET_FILE:${target}>" ${arguments} --note "${note}"
    COMMAND "${CMAKE_OBJCOPY}" --remove-section .note.tenon --add-section ".note.tenon=${note}"
            --set-section-flags .note.tenon=noload,readonly "$<TARGET_FILE:${target}>"
    VERBATIM)
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS "$<TARGET_FILE:Tenon::manifest>")
endfunction()
