# SPDX-License-Identifier: Apache-2.0
# tenon_gpu_images(vendor OUTPUT_SUFFIX suffix COMPILER command... EXACT option...)
#
# The target tenon_<vendor>_images compiles each file of devices/gpu/code with the vendor's compiler; tenon_gpu_embed_images(target vendor) puts what it
# gives into a plugin as data (devices/gpu/images.h). The target is there whether or not TENON_GPU is on, and built for a plugin alone: Ninja forgets what
# a file was made of while no rule makes it, and would compile all of them again when the option is back. The command gets the source, -o and the output
# after it. What the compiler says goes into a log beside the image, which report.py reads; it is shown when the compiler fails. EXACT: what keeps a
# product and a sum two roundings; for element-wise ops, whose numbers do not depend on whether a chain of them is compiled, and for updates of
# variables, not on how many are one launch.
set(TENON_GPU_FOLDER "${CMAKE_CURRENT_LIST_DIR}")

# tenon_gpu_headers(target): puts the headers that are compiled at run time into the target as texts.
function(tenon_gpu_headers target)
  set(text "/* Made by images.cmake. */\n#include <stdint.h>\n")
  set(table "")
  set(files "")
  set(count 0)
  foreach(name code/apply.h code/fault.h code/functions.h code/fused.h code/fused_pack.h code/fused_row.h code/grid.h
               code/group.h tenon/sdk/kernel/half.h tenon/extras/kernel/elementwise.h bit cmath complex
               cstdint type_traits)
    if(name MATCHES "^tenon/extras/")
      set(file "${PROJECT_SOURCE_DIR}/sdk/author/extras/include/${name}")
    elseif(name MATCHES "^tenon/")
      set(file "${PROJECT_SOURCE_DIR}/sdk/author/plugin/include/${name}")
    elseif(name MATCHES "^code/")
      set(file "${TENON_GPU_FOLDER}/${name}")
    else()
      set(file "${TENON_GPU_FOLDER}/fuse/rtc/${name}")
    endif()
    string(MAKE_C_IDENTIFIER "tenon_header_${name}" symbol)
    string(APPEND text "__asm__(\".section .rodata\\n${symbol}:\\n.incbin \\\"${file}\\\"\\n.byte 0\\n.previous\\n\");\n"
                       "extern const char ${symbol}[] __attribute__((visibility(\"hidden\")));\n")
    string(APPEND table "  {\"${name}\", ${symbol}},\n")
    list(APPEND files "${file}")
    math(EXPR count "${count} + 1")
  endforeach()
  string(APPEND text "const struct { const char* name; const char* text; } tenon_gpu_headers[] = {\n${table}};\n"
                     "const uint64_t tenon_gpu_header_count = ${count};\n")
  file(GENERATE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/${target}_headers.c" CONTENT "${text}")
  set_source_files_properties("${CMAKE_CURRENT_BINARY_DIR}/${target}_headers.c" PROPERTIES OBJECT_DEPENDS "${files}")
  target_sources(${target} PRIVATE "${CMAKE_CURRENT_BINARY_DIR}/${target}_headers.c")
endfunction()

function(tenon_gpu_images vendor)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "OUTPUT_SUFFIX" "COMPILER;EXACT")
  file(GLOB sources CONFIGURE_DEPENDS "${TENON_GPU_FOLDER}/code/*.cu")
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/images")
  file(MAKE_DIRECTORY "${folder}")
  set(includes "-I'${TENON_GPU_FOLDER}'")
  foreach(room sdk/author/plugin sdk/author/extras plugin_api)
    string(APPEND includes " -I'${PROJECT_SOURCE_DIR}/${room}/include'")
  endforeach()
  set(images "")
  set(text "/* Made by images.cmake. */\n#include <stdint.h>\n")
  set(table "")
  foreach(source IN LISTS sources)
    cmake_path(GET source STEM name)
    set(image "${folder}/${name}.${arg_OUTPUT_SUFFIX}")
    list(JOIN arg_COMPILER " " command)
    if(name MATCHES "^(elementwise|variable)$")
      string(APPEND command " ${arg_EXACT}")
    endif()
    add_custom_command(OUTPUT "${image}"
      COMMAND sh -c "${command} ${includes} -MD -MF '${image}.d' '${source}' -o '${image}' >'${image}.log' 2>&1 || { cat '${image}.log'; exit 1; }"
      DEPENDS "${source}" DEPFILE "${image}.d" COMMENT "Device code ${name}.${arg_OUTPUT_SUFFIX}" VERBATIM)
    # The kernels in it, a line each, as far as the compiler says (ptxas does).
    add_custom_command(OUTPUT "${image}.names"
      COMMAND sh -c "sed -n \"s/.*Compiling entry function '\\([A-Za-z0-9_]*\\)'.*/\\1/p\" '${image}.log' | sort -u >'${image}.names'"
      DEPENDS "${image}" COMMENT "" VERBATIM)
    list(APPEND images "${image}" "${image}.names")
    string(APPEND text "__asm__(\".section .rodata\\n.balign 64\\ntenon_image_${name}:\\n.incbin \\\"${image}\\\"\\ntenon_image_${name}_end:\\n.byte 0\\ntenon_names_${name}:\\n.ascii \\\"\\\\n\\\"\\n.incbin \\\"${image}.names\\\"\\n.byte 0\\n.previous\\n\");\n"
                       "extern const char tenon_names_${name}[] __attribute__((visibility(\"hidden\")));\n"
                       "extern const char tenon_image_${name}[] __attribute__((visibility(\"hidden\")));\n"
                       "extern const char tenon_image_${name}_end[] __attribute__((visibility(\"hidden\")));\n")
    string(APPEND table "  {tenon_image_${name}, tenon_image_${name}_end, tenon_names_${name}},\n")
  endforeach()
  list(LENGTH sources count)
  string(APPEND text "const struct { const char* begin; const char* end; const char* names; } tenon_gpu_images[] = {\n${table}};\n"
                     "const uint64_t tenon_gpu_image_count = ${count};\n")
  file(GENERATE OUTPUT "${folder}/images.c" CONTENT "${text}")
  set_source_files_properties("${folder}/images.c" PROPERTIES OBJECT_DEPENDS "${images}")
  add_custom_target(tenon_${vendor}_images DEPENDS ${images})
