# A wheel of what the build tree MOXIE_PREBUILT holds already; nothing is compiled. For tests of the wheel.
add_custom_target(python_package)
install(CODE "
  execute_process(COMMAND \"${CMAKE_COMMAND}\" --install \"${MOXIE_PREBUILT}\" --component python --prefix \"\${CMAKE_INSTALL_PREFIX}\" COMMAND_ERROR_IS_FATAL ANY)
" COMPONENT python)
