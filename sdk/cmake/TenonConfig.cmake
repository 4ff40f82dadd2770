# SPDX-License-Identifier: Apache-2.0
# find_package(Tenon [COMPONENTS plugin testing app]) gives, from a prefix that may be moved as a whole:
#   Tenon::plugin      the headers of a plugin, with tenon_add_plugin(name SOURCES ...) to build it
#   Tenon::extras      what Tenon's own packages share beyond them: tenon/extras
#   Tenon::tenon       libtenon.so with tenon/app.h, where the prefix has it (component app)
#   Tenon::host        the same for C++: tenon/host, and C++20, which it needs (component app)
#   Tenon::model_c    models and training through C, tenon/model.h and tenon/train.h (component model_c)
#   Tenon::data        arrays, archives and GraphDefs as files, over Tenon::host (component data)
#   Tenon::model       models as files: read, run and written, over Tenon::data (component model)
#   Tenon::train       the training library over Tenon::model (component train)
#   Tenon::testing     the headers of tests of plugins, in C++20 (component testing)
#   Tenon::manifest    the tool that tenon_add_plugin runs
cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH Tenon_PREFIX)
cmake_path(GET Tenon_PREFIX PARENT_PATH Tenon_PREFIX)
cmake_path(GET Tenon_PREFIX PARENT_PATH Tenon_PREFIX)

set(Tenon_plugin_FOUND FALSE)
set(Tenon_app_FOUND FALSE)

if(EXISTS "${Tenon_PREFIX}/include/tenon/plugin.h" AND EXISTS "${Tenon_PREFIX}/bin/tenon-manifest")
  set(Tenon_plugin_FOUND TRUE)
  if(NOT TARGET Tenon::plugin)
    add_library(Tenon::plugin INTERFACE IMPORTED)
    set_target_properties(Tenon::plugin PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${Tenon_PREFIX}/include")
  endif()
  if(NOT TARGET Tenon::extras)
    add_library(Tenon::extras INTERFACE IMPORTED)
    set_target_properties(Tenon::extras PROPERTIES INTERFACE_LINK_LIBRARIES Tenon::plugin)
  endif()
  if(NOT TARGET Tenon::manifest)
    add_executable(Tenon::manifest IMPORTED)
    set_target_properties(Tenon::manifest PROPERTIES IMPORTED_LOCATION "${Tenon_PREFIX}/bin/tenon-manifest")
  endif()
  include("${CMAKE_CURRENT_LIST_DIR}/TenonPlugin.cmake")
endif()

set(Tenon_testing_FOUND FALSE)
if(Tenon_plugin_FOUND AND EXISTS "${Tenon_PREFIX}/include/tenon/testing/host.h")
  set(Tenon_testing_FOUND TRUE)
  if(NOT TARGET Tenon::testing)
    add_library(Tenon::testing INTERFACE IMPORTED)
    set_target_properties(Tenon::testing PROPERTIES
      INTERFACE_LINK_LIBRARIES "Tenon::plugin;${CMAKE_DL_LIBS}"
      INTERFACE_COMPILE_FEATURES cxx_std_20)
  endif()
endif()

# A Python wheel has no links, and so a library only under the name by which programs ask for it.
set(Tenon_library "${Tenon_PREFIX}/lib/libtenon.so")
set(Tenon_model_c_library "${Tenon_PREFIX}/lib/libtenon_model_c.so")
foreach(library Tenon_library Tenon_model_c_library)
  if(NOT EXISTS "${${library}}")
    string(APPEND ${library} ".0")
  endif()
endforeach()

if(EXISTS "${Tenon_library}" AND EXISTS "${Tenon_PREFIX}/include/tenon/app.h")
  set(Tenon_app_FOUND TRUE)
  if(NOT TARGET Tenon::tenon)
    add_library(Tenon::tenon SHARED IMPORTED)
    set_target_properties(Tenon::tenon PROPERTIES
      IMPORTED_LOCATION "${Tenon_library}"
      INTERFACE_INCLUDE_DIRECTORIES "${Tenon_PREFIX}/include")
  endif()
  if(NOT TARGET Tenon::host)
    add_library(Tenon::host INTERFACE IMPORTED)
    set_target_properties(Tenon::host PROPERTIES
      INTERFACE_LINK_LIBRARIES Tenon::tenon
      INTERFACE_COMPILE_FEATURES cxx_std_20)
  endif()
endif()

# Tenon::<name>, where the prefix has its library and the component that it stands on.
macro(tenon_import_library name kind library on links)
  set(Tenon_${name}_FOUND FALSE)
  if(Tenon_${on}_FOUND AND EXISTS "${library}")
    set(Tenon_${name}_FOUND TRUE)
    if(NOT TARGET Tenon::${name})
      add_library(Tenon::${name} ${kind} IMPORTED)
      set_target_properties(Tenon::${name} PROPERTIES IMPORTED_LOCATION "${library}" INTERFACE_LINK_LIBRARIES
          "${links}")
    endif()
  endif()
endmacro()
tenon_import_library(model_c SHARED "${Tenon_model_c_library}" app Tenon::tenon)
if(Tenon_app_FOUND AND EXISTS "${Tenon_PREFIX}/lib/libtenon_data.a")
  find_package(ZLIB QUIET)  # needed by who reads or writes .npz
endif()
tenon_import_library(data STATIC "${Tenon_PREFIX}/lib/libtenon_data.a" app
    "Tenon::host;$<TARGET_NAME_IF_EXISTS:ZLIB::ZLIB>")
tenon_import_library(model STATIC "${Tenon_PREFIX}/lib/libtenon_model.a" data Tenon::data)
tenon_import_library(train STATIC "${Tenon_PREFIX}/lib/libtenon_train.a" model "Tenon::model;Tenon::data")

if(NOT Tenon_FIND_COMPONENTS)
  set(Tenon_FIND_COMPONENTS plugin)
  set(Tenon_FIND_REQUIRED_plugin TRUE)
endif()
foreach(component IN LISTS Tenon_FIND_COMPONENTS)
  if(Tenon_FIND_REQUIRED_${component} AND NOT Tenon_${component}_FOUND)
    set(Tenon_FOUND FALSE)
    set(Tenon_NOT_FOUND_MESSAGE
        "${Tenon_PREFIX} has no component '${component}' of Tenon (known: plugin, testing, app, model_c, data, train, model).")
  endif()
endforeach()
