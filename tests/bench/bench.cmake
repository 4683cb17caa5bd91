# Measurements (Google Benchmark, `heddle-bench`), and the comparison of our max-min rates with SimGrid's.
file(GLOB bench_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/bench/*_bench.cpp)
add_executable(heddle-bench ${bench_sources})
target_link_libraries(heddle-bench PRIVATE heddle_core heddle_agent_observe benchmark::benchmark_main)

pkg_check_modules(SIMGRID IMPORTED_TARGET simgrid)
if(SIMGRID_FOUND)
  add_executable(test_simgrid ${CMAKE_CURRENT_SOURCE_DIR}/bench/simgrid_test.cpp)
  target_link_libraries(test_simgrid PRIVATE heddle_core PkgConfig::SIMGRID GTest::gtest)
  gtest_discover_tests(test_simgrid DISCOVERY_TIMEOUT 60 PROPERTIES LABELS unit TIMEOUT 300)
else()
  message(STATUS "libsimgrid-dev is missing: max-min rates are not compared with SimGrid's")
endif()

add_executable(heddle-hard-cases ${CMAKE_CURRENT_SOURCE_DIR}/bench/hard_cases_main.cpp)
target_link_libraries(heddle-hard-cases PRIVATE heddle_core)

# What an agent costs; tests/bench/agent_cost runs it.
if(TARGET heddle-agent AND TARGET heddle_lab)
  add_executable(heddle-agent-cost ${CMAKE_CURRENT_SOURCE_DIR}/bench/agent_cost_main.cpp)
  target_link_libraries(heddle-agent-cost PRIVATE heddle_lab heddle_agent_observe heddle_wire heddle_transport
                                                  heddle_runtime ${CMAKE_DL_LIBS})
  add_dependencies(heddle-agent-cost heddle-agent)
endif()

# What the coordinator takes from the last report to the plans.
add_executable(heddle-coordinator-cost ${CMAKE_CURRENT_SOURCE_DIR}/bench/coordinator_cost_main.cpp)
target_link_libraries(heddle-coordinator-cost PRIVATE heddle_coordinator)

add_executable(heddle-growth ${CMAKE_CURRENT_SOURCE_DIR}/bench/growth_main.cpp)
target_link_libraries(heddle-growth PRIVATE heddle_core)

# What the history costs on disk.
add_executable(heddle-history-size ${CMAKE_CURRENT_SOURCE_DIR}/bench/history_size_main.cpp)
target_link_libraries(heddle-history-size PRIVATE heddle_history fmt::fmt)

# What a look at 10,000 queue pairs takes, from RDMA netlink to the report.
add_executable(heddle-rdma-cost ${CMAKE_CURRENT_SOURCE_DIR}/bench/rdma_cost_main.cpp)
target_link_libraries(heddle-rdma-cost PRIVATE heddle_agent_observe heddle_wire)

# What programming costs: changes, a plan of 10,000 flows, a check of everything, forwarding past pins.
if(TARGET heddle_agent_program AND TARGET heddle_lab)
  add_executable(heddle-program-cost ${CMAKE_CURRENT_SOURCE_DIR}/bench/program_cost_main.cpp)
  target_link_libraries(heddle-program-cost PRIVATE heddle_lab heddle_agent_netlink heddle_agent_program
                                                     heddle_runtime GTest::gtest)
endif()
