//! Tests of what users of the crate do not see: the mailbox against a model, and memory that another process
//! has spoilt.

mod mailbox;
mod malice;
