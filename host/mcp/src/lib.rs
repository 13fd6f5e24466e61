//! The Model Context Protocol: mimir's tools for other people's agents.
//!
//! Never here: a way to a tool that is not [`mimir_core::Pipeline`], or a word on stdout that is not the protocol's.
