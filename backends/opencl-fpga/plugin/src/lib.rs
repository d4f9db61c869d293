//! The OpenCL and FPGA backends of FLASH as a plugin library.
flash_backend::export_plugin!(flash_backend_opencl_fpga);
