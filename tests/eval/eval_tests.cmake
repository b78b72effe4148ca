# Tests of the evaluation that no unit test can do: with models, against outside packages, in a
# browser. tools/setup/python.sh provides the packages; a test whose packages are absent says so and
# is skipped.
find_package(CLI11 REQUIRED)
find_package(CURL REQUIRED)
set(_eval_tests ${_tests}/eval)
# The first in PATH, as in tools/setup/python.sh: compiled packages fit one version only.
find_program(KVASIR_TEST_PYTHON python3 REQUIRED)
set(_eval_environment "${_environment};KVASIR_CACHE_DIR=${KVASIR_CACHE_DIR}"
                      "PYTHONPATH=${KVASIR_CACHE_DIR}/python/current")

# kvasir_eval_program(NAME DEPENDS...): a small program that a script drives.
function(kvasir_eval_program name)
  kvasir_executable(${name} SOURCES ${_eval_tests}/${name}.cc DEPENDS ${ARGN})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
endfunction()

# kvasir_eval_script(NAME LABEL SCRIPT ARGUMENTS...)
function(kvasir_eval_script name label script)
  add_test(NAME ${name} COMMAND ${KVASIR_TEST_PYTHON} ${_eval_tests}/${script} ${ARGN})
  set_tests_properties(${name} PROPERTIES LABELS ${label} TIMEOUT 900 SKIP_RETURN_CODE 77
                       ENVIRONMENT "${_eval_environment}")
endfunction()

# --- With models
kvasir_model_test(fidelity_test SOURCES ${_eval_tests}/fidelity_test.cc
                  DEPENDS kvasir_eval_fidelity)
kvasir_model_test(answers_test SOURCES ${_eval_tests}/answers_test.cc
                  DEPENDS kvasir_eval_answers kvasir_eval_premise)
kvasir_model_test(transcript_test SOURCES ${_eval_tests}/transcript_test.cc
                  DEPENDS kvasir_eval_agent_play)
kvasir_model_test(neighbours_test SOURCES ${_eval_tests}/neighbours_test.cc
                  DEPENDS kvasir_eval_neighbours)
set_target_properties(fidelity_test answers_test transcript_test neighbours_test PROPERTIES
                      RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
kvasir_eval_script(eval_fidelity_numpy slow fidelity_numpy_test.py --kvasir $<TARGET_FILE:kvasir>)
kvasir_eval_script(eval_program slow program_test.py --kvasir $<TARGET_FILE:kvasir>
                   --samples ${_eval_tests}/samples)

# --- Against outside packages
kvasir_eval_program(kvasir_samples kvasir_eval_tasks CLI11::CLI11 nlohmann_json::nlohmann_json)
kvasir_eval_script(eval_ruler_crosscheck long ruler_crosscheck.py
                   --samples $<TARGET_FILE:kvasir_samples>)
kvasir_eval_program(kvasir_score kvasir_eval_metrics nlohmann_json::nlohmann_json)
kvasir_eval_script(eval_metrics_crosscheck slow metrics_crosscheck.py
                   --score $<TARGET_FILE:kvasir_score>)

# --- In a browser: every figure drawn, nothing on the console
kvasir_eval_program(kvasir_report kvasir_eval_report)
kvasir_eval_script(eval_report_page slow report_page_test.py
                   --report $<TARGET_FILE:kvasir_report>)
