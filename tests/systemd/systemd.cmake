# The units, as systemd itself judges them. They name the programs, which sanitizer builds do not make.
if(HEDDLE_SANITIZE)
  return()
endif()
add_test(NAME Units.AreAsSystemdWantsThem
         COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/systemd/check ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
set_tests_properties(Units.AreAsSystemdWantsThem PROPERTIES LABELS unit TIMEOUT 120)
