//! Attacks on the console over HTTP.
