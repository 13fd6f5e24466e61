//! Tests against registries on loopback: one of its own, with one test for each lie of a registry, and real programs.
//! They contact nothing outside loopback.

#![expect(clippy::unwrap_used, reason = "a test that cannot run has failed")]

mod downloads;
mod kit;
mod lists;
mod logins;
mod manifests;
mod mirrors;
mod programs;
mod pushes;
mod redirects;
mod signatures;
mod sigstore;
