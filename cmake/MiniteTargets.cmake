# Helper functions shared by every CMakeLists.txt of the project.

# GCC collects its garbage from 30 MB on, which takes a tenth of a file's time; most files here never reach 800 MB.
set(MINITE_GNU_MEMORY --param=ggc-min-heapsize=819200)

# The compile rules of the project. Bits depend on them: no fast math, and no contraction of a*b+c
# into fma unless the source says fma (docs/numerics.md).
function(minite_configure_target target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off -fno-fast-math -Wall -Wextra -Wshadow -Wno-psabi
       $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict ${MINITE_GNU_MEMORY}>>
    $<$<AND:$<BOOL:${MINITE_WERROR}>,$<COMPILE_LANGUAGE:CXX>>:-Werror>)
  if(MINITE_SANITIZE)
    target_compile_options(${target} PUBLIC -fsanitize=${MINITE_SANITIZE} -fno-omit-frame-pointer
                                            -fno-sanitize-recover=all)
    target_link_options(${target} PUBLIC -fsanitize=${MINITE_SANITIZE})
  endif()
endfunction()

# Code that handles text, not tensors: at -O3 its templates (JSON, options, test macros) are a third of a build's time.
set(MINITE_LIGHT_OPTIONS $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O1>)

# Test programs that run other programs or compare texts: the optimizer takes longer than they do.
set(MINITE_DRIVER_OPTIONS $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O0>)

# minite_precompile(target header...): compiles the large headers of libraries once for all files of the target.
function(minite_precompile target)
  target_precompile_headers(${target} PRIVATE ${ARGN})
  # ccache hashes what the compiler would read, so that the compiler has to name the precompiled header there.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
endfunction()

# minite_batches(target): compiles the files of a target eight at a time, where MINITE_BATCHES is on: what they share
# (JSON, options, formats) is instantiated once and not eight times, a third of the time. APART: files of this folder
# whose local names others have too.
function(minite_batches target)
  cmake_parse_arguments(B "" "" "APART" ${ARGN})
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${MINITE_BATCHES} UNITY_BUILD_BATCH_SIZE 8)
  list(TRANSFORM B_APART PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
  set_source_files_properties(${B_APART} TARGET_DIRECTORY ${target} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# minite_sources(file...): adds the files of this folder to the library.
function(minite_sources)
  list(TRANSFORM ARGN PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
  target_sources(minite PRIVATE ${ARGN})
endfunction()

# minite_light_sources(file...): the same for files without loops over tensors. They are compiled for text, with the
# large headers of the libraries precompiled: minite_text is a part of the library.
function(minite_light_sources)
  if(NOT TARGET minite_text)
    add_library(minite_text OBJECT)
    minite_configure_target(minite_text)
    # GCC 12 sees overflows in std::string that are none when headers are precompiled.
    target_compile_options(minite_text PRIVATE ${MINITE_LIGHT_OPTIONS}
      $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds -Wno-stringop-overflow>)
    target_include_directories(minite_text PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(minite_text PRIVATE fmt::fmt yaml-cpp nlohmann_json::nlohmann_json)
    minite_precompile(minite_text <fmt/format.h> <nlohmann/json.hpp>)
    minite_batches(minite_text)
    if(MINITE_FUZZ)
      target_compile_options(minite_text PRIVATE -fsanitize-coverage=trace-pc)
    endif()
    target_sources(minite PRIVATE $<TARGET_OBJECTS:minite_text>)
  endif()
  list(TRANSFORM ARGN PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
  target_sources(minite_text PRIVATE ${ARGN})
endfunction()

# What test programs are compiled with; `options` set the level. Programs of one level share a precompiled header.
function(minite_configure_test target options)
  minite_configure_target(${target})
  # GCC 12 sees overflows in std::string that are none when headers are precompiled.
  target_compile_options(${target} PRIVATE ${options}
    $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess -Wno-array-bounds -Wno-stringop-overflow>)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${target} PRIVATE minite::minite GTest::gtest fmt::fmt nlohmann_json::nlohmann_json)
  target_compile_definitions(${target} PRIVATE
    MINITE_SOURCE_DIR="${PROJECT_SOURCE_DIR}" MINITE_BINARY="$<TARGET_FILE:minite_cli>")
endfunction()

# The precompiled header of the test programs of a level, as a target to reuse it from.
function(minite_test_headers target options)
  if(TARGET ${target})
    return()
  endif()
  # A program, not a library: the flags of position independence must be those of the tests.
  add_executable(${target} ${PROJECT_SOURCE_DIR}/cmake/empty.cpp)
  minite_configure_test(${target} "${options}")
  target_link_libraries(${target} PRIVATE GTest::gtest_main)
  target_precompile_headers(${target} PRIVATE <gtest/gtest.h> <fmt/format.h> <nlohmann/json.hpp>)
endfunction()

# minite_test(NAME name SOURCES file... [LABELS label...] [LIBS lib...] [TIMEOUT s] [NUMERIC]): one GoogleTest
# program; each of its cases becomes a ctest case. NUMERIC: it computes enough itself to be optimised.
function(minite_test)
  cmake_parse_arguments(T "NUMERIC" "NAME;TIMEOUT" "SOURCES;LABELS;LIBS" ${ARGN})
  if(T_NUMERIC)
    set(headers minite_numeric_test_headers)
    set(options ${MINITE_LIGHT_OPTIONS})
  else()
    set(headers minite_test_headers)
    set(options ${MINITE_DRIVER_OPTIONS})
  endif()
  minite_test_headers(${headers} "${options}")
  add_executable(test_${T_NAME} ${T_SOURCES})
  minite_configure_test(test_${T_NAME} "${options}")
  target_link_libraries(test_${T_NAME} PRIVATE GTest::gtest_main ${T_LIBS})
  target_precompile_headers(test_${T_NAME} REUSE_FROM ${headers})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 300)
  endif()
  gtest_discover_tests(test_${T_NAME} TEST_PREFIX "${T_NAME}." DISCOVERY_MODE PRE_TEST
                       PROPERTIES LABELS "${T_LABELS}" TIMEOUT ${T_TIMEOUT})
endfunction()
