# Tests with models: llama.cpp's architecture suite and its tiny models, and the models of
# KVASIR_CACHE_DIR. Labels: slow (together a few minutes on two cores) and long (`make test-long`).
find_package(GTest REQUIRED)
find_package(Python3 REQUIRED COMPONENTS Interpreter)

set(_tests ${CMAKE_CURRENT_LIST_DIR})
set(_models ${KVASIR_CACHE_DIR}/models)
# Idle OpenMP threads must not spin: the machine may run several tests at once.
set(_environment OMP_WAIT_POLICY=passive)

# --- Architectures: llama.cpp's own suite, with the device registered before main ----------------
kvasir_executable(kvasir_arch
  SOURCES ${KVASIR_LLAMA_DIR}/src/tests/test-llama-archs.cpp ${_tests}/arch/register_device.cc
  DEPENDS kvasir_device llama::common)
# Not our code: it is compiled as it is, with llama.cpp's own headers in reach.
set_source_files_properties(${KVASIR_LLAMA_DIR}/src/tests/test-llama-archs.cpp
                            PROPERTIES COMPILE_OPTIONS "-w")

# With weights twice as wide attention is less uniform: positions and single rows count for more.
foreach(deviation 0.1 0.2)
  add_test(NAME arch_suite_${deviation}
           COMMAND Python3::Interpreter ${_tests}/arch/run_suite.py $<TARGET_FILE:kvasir_arch>
                   -d ${deviation})
  set_tests_properties(arch_suite_${deviation} PROPERTIES LABELS slow TIMEOUT 300
                       ENVIRONMENT "${_environment}")
endforeach()

# --- Parity with stock on texts ------------------------------------------------------------------
find_package(CLI11 REQUIRED)
kvasir_executable(kvasir_parity SOURCES ${_tests}/parity/parity.cc
                  DEPENDS kvasir_eval_base kvasir_device CLI11::CLI11)

# --- Streams on tiny models of many architectures ------------------------------------------------
set(_arch_models ${CMAKE_BINARY_DIR}/arch_models)
file(MAKE_DIRECTORY ${_arch_models})
string(CONCAT _arch_names "llama|gpt2|qwen3|afmoe|bloom|mpt|gemma2|gpt-oss|gemma3|cohere2|phi3|"
       "deepseek2|minicpm3|deepseek32|minimax-m3|jamba|falcon-h1|granitehybrid|nemotron_h|qwen3next|"
       "lfm2|mamba")
# Weights three times as wide as the suite's own: with those, attention is all but uniform, and a
# wrong position or a stale row does not show.
add_test(NAME arch_models_write COMMAND kvasir_arch -s 1 -d 0.3 -a "^(${_arch_names})$" -o ${_arch_models})
set_tests_properties(arch_models_write PROPERTIES LABELS slow FIXTURES_SETUP arch_models TIMEOUT 120
                     ENVIRONMENT "${_environment}")
kvasir_executable(arch_streams SOURCES ${_tests}/arch/streams_test.cc
                  DEPENDS kvasir_eval_base kvasir_device GTest::gtest_main)
