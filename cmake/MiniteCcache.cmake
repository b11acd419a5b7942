# Compiles through ccache where it is installed, unless another launcher was asked for.
if(PROJECT_IS_TOP_LEVEL)
  find_program(MINITE_CCACHE ccache)
  foreach(language CXX CUDA)
    if(MINITE_CCACHE AND NOT DEFINED CMAKE_${language}_COMPILER_LAUNCHER)
      set(CMAKE_${language}_COMPILER_LAUNCHER ${MINITE_CCACHE})
    endif()
  endforeach()
endif()
