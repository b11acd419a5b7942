# The CUDA switch. MINITE_CUDA: ON builds the CUDA rooms when a working nvcc is found, OFF never, REQUIRED
# stops the configuration without one. Sets MINITE_CUDA_BUILT to ON or OFF.
set(MINITE_CUDA ON CACHE STRING "Build the CUDA rooms: ON (when nvcc is found), OFF or REQUIRED")
set_property(CACHE MINITE_CUDA PROPERTY STRINGS ON OFF REQUIRED)
if(NOT MINITE_CUDA MATCHES "^(ON|OFF|REQUIRED)$")
  message(FATAL_ERROR "MINITE_CUDA=${MINITE_CUDA} is not a choice; allowed: ON, OFF, REQUIRED")
endif()

set(_minite_cuda OFF)
if(NOT MINITE_CUDA STREQUAL OFF)
  if(NOT CMAKE_CUDA_COMPILER)
    unset(CMAKE_CUDA_COMPILER CACHE)  # look again: it may have been installed since
    find_program(MINITE_NVCC nvcc PATHS /usr/local/cuda/bin)
    if(MINITE_NVCC AND NOT DEFINED ENV{CUDACXX})
      set(ENV{CUDACXX} ${MINITE_NVCC})
    endif()
  endif()
  set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
  set(CMAKE_CUDA_ARCHITECTURES 90)  # each room sets its own
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    find_package(CUDAToolkit REQUIRED)
    # 12.8 is the first that knows sm_100a; Debian 12's own package is 11.8.
    if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.8)
      set(_old "nvcc ${CMAKE_CUDA_COMPILER_VERSION} is too old for the CUDA rooms, which need 12.8")
      if(MINITE_CUDA STREQUAL REQUIRED)
        message(FATAL_ERROR "MINITE_CUDA=REQUIRED, but ${_old}; install a newer CUDA toolkit")
      endif()
      message(STATUS "${_old}: building without them")
    else()
      set(_minite_cuda ON)
    endif()
  elseif(MINITE_CUDA STREQUAL REQUIRED)
    message(FATAL_ERROR "MINITE_CUDA=REQUIRED, but no working nvcc was found; put it on PATH or set CUDACXX")
  endif()
endif()
set(MINITE_CUDA_BUILT ${_minite_cuda} CACHE INTERNAL "Whether this build holds CUDA objects")

# minite_cuda_room(NAME name ARCHITECTURES arch... SOURCES file...): the device code of one folder, compiled
# for its own architectures and added to the library. (CMake 3.25 does not know cuda_std_20.) No contraction of a*b+c into fma (docs/numerics.md).
function(minite_cuda_room)
  cmake_parse_arguments(R "" "NAME" "ARCHITECTURES;SOURCES" ${ARGN})
  add_library(minite_cuda_${R_NAME} OBJECT ${R_SOURCES})
  set_target_properties(minite_cuda_${R_NAME} PROPERTIES
    CUDA_ARCHITECTURES "${R_ARCHITECTURES}" CUDA_RUNTIME_LIBRARY Static POSITION_INDEPENDENT_CODE ON)
  target_include_directories(minite_cuda_${R_NAME} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  # The shared formulas of core/math.h and formats/ become device functions.
  target_compile_definitions(minite_cuda_${R_NAME} PRIVATE
    "$<$<COMPILE_LANGUAGE:CUDA>:MINITE_INLINE=__host__ __device__ __forceinline__>")
  target_compile_options(minite_cuda_${R_NAME} PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:--std=c++20 --fmad=false --expt-relaxed-constexpr
      -Xcompiler=-ffp-contract=off,-fno-fast-math,-Wall>)
  target_sources(minite PRIVATE $<TARGET_OBJECTS:minite_cuda_${R_NAME}>)
endfunction()