target_compile_definitions(arch_streams PRIVATE KVASIR_ARCH_MODELS="${_arch_models}")
foreach(case DecodeAfterPrompt Removal CopyAcrossStreams Shift SaveAndRestore Clear)
  add_test(NAME arch_streams.${case} COMMAND arch_streams --gtest_filter=*.${case}/*)
  set_tests_properties(arch_streams.${case} PROPERTIES LABELS slow FIXTURES_REQUIRED arch_models
                       TIMEOUT 120 ENVIRONMENT "${_environment}")
endforeach()

# kvasir_parity_test(NAME slow|long ARGUMENTS...). One thread: a busy machine costs no more than its
# share then, and the suites above cover threads.
function(kvasir_parity_test name label)
  add_test(NAME parity.${name} COMMAND kvasir_parity -t 1 ${ARGN})
  set_tests_properties(parity.${name} PROPERTIES LABELS ${label} TIMEOUT 1800
                       ENVIRONMENT "KVASIR_CACHE_DIR=${KVASIR_CACHE_DIR}")
endfunction()

# Short forms. Perplexity moves more on few tokens: stock's own paths are 0.03 % apart here.
kvasir_parity_test(smollm2_prompt slow -m smollm2-f16 --tokens 500 --decode 0
                   --max-perplexity-change 0.001)
kvasir_parity_test(smollm2_decode slow -m smollm2-f16 --tokens 250 --decode 100 --reference off
                   --max-perplexity-change 0.001)
kvasir_parity_test(gemma3_prompt_and_decode slow -m gemma3-f16 --text gpl --tokens 600 --decode 40
                   --reference off --max-perplexity-change 0.001)  # past the window of 512
kvasir_parity_test(smollm2_quantised slow -m smollm2 --tokens 300 --decode 0 --bound-by-stock)

# Full size: both models, both texts.
foreach(model smollm2 gemma3)
  foreach(text bible gpl)
    kvasir_parity_test(${model}_${text}_full long -m ${model}-f16 --text ${text} --tokens 2000
                       --decode 0 --stock-paths)
    kvasir_parity_test(${model}_${text}_decode_full long -m ${model}-f16 --text ${text}
                       --tokens 800 --decode 300 --reference off --stock-paths)
    kvasir_parity_test(${model}_${text}_quantised_full long -m ${model} --text ${text} --tokens 2000
                       --decode 100 --bound-by-stock)
  endforeach()
endforeach()

# --- Contracts of memory and budget in real runs -------------------------------------------------
find_package(nlohmann_json REQUIRED)
function(kvasir_model_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;PROPERTIES" ${ARGN})
  kvasir_executable(${name} SOURCES ${ARG_SOURCES}
                    DEPENDS kvasir_eval_base kvasir_device GTest::gtest_main ${ARG_DEPENDS})
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS slow TIMEOUT 600 ENVIRONMENT "${_environment}"
                       ${ARG_PROPERTIES})
endfunction()
kvasir_model_test(memory_test SOURCES ${_tests}/contract/memory_test.cc)
kvasir_model_test(budget_test
  SOURCES ${_tests}/contract/budget_test.cc ${_tests}/contract/live_rows.cc
  DEPENDS nlohmann_json::nlohmann_json)
kvasir_model_test(state_test SOURCES ${_tests}/contract/state_test.cc)
kvasir_model_test(confidence_test SOURCES ${_tests}/contract/confidence_test.cc
  DEPENDS nlohmann_json::nlohmann_json)
kvasir_model_test(endless_test SOURCES ${_tests}/contract/endless_test.cc
                  PROPERTIES FIXTURES_REQUIRED arch_models)
target_compile_definitions(endless_test PRIVATE KVASIR_ARCH_MODELS="${_arch_models}")

# --- Stock programs with the plug-in -------------------------------------------------------------
add_test(NAME plugin_test
         COMMAND Python3::Interpreter ${_tests}/plugin/plugin_test.py
                 --bin ${KVASIR_LLAMA_DIR}/build/bin --plugin $<TARGET_FILE:ggml-kvasir>
                 --kvasir $<TARGET_FILE:kvasir> --model ${_models}/smollm2-f16.gguf)
set_tests_properties(plugin_test PROPERTIES LABELS slow TIMEOUT 600)

# --- Without end, through the program ------------------------------------------------------------
foreach(run slow:run:3000 slow:serve:1000 long:run:20000 long:serve:20000)
  string(REPLACE ":" ";" _run ${run})
  list(GET _run 0 _label)
  list(GET _run 1 _front_end)
  list(GET _run 2 _tokens)
  add_test(NAME endless_${_front_end}_${_tokens}
           COMMAND Python3::Interpreter ${_tests}/contract/endless_run.py
                   --kvasir $<TARGET_FILE:kvasir> --model ${_models}/smollm2-q4_0.gguf
                   --front-end ${_front_end} --tokens ${_tokens})
  set_tests_properties(endless_${_front_end}_${_tokens} PROPERTIES LABELS ${_label} TIMEOUT 1800)
endforeach()

# --- A cap on bytes, through the server ----------------------------------------------------------
add_test(NAME cap_serve
         COMMAND Python3::Interpreter ${_tests}/contract/cap_run.py --kvasir $<TARGET_FILE:kvasir>
                 --stock ${KVASIR_LLAMA_DIR}/build/bin/llama-server
                 --model ${_models}/smollm2-q4_0.gguf)
add_test(NAME cap_serve_deltakv
         COMMAND Python3::Interpreter ${_tests}/contract/cap_run.py --kvasir $<TARGET_FILE:kvasir>
                 --stock ${KVASIR_LLAMA_DIR}/build/bin/llama-server
                 --model ${_models}/smollm2-q4_0.gguf --format residual,first=1:int8
                 --select omnikv --cap 48 --requests 60)
set_tests_properties(cap_serve cap_serve_deltakv PROPERTIES LABELS slow TIMEOUT 1800
                     ENVIRONMENT "${_environment}")

set_target_properties(kvasir_arch arch_streams memory_test budget_test state_test confidence_test endless_test
                      PROPERTIES
                      RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
