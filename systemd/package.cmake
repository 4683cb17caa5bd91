# Where everything is installed, and the four Debian packages: `cmake --build ... --target package`.
include(GNUInstallDirs)

# Debian keeps manual pages and changelogs compressed, without a time stamp so that builds repeat.
find_program(GZIP gzip REQUIRED)
set(packaging ${CMAKE_BINARY_DIR}/packaging)
file(MAKE_DIRECTORY ${packaging})
set(compressed)
function(heddle_compress source name)
  add_custom_command(OUTPUT ${packaging}/${name}.gz
    COMMAND ${GZIP} -9nc ${source} > ${packaging}/${name}.gz DEPENDS ${source} VERBATIM)
  set(compressed ${compressed} ${packaging}/${name}.gz PARENT_SCOPE)
endfunction()

function(heddle_manual component section source)
  get_filename_component(name ${source} NAME)
  heddle_compress(${CMAKE_SOURCE_DIR}/${source} ${name})
  set(compressed ${compressed} PARENT_SCOPE)
  install(FILES ${packaging}/${name}.gz DESTINATION share/man/man${section} COMPONENT ${component})
endfunction()

# Every package carries the licence and what changed.
string(TIMESTAMP package_date "%a, %d %b %Y 12:00:00 +0000" UTC)
configure_file(systemd/debian/changelog.in ${packaging}/debian-changelog @ONLY)
heddle_compress(${packaging}/debian-changelog changelog.Debian)
foreach(package heddle-agent heddle-coordinator heddle heddle-doc)
  install(FILES ${packaging}/changelog.Debian.gz DESTINATION share/doc/${package} COMPONENT ${package})
  install(FILES systemd/debian/copyright DESTINATION share/doc/${package} COMPONENT ${package})
endforeach()

foreach(package heddle-agent heddle-coordinator heddle heddle-doc)
  install(FILES systemd/debian/${package}.lintian-overrides DESTINATION share/lintian/overrides RENAME ${package}
          COMPONENT ${package})
endforeach()

# heddle-agent ---------------------------------------------------------------------------------------
install(TARGETS heddle-agent DESTINATION bin COMPONENT heddle-agent)
install(FILES systemd/heddle-agent.service systemd/heddle-agent-guard.service systemd/heddle-agent-guard.timer
              systemd/heddle-agent-lldp.service systemd/heddle-agent-lldp.timer
        DESTINATION lib/systemd/system COMPONENT heddle-agent)
install(FILES systemd/heddle-agent.tmpfiles DESTINATION lib/tmpfiles.d RENAME heddle-agent.conf COMPONENT heddle-agent)
install(FILES systemd/heddle-networkd.conf DESTINATION lib/systemd/networkd.conf.d RENAME 50-heddle.conf
        COMPONENT heddle-agent)
install(FILES systemd/agent.yaml.example DESTINATION /etc/heddle RENAME agent.yaml COMPONENT heddle-agent)
heddle_manual(heddle-agent 8 agent/heddle-agent.8)

# heddle-coordinator ---------------------------------------------------------------------------------
install(TARGETS heddle-coordinator DESTINATION bin COMPONENT heddle-coordinator)
install(FILES systemd/heddle-coordinator.service DESTINATION lib/systemd/system COMPONENT heddle-coordinator)
install(FILES systemd/heddle-coordinator.sysusers DESTINATION lib/sysusers.d RENAME heddle-coordinator.conf
        COMPONENT heddle-coordinator)
install(FILES systemd/heddle-coordinator.tmpfiles DESTINATION lib/tmpfiles.d RENAME heddle-coordinator.conf
        COMPONENT heddle-coordinator)
install(FILES systemd/coordinator.yaml.example DESTINATION /etc/heddle RENAME coordinator.yaml
        COMPONENT heddle-coordinator)
heddle_manual(heddle-coordinator 8 coordinator/heddle-coordinator.8)

# heddle, the command line ---------------------------------------------------------------------------
install(TARGETS heddle DESTINATION bin COMPONENT heddle)
install(FILES coordinator/cli/heddle.bash DESTINATION share/bash-completion/completions RENAME heddle
        COMPONENT heddle)
install(FILES coordinator/cli/_heddle DESTINATION share/zsh/vendor-completions COMPONENT heddle)
heddle_manual(heddle 1 coordinator/cli/heddle.1)
heddle_manual(heddle-doc 5 common/runtime/heddle-config.5)

