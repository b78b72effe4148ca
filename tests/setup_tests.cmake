# The set-up scripts themselves; sanitizers would see nothing in them, so one build folder is enough.
if(NOT KVASIR_SANITIZE)
  add_test(NAME setup COMMAND ${CMAKE_CURRENT_LIST_DIR}/setup_test.sh)
  set_tests_properties(setup PROPERTIES LABELS fast TIMEOUT 300)
endif()
