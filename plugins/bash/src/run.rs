//! Running of one script, from the start to the exit code.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use bashkit::{
    Bash, ExecOptions, ExecutionLimits, FsLimits, InMemoryFs, MemoryLimits, PosixFs, SessionLimits,
};

use crate::bc::BcBuiltin;
use crate::disk::Disk;
use crate::outside::{self, Execute, Fetch, Guest, Log, Progress, Python, Sleep, Storage, Tool};

/// Path of the workspace in the guest.
pub const WORKSPACE: &str = "/workspace";
const TEMPORARY: &str = "/tmp";

/// Path of the script.
const SCRIPT: &str = "/main.sh";

/// Exit code of bash for a script that it cannot parse. Also used for a script that cannot be started.
const PARSE_ERROR_EXIT_CODE: i32 = 2;

/// Maximum nesting depth of function calls, for which the stack of this component is large enough (`../build.rs`).
const MAX_FUNCTION_DEPTH: usize = 250;

/// Maximum nesting depth of command substitutions and subshells, each of which copies the state of the shell.
const MAX_SUBSHELL_DEPTH: usize = 60;

/// Maximum number of parser operations for a script. The host limits the time, so the parser needs no tight limit.
const MAX_PARSER_OPERATIONS: usize = 10_000_000;

/// Maximum number of bytes of variables, functions and intermediate data. The host limits the memory in total.
const MAX_SHELL_MEMORY: usize = 128 << 20;

struct Engine;

#[expect(
    unsafe_code,
    clippy::undocumented_unsafe_blocks,
    reason = "the component's export, written by a generator"
)]
mod component {
    use super::Engine;
    use crate::outside;
    outside::export!(Engine with_types_in outside::bindings);
}

impl Guest for Engine {
    fn run() -> i32 {
        let script = match std::fs::read_to_string(SCRIPT) {
            Ok(script) => script,
            Err(error) => {
                return report_error(&format!("bash: the script cannot be read: {error}"));
            }
        };
        let stdin = match outside::stdin() {
            Ok(stdin) => stdin,
            Err(error) => return report_error(&format!("bash: stdin cannot be read: {error}")),
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        match runtime {
            Ok(runtime) => runtime.block_on(run(&script, stdin)),
            Err(error) => report_error(&format!("bash: the runtime cannot start: {error}")),
        }
    }
}

fn report_error(message: &str) -> i32 {
    // A failure to write cannot be reported anywhere.
    writeln!(io::stderr(), "{message}").ok();
    PARSE_ERROR_EXIT_CODE
}

async fn run(script: &str, stdin: Vec<u8>) -> i32 {
    let mut bash = Bash::builder()
        .fs(Arc::new(InMemoryFs::with_limits(FsLimits::unlimited())))
        .limits(limits())
        .session_limits(SessionLimits::unlimited())
        .memory_limits(
            MemoryLimits::new()
                .max_variable_count(usize::MAX)
                .max_total_variable_bytes(MAX_SHELL_MEMORY)
                .max_array_entries(usize::MAX),
        )
        .username("user")
        .builtin("bc", Box::new(BcBuiltin))
        .builtin("sleep", Box::new(Sleep))
        .builtin("python3", Box::new(Python))
        .builtin("python", Box::new(Python))
        .builtin("mimir", Box::new(Tool))
        .builtin("mimir-exec", Box::new(Execute))
        .builtin("mimir-fetch", Box::new(Fetch))
        .builtin("mimir-log", Box::new(Log))
        .builtin("mimir-progress", Box::new(Progress))
        .builtin("mimir-storage", Box::new(Storage));
    let mut cwd = WORKSPACE.to_owned();
    for (name, value) in std::env::vars() {
        if name == "PWD" {
            cwd = value;
            continue;
        }
        bash = bash.env(name, value);
    }
    let mut bash = bash.cwd(cwd).build();
    for root in [WORKSPACE, TEMPORARY] {
        if let Err(error) = bash.mount(root, Arc::new(PosixFs::new(Disk::new(root)))) {
            return report_error(&format!("bash: {root} cannot be mounted: {error}"));
        }
    }
    let options = ExecOptions::new()
        .arg0("bash")
        .positional(std::env::args().skip(1))
        .stdin(stdin)
        // Streamed, so that output is not lost if the script is killed.
        .streaming(Box::new(|stdout, stderr| {
            io::stdout().write_all(stdout.as_bytes()).ok();
            io::stdout().flush().ok();
            io::stderr().write_all(stderr.as_bytes()).ok();
        }));
    match bash.exec_with_options(script, options).await {
        Ok(result) => result.exit_code,
        Err(error @ bashkit::Error::Parse { .. }) => report_error(&format!("bash: {error}")),
        Err(error) => {
            report_error(&format!("bash: {error}"));
            1
        }
    }
}

fn limits() -> ExecutionLimits {
    let max_bytes = 1 << 30;
    let mut limits = ExecutionLimits::cli()
        .max_work_units(u64::MAX)
        .max_aggregate_input_bytes(u64::MAX)
        .max_live_intermediate_bytes(MAX_SHELL_MEMORY as u64)
        .max_function_depth(MAX_FUNCTION_DEPTH)
        .max_subst_depth(MAX_SUBSHELL_DEPTH)
        .max_subshell_depth(MAX_SUBSHELL_DEPTH)
        .max_parser_operations(MAX_PARSER_OPERATIONS)
        .parser_timeout(Duration::from_secs(3600))
        .max_input_bytes(max_bytes);
    limits.max_stdout_bytes = max_bytes;
    limits.max_stderr_bytes = max_bytes;
    limits.max_word_split_fields = 10_000_000;
    limits.max_word_split_bytes = MAX_SHELL_MEMORY;
    limits
}
