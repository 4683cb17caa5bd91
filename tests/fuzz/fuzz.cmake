# Fuzz targets: libFuzzer with AddressSanitizer and UndefinedBehaviorSanitizer over what comes from outside. In the
# `fuzz` preset only, as they need clang. ctest runs each for ten seconds from a fixed seed; to hunt for longer, run
# the program on a folder of its own:
#   build/fuzz/tests/fuzz_decode -max_total_time=3600 FOLDER tests/common/wire/corpus/v1
if(NOT HEDDLE_FUZZ)
  return()
endif()

# What is fuzzed reports its coverage, so that inputs grow towards what was not reached yet.
foreach(library heddle_core heddle_schema heddle_wire heddle_runtime heddle_import heddle_agent_program
        heddle_agent_netlink heddle_agent_observe)
  target_compile_options(${library} PRIVATE -fsanitize=fuzzer-no-link)
endforeach()

add_custom_target(fuzzers)

# heddle_fuzz(NAME SEEDS ... LINK ...): NAME_fuzz.cpp, begun with the files of the folders SEEDS.
function(heddle_fuzz name)
  cmake_parse_arguments(ARG "" "" "SEEDS;LINK" ${ARGN})
  list(TRANSFORM ARG_SEEDS PREPEND ${CMAKE_SOURCE_DIR}/)
  add_executable(fuzz_${name} ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/${name}_fuzz.cpp)
  target_compile_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  target_link_libraries(fuzz_${name} PRIVATE ${ARG_LINK})
  add_dependencies(fuzzers fuzz_${name})
  # libFuzzer writes the inputs that it keeps to the first folder.
  set(found ${CMAKE_CURRENT_BINARY_DIR}/fuzz_${name}_found)
  file(MAKE_DIRECTORY ${found}/inputs)
  add_test(NAME fuzz_${name}
           COMMAND fuzz_${name} -max_total_time=10 -seed=1 -max_len=4096 -timeout=10 -rss_limit_mb=1024
                   -artifact_prefix=${found}/ ${found}/inputs ${ARG_SEEDS})
  set_tests_properties(fuzz_${name} PROPERTIES LABELS fuzz TIMEOUT 600)
endfunction()

heddle_fuzz(decode SEEDS tests/common/wire/corpus/v1 tests/fuzz/seeds/decode LINK heddle_wire)
heddle_fuzz(config SEEDS tests/fuzz/seeds/config LINK heddle_runtime)
heddle_fuzz(fabric SEEDS tests/fuzz/seeds/fabric LINK heddle_import)
heddle_fuzz(netlink SEEDS tests/fuzz/seeds/netlink LINK heddle_agent_netlink)
heddle_fuzz(psample SEEDS tests/fuzz/seeds/psample LINK heddle_agent_observe)
heddle_fuzz(lldp SEEDS tests/fuzz/seeds/lldp LINK heddle_agent_observe heddle_wire)
heddle_fuzz(rdma SEEDS tests/fuzz/seeds/rdma LINK heddle_agent_observe heddle_wire)
