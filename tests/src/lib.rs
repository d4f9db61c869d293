//! What crosses the crates of FLASH: plugins, conformance, command lines.
