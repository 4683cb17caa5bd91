# The laboratory: a fabric of network namespaces on a real kernel, and what runs in it. Needs root; its tests
# carry the label lab and run one at a time, because they measure.
file(GLOB lab_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/lab/*.cpp)
list(FILTER lab_sources EXCLUDE REGEX "(_test|_main)\\.cpp$")
add_library(heddle_lab STATIC ${lab_sources})
target_include_directories(heddle_lab PUBLIC ${CMAKE_SOURCE_DIR})
target_link_libraries(heddle_lab PUBLIC heddle_core Threads::Threads
                      PRIVATE ZLIB::ZLIB nlohmann_json::nlohmann_json)

# heddle-lab: the fabric by hand. heddle-demo: all of heddle at work on it (tests/demo).
foreach(program lab demo)
  add_executable(heddle-${program} ${CMAKE_CURRENT_SOURCE_DIR}/lab/${program}_main.cpp)
  target_link_libraries(heddle-${program} PRIVATE heddle_lab)
endforeach()
add_dependencies(heddle-demo heddle heddle-agent heddle-coordinator)

set(lab_parts heddle_lab)
foreach(part heddle_agent heddle_agent_netlink heddle_agent_observe heddle_agent_program heddle_predict heddle_transport)
  if(TARGET ${part})
    list(APPEND lab_parts ${part})
  endif()
endforeach()
heddle_test(lab lab LINK ${lab_parts})
if(TARGET test_lab AND TARGET heddle-agent)
  add_dependencies(test_lab heddle heddle-agent heddle-coordinator)  # the tests of the programs themselves
endif()
