//! Taking back what a file tool changed.
