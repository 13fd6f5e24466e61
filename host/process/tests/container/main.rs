//! Tests of the sandbox `container` with a real engine, and an image with only busybox. `.ci/containers` starts the
//! engine and builds the image.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot run has failed")]

mod beside;
#[path = "../common/mod.rs"]
mod common;
mod engine;
mod hungry;
mod kit;
mod lingering;
mod ordinary;
mod swapped;
mod walls;
mod warm;
