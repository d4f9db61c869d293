//! FLASH: one host program, every accelerator of the machine.
