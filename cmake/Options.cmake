# Every option of the project, on one page.
option(PHIDIAS_BUILD_CLI "Build the phidias command" ON)
option(PHIDIAS_BUILD_TESTS "Build the tests" ON)
option(PHIDIAS_BUILD_PYTHON "Build the Python module (needs nanobind in the interpreter's environment)" OFF)
option(PHIDIAS_BUILD_FUZZ "Build the fuzz targets (clang only)" OFF)
option(PHIDIAS_BUILD_BENCH "Build the benchmarks" OFF)
option(PHIDIAS_KERNELS_ONLY "Build the kernels and their tests alone, which link no library: for other processors" OFF)
option(PHIDIAS_INSTALL "Define install rules" ON)
option(PHIDIAS_WERROR "Treat warnings as errors" OFF)
set(PHIDIAS_SANITIZE "" CACHE STRING "Sanitizers, as in -fsanitize=...; empty for none")
get_filename_component(phidias_default_reference "${CMAKE_SOURCE_DIR}/../shared/golden" ABSOLUTE)
set(PHIDIAS_REFERENCE_DATA "${phidias_default_reference}" CACHE PATH
    "Folder of reference data; tests that need it are skipped where it is absent")

set(PHIDIAS_REAL_MODEL "${CMAKE_SOURCE_DIR}/models/real" CACHE PATH
    "Folder of the real small model's checkpoints; tests that need them are skipped where they are absent")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

find_program(PHIDIAS_CCACHE ccache)
if(PHIDIAS_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${PHIDIAS_CCACHE}")
endif()

find_package(Threads REQUIRED)

# Flags of our own code: linked privately by every target of this project.
add_library(phidias_flags INTERFACE)
# The compiler must not fuse a*b+c on its own: the order of operations is part of what we promise.
target_compile_options(phidias_flags INTERFACE -Wall -Wextra -Wconversion -Wsign-conversion -Wshadow
  -Wnon-virtual-dtor -Wold-style-cast -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(phidias_flags INTERFACE -Wno-restrict)  # g++ 12 sees overlaps in std::string's own code
endif()
if(PHIDIAS_WERROR)
  target_compile_options(phidias_flags INTERFACE -Werror)
endif()
if(PHIDIAS_SANITIZE)
  add_compile_options(-fsanitize=${PHIDIAS_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${PHIDIAS_SANITIZE})
endif()
