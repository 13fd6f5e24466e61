//! Reading and judging programs: commands that a person wants to be asked about, and attempts to get past that.

#![expect(clippy::unwrap_used, reason = "a test that cannot run has failed")]

mod attacks;
mod evaluated;
mod fuzz;
mod hostile;
mod kit;
mod loops;
mod past_reads;
mod table;
