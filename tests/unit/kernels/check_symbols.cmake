# cmake -DNM=nm -DOBJECTS=a.o,b.o -P check_symbols.cmake: fails if an object of an instruction set offers the linker
# any function but its entrances. A weak one there could be chosen for the whole program, with instructions that the
# CPU may lack.
string(REPLACE "," ";" objects "${OBJECTS}")
set(checked 0)
foreach(object IN LISTS objects)
  if(NOT object MATCHES "/(avx2|avx512|avx512_bf16|neon|neon_dotprod|neon_i8mm)/")
    continue()
  endif()
  execute_process(COMMAND ${NM} --demangle --defined-only --extern-only ${object}
                  OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX REPLACE "\n$" "" symbols "${symbols}")
  string(REPLACE ";" "," symbols "${symbols}")
  string(REPLACE "\n" ";" symbols "${symbols}")
  foreach(symbol IN LISTS symbols)
    # T and W are functions; data may be shared.
    if(symbol MATCHES " [TW] " AND NOT symbol MATCHES "::fill_[a-z0-9_]+\\(phidias::KernelTable&\\)$")
      message(SEND_ERROR "${object} defines ${symbol}")
    endif()
  endforeach()
  math(EXPR checked "${checked} + 1")
endforeach()
message(STATUS "${checked} objects looked at")
