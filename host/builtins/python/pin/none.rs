//! Nothing: cargo wants a file, and nobody compiles it. The manifest beside it says why.
