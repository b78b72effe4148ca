# Fidelity on real models.
kvasir_model_test(fidelity_test SOURCES ${_tests}/eval/fidelity_test.cc
                  DEPENDS kvasir_eval_fidelity)
set_target_properties(fidelity_test PROPERTIES
                      RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)

# Debian's own Python, which has python3-numpy; another one in PATH may not.
find_program(KVASIR_DEBIAN_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH REQUIRED)
add_test(NAME fidelity_numpy_test
         COMMAND ${KVASIR_DEBIAN_PYTHON} ${_tests}/eval/fidelity_numpy_test.py
                 --kvasir $<TARGET_FILE:kvasir>)
set_tests_properties(fidelity_numpy_test PROPERTIES LABELS slow TIMEOUT 300
                     ENVIRONMENT "${_environment};KVASIR_CACHE_DIR=${KVASIR_CACHE_DIR}")