endfunction()

function(tenon_gpu_embed_images target vendor)
  target_sources(${target} PRIVATE "${CMAKE_CURRENT_BINARY_DIR}/images/images.c")
  add_dependencies(${target} tenon_${vendor}_images)
  tenon_gpu_headers(${target})
endfunction()

# tenon_gpu_host_objects(vendor SOURCES ... INCLUDES folder...): tenon_<vendor>_objects, the vendor's own half of what runs on the host, compiled once for
# all that is made of it.
function(tenon_gpu_host_objects vendor)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;INCLUDES")
  add_library(tenon_${vendor}_objects OBJECT EXCLUDE_FROM_ALL ${arg_SOURCES})
  target_link_libraries(tenon_${vendor}_objects PRIVATE Tenon::plugin tenon_warnings)
  target_include_directories(tenon_${vendor}_objects PRIVATE "${TENON_GPU_FOLDER}")
  target_include_directories(tenon_${vendor}_objects SYSTEM PRIVATE ${arg_INCLUDES})
  target_compile_options(tenon_${vendor}_objects PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-gnu-unique>)
endfunction()

# tenon_gpu_plugin(vendor): the plugin of tenon_<vendor>_objects, in two forms: with images, where TENON_GPU is on, and for
# tests without, which is quick to build: it is opened and loaded as the other, says why there is no GPU, and refuses one that is there.
function(tenon_gpu_plugin vendor)
  set(objects "$<TARGET_OBJECTS:tenon_${vendor}_objects>" "$<TARGET_OBJECTS:tenon_gpu_objects>")
  if(TENON_TESTS)
    tenon_add_plugin(${vendor} VARIANT without_images SOURCES ${objects} "${TENON_GPU_FOLDER}/testing/no_images.cc" LIBRARIES ${CMAKE_DL_LIBS} Threads::Threads
                     OPTIONS "-I${TENON_GPU_FOLDER}" OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests/plugins" NO_INSTALL)
    tenon_gpu_headers(tenon_${vendor}_without_images)
  endif()
  if(TENON_GPU)
    tenon_add_plugin(${vendor} SOURCES ${objects} LIBRARIES ${CMAKE_DL_LIBS} Threads::Threads)
    tenon_gpu_embed_images(tenon_${vendor} ${vendor})
  endif()
endfunction()
