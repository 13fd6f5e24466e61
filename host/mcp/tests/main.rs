//! Tests of the server over an in-memory pipe, with a pipeline whose tools are defined by the test.
#![expect(
    clippy::unwrap_used,
    reason = "a test that goes wrong ends where it goes wrong"
)]

mod approvals;
mod calls;
mod clients;
mod discovery;
mod faults;
mod identity;
mod kept_tasks;
mod kit;
mod lists;
mod logins;
mod marks;
mod modern;
mod replicas;
mod results;
mod skills;
mod tasks;
mod upstream;
mod web;
