# find_package(flash) gives
#   flash::flash     the library and its headers, for C and C++
#   flash::fortran   the same with the module flash_host, which is compiled with the program
#   flash::mpix      C2MPI, the interface of the HALO paper

get_filename_component(flash_PREFIX "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(flash_PLUGINS "${flash_PREFIX}/lib/flash-backends")
set(flash_FORTRAN_MODULE "${flash_PREFIX}/share/flash/flash_host.f90")

if(NOT TARGET flash::flash)
  add_library(flash::flash SHARED IMPORTED)
  set_target_properties(flash::flash PROPERTIES
    IMPORTED_LOCATION "${flash_PREFIX}/lib/libflash.so"
    IMPORTED_SONAME "libflash.so"
    INTERFACE_INCLUDE_DIRECTORIES "${flash_PREFIX}/include")
  add_library(flash::mpix SHARED IMPORTED)
  set_target_properties(flash::mpix PROPERTIES
    IMPORTED_LOCATION "${flash_PREFIX}/lib/libmpix.so"
    IMPORTED_SONAME "libmpix.so"
    INTERFACE_INCLUDE_DIRECTORIES "${flash_PREFIX}/include")
  add_library(flash::fortran INTERFACE IMPORTED)
  set_target_properties(flash::fortran PROPERTIES
    INTERFACE_LINK_LIBRARIES flash::flash
    INTERFACE_SOURCES "${flash_FORTRAN_MODULE}")
endif()
