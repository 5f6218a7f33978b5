# phidias_layer(name SOURCES ... [LIBS ...]): one folder of src/ as an object library phidias_<name>.
# All layers together are the library `phidias`; a test links only the layers it needs.
set_property(GLOBAL PROPERTY PHIDIAS_LAYERS "")

function(phidias_layer name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  set(target phidias_${name})
  add_library(${target} OBJECT ${ARG_SOURCES})
  target_include_directories(${target} PUBLIC
    "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(${target} PRIVATE phidias_flags PUBLIC Threads::Threads ${ARG_LIBS})
  set_property(GLOBAL APPEND PROPERTY PHIDIAS_LAYERS ${target})
endfunction()

# phidias_test(name LAYERS ... SOURCES ... [LABEL ...]): one test binary, registered case by case.
# Labels: "slow" is left out under sanitizers; "threads" runs under ThreadSanitizer (target phidias_thread_tests).
function(phidias_test name)
  cmake_parse_arguments(ARG "" "LABEL" "SOURCES;LAYERS;LIBS" ${ARGN})
  # What the upper layers cannot be linked without need not be named by every test.
  if("api" IN_LIST ARG_LAYERS)
    list(APPEND ARG_LAYERS image)
  endif()
  if("engine" IN_LIST ARG_LAYERS)
    list(APPEND ARG_LAYERS gradient trace)
  endif()
  list(REMOVE_DUPLICATES ARG_LAYERS)
  list(TRANSFORM ARG_LAYERS PREPEND phidias_)
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  target_compile_definitions(${name} PRIVATE
    PHIDIAS_REFERENCE_DATA="${PHIDIAS_REFERENCE_DATA}"
    PHIDIAS_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data")
  target_link_libraries(${name} PRIVATE phidias_flags ${ARG_LAYERS} ${ARG_LIBS} GTest::gtest_main)
  if(ARG_LABEL STREQUAL "threads")
    if(NOT TARGET phidias_thread_tests)
      add_custom_target(phidias_thread_tests)
    endif()
    add_dependencies(phidias_thread_tests ${name})
  endif()
  if(NOT ARG_LABEL)
    set(ARG_LABEL unit)
  endif()
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST PROPERTIES TIMEOUT 300 LABELS ${ARG_LABEL})
endfunction()
