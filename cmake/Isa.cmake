# GCC 12 warns inside its own header of AVX-512.
set(phidias_avx512_flags
  -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni
  $<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized> $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)

# phidias_add_isa(avx2 FLAGS -mavx2 ... SOURCES ...): the files of one instruction set, compiled for it and joined to
# the kernels layer, which is told of it by PHIDIAS_ISA_AVX2. Such files keep all they define to themselves, so that no
# other file can be linked with a copy of a shared function that uses the instructions.
function(phidias_add_isa name)
  cmake_parse_arguments(ARG "" "" "FLAGS;SOURCES" ${ARGN})
  string(TOUPPER ${name} upper)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # It would turn chains of integer sums into trees, or move all of a chain to its end: either way what is to be
    # summed waits in memory, for there are not enough registers.
    list(APPEND ARG_FLAGS -fno-tree-reassoc -fno-tree-ter)
  endif()
  if(PHIDIAS_SANITIZE)
    # Unrolled products of dozens of registers take clang minutes a file with a check at every addition; the scalar table,
    # whose bits they must have, is checked in full.
    list(APPEND ARG_FLAGS -O1 -fno-sanitize=undefined)
  endif()
  target_sources(phidias_kernels PRIVATE ${ARG_SOURCES})
  target_compile_definitions(phidias_kernels PRIVATE PHIDIAS_ISA_${upper})
  set_source_files_properties(${ARG_SOURCES} PROPERTIES COMPILE_OPTIONS "${ARG_FLAGS}")
endfunction()