# heddle-doc -----------------------------------------------------------------------------------------
install(FILES README.md DESTINATION share/doc/heddle-doc COMPONENT heddle-doc)
heddle_compress(${CMAKE_SOURCE_DIR}/CHANGELOG.md changelog)
install(FILES ${packaging}/changelog.gz DESTINATION share/doc/heddle-doc COMPONENT heddle-doc)
install(FILES systemd/guide.md DESTINATION share/doc/heddle-doc COMPONENT heddle-doc)
install(FILES systemd/fabric.yaml.example systemd/agent.yaml.example systemd/coordinator.yaml.example
        DESTINATION share/doc/heddle-doc/examples COMPONENT heddle-doc)

add_custom_target(heddle_compressed ALL DEPENDS ${compressed})

# CPack ----------------------------------------------------------------------------------------------
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME heddle)
set(CPACK_PACKAGE_VERSION ${HEDDLE_PACKAGE_VERSION})
set(CPACK_PACKAGE_CONTACT "heddle maintainers <maintainers@heddle.example>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_OUTPUT_FILE_PREFIX packages)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_COMPONENTS_ALL heddle-agent heddle-coordinator heddle heddle-doc)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

function(heddle_package component summary description)
  cmake_parse_arguments(ARG "" "ARCHITECTURE" "EXTRA" ${ARGN})
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${component} PARENT_SCOPE)
  set(CPACK_COMPONENT_${upper}_DESCRIPTION "${summary}\n${description}" PARENT_SCOPE)
  if(ARG_ARCHITECTURE)
    set(CPACK_DEBIAN_${upper}_PACKAGE_ARCHITECTURE ${ARG_ARCHITECTURE} PARENT_SCOPE)
    set(CPACK_DEBIAN_${upper}_PACKAGE_SHLIBDEPS OFF PARENT_SCOPE)
    set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION doc PARENT_SCOPE)
  else()
    set(CPACK_DEBIAN_${upper}_PACKAGE_SHLIBDEPS ON PARENT_SCOPE)
  endif()
  set(CPACK_DEBIAN_${upper}_PACKAGE_CONTROL_EXTRA "${ARG_EXTRA}" PARENT_SCOPE)
endfunction()

# heddle-config(5) describes both daemons' files.
set(CPACK_DEBIAN_HEDDLE-AGENT_PACKAGE_RECOMMENDS heddle-doc)
set(CPACK_DEBIAN_HEDDLE-COORDINATOR_PACKAGE_RECOMMENDS heddle-doc)

set(debian ${CMAKE_SOURCE_DIR}/systemd/debian)
foreach(daemon agent coordinator)
  file(WRITE ${packaging}/${daemon}/conffiles "/etc/heddle/${daemon}.yaml\n")
  foreach(script postinst prerm postrm)
    configure_file(${debian}/heddle-${daemon}.${script} ${packaging}/${daemon}/${script}
                   FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ
                   WORLD_EXECUTE COPYONLY)
    list(APPEND ${daemon}_extra ${packaging}/${daemon}/${script})
  endforeach()
  list(APPEND ${daemon}_extra ${packaging}/${daemon}/conffiles)
endforeach()

set(what "heddle decides which way each flow of a training job takes through a
leaf-spine network.")
heddle_package(heddle-agent "routes machine-learning traffic: agent for hosts and leaf switches"
"${what} This agent observes RoCE flows on a host or a
leaf switch and, where it is told to, programs the routes that the
coordinator planned. As installed it observes only. When it or the
coordinator is gone, traffic is on the network's own ECMP routes."
  EXTRA ${agent_extra})
heddle_package(heddle-coordinator "routes machine-learning traffic: coordinator"
"${what} This coordinator takes the agents' reports,
keeps their history, computes better routes and hands every agent its
part."
  EXTRA ${coordinator_extra})
heddle_package(heddle "routes machine-learning traffic: command line"
"${what} This is the command that shows its agents,
flows, jobs, links and plans, turns it on and off, and makes its keys.")
heddle_package(heddle-doc "routes machine-learning traffic: guides"
"${what} This package holds the guides for operators,
and an example of a fabric file." ARCHITECTURE all)
include(CPack)
