# Imported targets of the llama.cpp that tools/setup fetched and built; see docs/adr/0001.
set(KVASIR_CACHE_DIR "$ENV{HOME}/.cache/kvasir" CACHE PATH "Where fetched third parties and models lie")
set(KVASIR_LLAMA_DIR "${KVASIR_CACHE_DIR}/llama.cpp/current" CACHE PATH
    "Folder with llama.cpp's source in src/ and its shared-library build in build/")

if(NOT EXISTS ${KVASIR_LLAMA_DIR}/build/bin/libllama.so)
  message(FATAL_ERROR "no llama.cpp build under ${KVASIR_LLAMA_DIR}: run `make build`, which fetches and builds it")
endif()

set(_llama_src ${KVASIR_LLAMA_DIR}/src)
set(_llama_bin ${KVASIR_LLAMA_DIR}/build/bin)

function(_llama_import name file)
  add_library(llama::${name} SHARED IMPORTED GLOBAL)
  set_target_properties(llama::${name} PROPERTIES IMPORTED_LOCATION ${_llama_bin}/${file})
endfunction()

_llama_import(ggml-base libggml-base.so)
_llama_import(ggml-cpu libggml-cpu.so)
_llama_import(ggml libggml.so)
_llama_import(llama libllama.so)
_llama_import(common libllama-common.so)
foreach(tool completion cli server bench perplexity quantize)
  _llama_import(${tool} libllama-${tool}-impl.so)
  set_target_properties(llama::${tool} PROPERTIES INTERFACE_LINK_LIBRARIES "llama::common;llama::llama;llama::ggml;llama::ggml-base")
endforeach()

# Public headers, and for device/ the backend interface that only ggml's own tree holds.
set_target_properties(llama::ggml-base PROPERTIES
  INTERFACE_INCLUDE_DIRECTORIES "${_llama_src}/ggml/include;${_llama_src}/ggml/src")
set_target_properties(llama::ggml PROPERTIES INTERFACE_LINK_LIBRARIES "llama::ggml-base;llama::ggml-cpu")
set_target_properties(llama::llama PROPERTIES
  INTERFACE_INCLUDE_DIRECTORIES "${_llama_src}/include;${_llama_src}/ggml/include"
  INTERFACE_LINK_LIBRARIES "llama::ggml;llama::ggml-base")
set_target_properties(llama::common PROPERTIES
  INTERFACE_INCLUDE_DIRECTORIES "${_llama_src}/common;${_llama_src}/vendor"
  INTERFACE_LINK_LIBRARIES "llama::llama")
