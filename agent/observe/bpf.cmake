# Compiles each kernel program and embeds it, as a skeleton header, in the library that loads it. Only UAPI
# headers are used, so nothing here depends on the kernel of the machine that builds.
find_program(BPF_CLANG NAMES clang clang-14 REQUIRED)
find_program(BPFTOOL NAMES bpftool PATHS /usr/sbin /sbin REQUIRED)

set(bpf_folder ${CMAKE_BINARY_DIR}/generated/bpf)
file(MAKE_DIRECTORY ${bpf_folder})

# Where arguments of functions lie differs from machine to machine; these are libbpf's names for them.
set(bpf_machine ${CMAKE_SYSTEM_PROCESSOR})
if(bpf_machine STREQUAL "x86_64")
  set(bpf_machine x86)
elseif(bpf_machine STREQUAL "aarch64")
  set(bpf_machine arm64)
endif()

# heddle_bpf(NAME): agent/observe/NAME.bpf.c becomes <NAME.skel.h>.
function(heddle_bpf name)
  set(source ${CMAKE_SOURCE_DIR}/agent/observe/${name}.bpf.c)
  set(object ${bpf_folder}/${name}.bpf.o)
  set(skeleton ${bpf_folder}/${name}.skel.h)
  add_custom_command(
    OUTPUT ${object}
    COMMAND ${BPF_CLANG} -O2 -g -Wall -Wextra -Werror -target bpf -D__TARGET_ARCH_${bpf_machine} -MD -MF ${object}.d
            -I${CMAKE_SOURCE_DIR} -I/usr/include/${CMAKE_LIBRARY_ARCHITECTURE} -c ${source} -o ${object}
    DEPENDS ${source} DEPFILE ${object}.d
    COMMENT "Compiling the kernel program ${name}" VERBATIM)
  add_custom_command(
    OUTPUT ${skeleton}
    COMMAND sh -c "${BPFTOOL} gen skeleton ${object} name ${name} > ${skeleton}.part && mv ${skeleton}.part ${skeleton}"
    DEPENDS ${object}
    COMMENT "Embedding the kernel program ${name}" VERBATIM)
  target_sources(heddle_agent_observe PRIVATE ${skeleton})
endfunction()

get_target_property(observe_type heddle_agent_observe TYPE)
if(NOT observe_type STREQUAL "INTERFACE_LIBRARY")
  target_include_directories(heddle_agent_observe SYSTEM PRIVATE ${bpf_folder})
  heddle_bpf(roce_egress)
  heddle_bpf(qp_connect)
endif()
