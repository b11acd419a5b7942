# The steps of a user: install, configure a project with find_package(minite), build it, run it.
function(step name)
  message(STATUS "${name}")
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code COMMAND_ECHO STDOUT)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${name} failed with ${code}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK})
set(prefix ${WORK}/prefix)
step("install" ${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix} --config ${CONFIG})

# An installed tree must work on another machine: it names neither the sources nor the build folder.
file(GLOB_RECURSE package_files ${prefix}/*.cmake ${prefix}/*.h)
foreach(file ${package_files})
  file(READ ${file} text)
  foreach(place ${SOURCE} ${BUILD})
    string(FIND "${text}" "${place}" found)
    if(NOT found EQUAL -1)
      message(FATAL_ERROR "${file} names ${place}")
    endif()
  endforeach()
endforeach()

step("configure" ${CMAKE_COMMAND} -S ${SOURCE}/tests/install/consumer -B ${WORK}/build -G ${GENERATOR}
  -DCMAKE_PREFIX_PATH=${prefix} -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_BUILD_TYPE=${CONFIG}
  -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER})
step("build" ${CMAKE_COMMAND} --build ${WORK}/build --config ${CONFIG})
step("run" ${WORK}/build/consumer)
step("run the installed command" ${prefix}/bin/minite --version)
