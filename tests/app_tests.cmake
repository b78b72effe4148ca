# The program as users run it, with the default model: refusals, help, interruption, endless runs.
if(TARGET kvasir AND NOT KVASIR_SANITIZE)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  add_test(NAME app COMMAND Python3::Interpreter ${CMAKE_CURRENT_LIST_DIR}/app_test.py
                            $<TARGET_FILE:kvasir> ${KVASIR_CACHE_DIR}/models/smollm2.gguf)
  set_tests_properties(app PROPERTIES LABELS slow TIMEOUT 600
                       ENVIRONMENT "OMP_WAIT_POLICY=passive")
endif()
