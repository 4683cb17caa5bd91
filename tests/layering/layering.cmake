# Who may include whom: reads the sources, links nothing of them.
heddle_test(layering layering LINK fmt::fmt)
if(TARGET test_layering)
  target_include_directories(test_layering PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/generated)
endif()
