//! Calls on workers when their server gets SIGTERM.

use std::fs;

use super::{Deployment, eventually, outcome, recorded};
use crate::serve_drain::results_after_sigterm;

#[test]
#[ignore = "needs nats-server"]
fn ending_server_delivers_results_of_calls_on_workers() {
    let mut deployment = Deployment::start();
    let _worker = deployment.worker(&[]);
    let mut serving = deployment.serve_with("", &["--drain-timeout", "60"]);
    let files = deployment.files();
    let results = results_after_sigterm(&serving, &files, || {
        fs::write(files.join("go"), "").unwrap();
    });
    for result in results {
        assert_eq!(result["isError"], false, "{result}");
    }
    assert_eq!(serving.wait().0, Some(0));
    let lines = recorded(&deployment, "exec");
    assert!(
        lines.len() == 2 && lines.iter().all(|line| line["ok"] == true),
        "{lines:#?}"
    );
}

#[test]
#[ignore = "needs nats-server"]
fn ending_server_answers_unfinished_calls_on_workers_with_unavailable() {
    let mut deployment = Deployment::start();
    let _worker = deployment.worker(&[]);
    let mut serving = deployment.serve_with("", &["--drain-timeout", "1"]);
    for result in results_after_sigterm(&serving, &deployment.files(), || {}) {
        assert_eq!(outcome(&result)["code"], "UNAVAILABLE", "{result}");
        assert_eq!(outcome(&result)["details"]["mayHaveRun"], true, "{result}");
    }
    assert_eq!(serving.wait().0, Some(0));
    // The worker stops them after the server has answered.
    eventually("both calls are on record", || {
        recorded(&deployment, "exec").len() == 2
    });
}
