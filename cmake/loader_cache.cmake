# SPDX-License-Identifier: Apache-2.0
#
# The last step of `cmake --install`: make the loader find libsluice.so, or say how it is found.
#
#   a directory of the loader's, and we are root   ldconfig is run
#   a directory of the loader's, and we are not    the line that root has to run
#   any other directory                            the variable that names it
#
# With DESTDIR the tree is for another machine or a package: nothing is done.
# sluice_libdir: where the libraries went, below the prefix or absolute.
if(NOT "$ENV{DESTDIR}" STREQUAL "")
	return()
endif()
cmake_path(ABSOLUTE_PATH sluice_libdir BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}" NORMALIZE)

# A plain user's PATH lacks the directory of ldconfig.
find_program(LDCONFIG ldconfig PATHS /sbin /usr/sbin NO_CACHE)
set(directories "")
if(LDCONFIG)
	# -N -X: only print. Each directory is a line "/usr/local/lib: (from ...)".
	execute_process(COMMAND ${LDCONFIG} -v -N -X OUTPUT_VARIABLE directories ERROR_QUIET)
endif()
execute_process(COMMAND id -u OUTPUT_VARIABLE user OUTPUT_STRIP_TRAILING_WHITESPACE)

string(FIND "\n${directories}" "\n${sluice_libdir}:" at)
if(at EQUAL -1)
	message(STATUS "The loader does not search ${sluice_libdir}: run programs with "
		"LD_LIBRARY_PATH=${sluice_libdir}, or link them with -Wl,-rpath,${sluice_libdir}")
elseif(NOT user STREQUAL "0")
	message(STATUS "To make the loader find libsluice.so, run as root: ldconfig")
else()
	message(STATUS "Running ldconfig, so that the loader finds libsluice.so")
	execute_process(COMMAND ${LDCONFIG} RESULT_VARIABLE failed)
	if(failed)
		message(WARNING "ldconfig failed (${failed}): run it by hand")
	endif()
endif()
