# SPDX-License-Identifier: Apache-2.0
#
# Tests of the preload library. tests/preload/test_*.c run as the program that it is loaded into, on the
# stand-in driver. test_loader*.c and test_startup.c start programs of their own (programs/) under a library
# without sanitizers: they find everything by SLUICE_PRELOAD_... variables.
sl_test_folder(preload LIBRARIES sluice_trace)
target_sources(preload_common PRIVATE ${CMAKE_SOURCE_DIR}/src/preload/api/api_index.c)

# A sanitizer's run-time library must come first.
set(preload_first "")
if(SLUICE_SANITIZE AND CMAKE_C_COMPILER_ID STREQUAL GNU)
	foreach(sanitizer IN ITEMS address thread)
		if(SLUICE_SANITIZE MATCHES ${sanitizer})
			string(SUBSTRING ${sanitizer} 0 1 letter)
			execute_process(COMMAND ${CMAKE_C_COMPILER} -print-file-name=lib${letter}san.so
				OUTPUT_VARIABLE preload_first OUTPUT_STRIP_TRAILING_WHITESPACE)
			string(APPEND preload_first ":")
		endif()
	endforeach()
endif()

# What test programs start knows nothing of sanitizers, nor do the library and driver it loads.
if(TARGET sluice-preload-plain)
	set(preload_plain sluice-preload-plain)
	sl_standin(cuda_standin_plain cuda_driver_plain)
	set(standin_plain cuda_standin_plain)
	target_compile_options(cuda_standin_plain PRIVATE -fno-sanitize=all)
	target_link_options(cuda_standin_plain PRIVATE -fno-sanitize=all)
else()
	set(preload_plain sluice-preload)
	set(standin_plain cuda_standin)
endif()

# The library keeps its spaces until the process ends, partly in mappings that no sanitizer looks into.
string(REPLACE "detect_leaks=1" "detect_leaks=0" preload_environment "${SLUICE_TEST_ENVIRONMENT}")

file(GLOB preload_tests CONFIGURE_DEPENDS preload/test_*.c)
foreach(source IN LISTS preload_tests)
	get_filename_component(name ${source} NAME_WE)
	add_dependencies(preload_${name} sluice-preload)
	set(environment ${preload_environment} ${standin_environment}
		"SLUICE_CUDA_LIBRARY=$<TARGET_FILE:cuda_standin>"
		"SLUICE_PRELOAD_LIBRARY=$<TARGET_FILE:sluice-preload>"
		"SLUICE_RUN=quiet=1"
		"LD_PRELOAD=${preload_first}$<TARGET_FILE:sluice-preload>")
	if(name MATCHES "^test_(loader|startup)")
		add_dependencies(preload_${name} ${preload_plain} ${standin_plain})
		set(environment ${SLUICE_TEST_ENVIRONMENT}
			"SLUICE_PRELOAD_LIBRARY=$<TARGET_FILE:${preload_plain}>"
			"SLUICE_STANDIN_LIBRARY=$<TARGET_FILE:${standin_plain}>"
			"SLUICE_SOURCE_DIR=${CMAKE_SOURCE_DIR}"
			"SLUICE_PRELOAD_PROGRAMS=${CMAKE_CURRENT_BINARY_DIR}/preload_programs")
	endif()
	set_tests_properties(preload/${name} PROPERTIES ENVIRONMENT "${environment}")
endforeach()

# ---- the programs that are started ----

set(programs_folder ${CMAKE_CURRENT_BINARY_DIR}/preload_programs)

function(sl_preload_program target)
	set_target_properties(${target} PROPERTIES
		RUNTIME_OUTPUT_DIRECTORY ${programs_folder}
		LIBRARY_OUTPUT_DIRECTORY ${programs_folder})
	target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
	if(SLUICE_SANITIZE)
		target_compile_options(${target} PRIVATE -fno-sanitize=all)
		target_link_options(${target} PRIVATE -fno-sanitize=all)
	endif()
endfunction()

add_executable(preload_caller preload/programs/caller.c)
add_executable(preload_linked preload/programs/linked.c)
add_library(preload_plugin MODULE preload/programs/plugin.c)
add_library(preload_hidden SHARED preload/programs/hidden.c)
add_library(preload_c10 SHARED preload/programs/c10.c)
set_target_properties(preload_c10 PROPERTIES OUTPUT_NAME c10)
add_library(preload_torch SHARED preload/programs/c10.c)
set_target_properties(preload_torch PROPERTIES OUTPUT_NAME torch_cuda)
target_compile_definitions(preload_test_suballoc PRIVATE C10_LIBRARY="$<TARGET_FILE:preload_c10>"
	TORCH_LIBRARY="$<TARGET_FILE:preload_torch>")
add_dependencies(preload_test_suballoc preload_c10 preload_torch)
add_library(preload_order SHARED preload/programs/order.c)
add_library(preload_interposer MODULE preload/programs/interposer.c)
set(preload_programs preload_caller preload_linked preload_plugin preload_hidden preload_c10
	preload_torch preload_order preload_interposer)
include(CheckCSourceCompiles)
set(CMAKE_REQUIRED_LINK_OPTIONS -static -fno-sanitize=all)
check_c_source_compiles("int main(void) { return 0; }" SLUICE_HAS_STATIC_LIBC)
unset(CMAKE_REQUIRED_LINK_OPTIONS)
if(SLUICE_HAS_STATIC_LIBC)
	add_executable(preload_static preload/programs/static.c)
	target_link_options(preload_static PRIVATE -static)
	list(APPEND preload_programs preload_static)
endif()
foreach(target IN LISTS preload_programs)
	sl_preload_program(${target})
endforeach()
# Only plugin.c's RUNPATH leads to this one.
set_target_properties(preload_hidden PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${programs_folder}/hidden)
target_link_libraries(preload_interposer PRIVATE ${CMAKE_DL_LIBS})
set_target_properties(preload_interposer PROPERTIES PREFIX lib)
set_target_properties(preload_plugin PROPERTIES PREFIX lib BUILD_RPATH $ORIGIN/hidden)
target_link_libraries(preload_caller PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
target_link_options(preload_linked PRIVATE -Wl,--no-as-needed)
target_link_libraries(preload_linked PRIVATE preload_order preload_hidden ${standin_plain}
	${CMAKE_DL_LIBS})
