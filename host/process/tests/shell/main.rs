//! Reading programs and judging them: what a person would want to be asked about, and every way past that.

mod attacks;
mod fuzz;
mod hostile;
mod kit;
mod table;
