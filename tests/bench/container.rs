//! A command in a container from the pool, compared with one that waits for its container to be created.
//!
//! `.ci/containers cargo bench --workspace --bench speed -- container` starts an engine for it.

use std::time::{Duration, Instant};

use mimir_core::command::CommandProgram;
use mimir_core::config::SandboxSettings;
use mimir_process::run::run;
use mimir_process::sandbox::{CommandSpec, ContainerSandbox, Sandbox};
use tokio::runtime::Runtime;

use crate::measure::{Budget, Pace, Report, Row, time};

const NAME: &str = "a command in a container that waits";

/// Image created by `.ci/containers`.
const IMAGE: &str = "mimir-test/busybox";

/// Longer than it takes to create the pooled container.
const MADE: Duration = Duration::from_secs(2);

pub fn bench(report: &mut Report) {
    let sandbox = || {
        ContainerSandbox::new(&SandboxSettings {
            image: Some(IMAGE.to_owned()),
            ..SandboxSettings::default()
        })
    };
    let warm = sandbox();
    if let Err(fault) = warm.available() {
        return report.skip(NAME, &fault.to_string());
    }
    let runtime = Runtime::new().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let program = CommandProgram::Vector(vec!["true".to_owned()]);
    let spec = CommandSpec::new(program, folder.path().canonicalize().unwrap());
    let once = |sandbox: &ContainerSandbox| {
        let begun = Instant::now();
        let finished = runtime.block_on(run(sandbox, &spec, &mut |_, _| {}));
        assert_eq!(finished.unwrap().exit_code, 0);
        begun.elapsed()
    };
    for _ in 0..2 {
        once(&warm);
    }
    let pace = Pace {
        turn: 1,
        samples: 10,
        time: Duration::from_secs(1),
    };
    let pair = report.pair(
        "container",
        pace,
        |times| {
            let run = |_| {
                std::thread::sleep(MADE);
                once(&warm)
            };
            (0..times).map(run).sum()
        },
        |times| {
            let run = |_| {
                let cold = sandbox();
                // Finding the engine is not measured.
                cold.available().unwrap();
                once(&cold)
            };
            (0..times).map(run).sum()
        },
    );
    report.row(Row {
        name: NAME.to_owned(),
        ours: time(pair.ours),
        reference: format!("{}, one made for it", time(pair.reference)),
        ratio: pair.ratio(),
        budget: Budget::AtMost(0.5),
    });
}
