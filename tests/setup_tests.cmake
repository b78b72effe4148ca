# The set-up scripts themselves; sanitizers would see nothing in them, so one build folder is enough.
if(NOT KVASIR_SANITIZE)
  set(_program -)
  if(TARGET kvasir)
    set(_program $<TARGET_FILE:kvasir>)
  endif()
  add_test(NAME setup COMMAND ${CMAKE_CURRENT_LIST_DIR}/setup_test.sh ${_program})
  set_tests_properties(setup PROPERTIES LABELS fast TIMEOUT 300)
endif()
