//! CUDA C++ compiled at run time.
