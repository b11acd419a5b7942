# Compiles through ccache where it is installed, unless another launcher was asked for. The settings let it keep what was
# compiled with a precompiled header.
if(PROJECT_IS_TOP_LEVEL)
  find_program(MINITE_CCACHE ccache)
  foreach(language CXX CUDA)
    if(MINITE_CCACHE AND NOT DEFINED CMAKE_${language}_COMPILER_LAUNCHER)
      set(CMAKE_${language}_COMPILER_LAUNCHER
          env "CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime" ${MINITE_CCACHE})
    endif()
  endforeach()
endif()
