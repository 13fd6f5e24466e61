//! The guests are in `examples/`; this library is empty.
