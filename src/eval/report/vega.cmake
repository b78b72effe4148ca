# Makes OUT, one script that defines `vega` with what the page draws with, from the modules of
# Debian's libjs-vega: they come as CommonJS pieces, each with what it needs of d3 inside.
#   kvasir_vega_script(OUT)
function(kvasir_vega_script out)
  set(modules # in the order in which they need one another
    vega-util vega-time vega-format vega-loader vega-dataflow vega-statistics vega-scale vega-canvas
    vega-scenegraph vega-expression vega-selection vega-event-selector vega-functions vega-runtime
    vega-view vega-parser vega-transforms vega-view-transforms vega-encode vega-label)
  find_path(KVASIR_VEGA_DIR vega-parser.min.js PATHS /usr/share/javascript/vega NO_DEFAULT_PATH
            DOC "Folder with Vega's modules (Debian: libjs-vega)")
  if(NOT KVASIR_VEGA_DIR)
    message(FATAL_ERROR "no vega-parser.min.js in /usr/share/javascript/vega: apt-get install libjs-vega, "
                        "or give its folder as -DKVASIR_VEGA_DIR=DIR")
  endif()

  file(READ ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/vega_licence.txt licence)
  set(script "/*\n${licence}*/\nvar vega = (function () {\n'use strict';\nvar loaded = {};\n")
  string(APPEND script "function require(name) { return loaded[name]; }\n")
  foreach(module IN LISTS modules)
    set(file ${KVASIR_VEGA_DIR}/${module}.min.js)
    if(NOT EXISTS ${file})
      message(FATAL_ERROR "no ${file}: apt-get install libjs-vega (5.22 is known to work)")
    endif()
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    file(READ ${file} text)
    string(REPLACE "//# sourceMappingURL=${module}.min.js.map" "" text "${text}")
    set(name ${module})
    if(module STREQUAL vega-selection)
      set(name vega-selections) # file and package differ in name
    endif()
    string(APPEND script "(function (exports, module) {\n${text}\n})(loaded['${name}'] = {}, {});\n")
  endforeach()
  string(APPEND script
    "Object.assign(loaded['vega-dataflow'].transforms, loaded['vega-transforms'], "
    "loaded['vega-view-transforms'], loaded['vega-encode'], loaded['vega-label']);\n"
    "return {parse: loaded['vega-parser'].parse, View: loaded['vega-view'].View};\n})();\n")
  file(CONFIGURE OUTPUT ${out} CONTENT "@script@" @ONLY)
endfunction()
