//! Tests of parsing commands and deciding about them: commands that need approval, and attempts to bypass it.

#![expect(clippy::unwrap_used, reason = "a test that cannot run has failed")]

mod always;
mod attacks;
mod evaluated;
mod fuzz;
mod hostile;
mod kit;
mod loops;
mod outside_reads;
mod table;
