//! Unit tests in Go: one program for each package with tests, run in the folder of the package.

use std::path::PathBuf;

use mimir_core::ToolError;

use super::{TestPlan, has_file, test_folder};
use crate::commands::toolchains::path_text;
use crate::commands::tools_build::{
    BuildContext, BuildStep, GoEnvironment, GoTarget, PluginFolder,
};

/// Template for `go list`: the folders of packages with tests.
const TESTED_FOLDERS: &str = "{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}";

/// Plans to compile the tests of each package, and to run them as `go test` does.
pub async fn plan(cx: &BuildContext<'_>, folder: &PluginFolder) -> Result<TestPlan, ToolError> {
    if !has_file(folder, |name| name.ends_with("_test.go"))? {
        return Ok(TestPlan::default());
    }
    let go = GoEnvironment::find(cx, folder)?;
    let tests = test_folder(folder)?;
    let list = go.step(GoTarget::Native, &["list", "-f", TESTED_FOLDERS, "./..."]);
    let folders = cx.run(folder, &list).await?;
    let mut plan = TestPlan::default();
    for (index, package) in folders.iter().filter(|line| !line.is_empty()).enumerate() {
        let program = path_text(&tests.join(format!("package{index}.test")));
        // The checks of `go vet` would compile it first.
        let args = ["test", "-c", "-vet=off", "-o", &program, package];
        plan.compile.push(BuildStep {
            compiler: "go test",
            writable: vec![tests.clone()],
            ..go.step(GoTarget::Native, &args)
        });
        // The flags that `go test` passes.
        let flags = ["-test.paniconexit0", "-test.timeout=10m0s"].map(str::to_owned);
        plan.run.push(BuildStep {
            compiler: "go test",
            args: [program].into_iter().chain(flags).collect(),
            directory: Some(PathBuf::from(package)),
            ..BuildStep::default()
        });
    }
    Ok(plan)
}
