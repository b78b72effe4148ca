# How our own targets are compiled. Third parties keep their own flags.
option(KVASIR_WERROR "Treat warnings in our code as errors" ON)
set(KVASIR_SANITIZE "" CACHE STRING "Sanitizers for all of our targets: address,undefined or thread")

find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED)

add_library(kvasir_flags INTERFACE)
target_compile_options(kvasir_flags INTERFACE -Wall -Wextra -Wpedantic -Wconversion)
if(KVASIR_WERROR)
  target_compile_options(kvasir_flags INTERFACE -Werror)
endif()
if(KVASIR_SANITIZE)
  target_compile_options(kvasir_flags INTERFACE -fsanitize=${KVASIR_SANITIZE}
                                                -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(kvasir_flags INTERFACE -fsanitize=${KVASIR_SANITIZE})
endif()
target_include_directories(kvasir_flags INTERFACE ${PROJECT_SOURCE_DIR}/src
                                                  ${PROJECT_SOURCE_DIR}/include)

# kvasir_library(name SOURCES a.cc ... DEPENDS lib ...): a static library of one folder.
function(kvasir_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC kvasir_flags ${ARG_DEPENDS})
endfunction()

# kvasir_executable(name SOURCES ... DEPENDS ...)
function(kvasir_executable name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE kvasir_flags ${ARG_DEPENDS})
endfunction()

# kvasir_test(name LABEL fast|slow SOURCES ... DEPENDS ... [TIMEOUT s]): a GoogleTest program; each
# of its tests is one ctest entry named "name.Suite.Case". With FILTER only those that match are.
function(kvasir_test name)
  cmake_parse_arguments(ARG "" "LABEL;TIMEOUT;FILTER" "SOURCES;DEPENDS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(CMAKE_CROSSCOMPILING)  # an emulator runs it
    math(EXPR ARG_TIMEOUT "10 * ${ARG_TIMEOUT}")
  endif()
  find_package(GTest REQUIRED)
  include(GoogleTest)
  kvasir_executable(${name} SOURCES ${ARG_SOURCES} DEPENDS ${ARG_DEPENDS} GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  gtest_discover_tests(${name} TEST_PREFIX "${name}." DISCOVERY_TIMEOUT 60 TEST_FILTER "${ARG_FILTER}"
                       PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT})
endfunction()
