//! Reading programs and judging them: what a person would want to be asked about, and every way past that.

#![expect(clippy::unwrap_used, reason = "a test that cannot run has failed")]

mod attacks;
mod evaluated;
mod fuzz;
mod hostile;
mod kit;
mod loops;
mod past_reads;
mod table;
