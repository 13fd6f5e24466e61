//! The command line program `mimir`: parses the arguments, runs a command and prints its result.

use std::io;
use std::process::ExitCode;
use std::time::Duration;

mod agent;
mod args;
mod arguments;
mod call_screen;
mod commands;
mod console;
mod exit;
mod log_output;
mod output;
mod restart;
mod sdk;
mod serve;
mod terminal;
mod tool_browser;
mod tools;
mod version;

use args::{CliArgs, CliCommand, CliParseError};
use exit::{CommandFailure, CommandResult, ExitReason};
use output::ResultPrinter;

/// mimalloc, because memory is often allocated on one thread and freed on another. The system's allocator would make
/// both threads wait.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Maximum time to send the last steps of calls to open consoles at the end of the process.
const LIVE_CALLS_TIMEOUT: Duration = Duration::from_millis(200);

/// Maximum time to send telemetry at the end of the process.
const TELEMETRY_TIMEOUT: Duration = Duration::from_secs(2);

/// Number of tasks that a thread runs before it looks for network events. A call that computes yields each millisecond,
/// so the messages of other calls wait for at most this many milliseconds.
const POLLS_BEFORE_IO: u32 = 8;

fn main() -> ExitCode {
    if let Some(exit) = mimir_wasm::run_if_child() {
        return exit;
    }
    let args = match CliArgs::parse_line(std::env::args_os()) {
        Ok(args) => args,
        Err(CliParseError::Clap(error)) => {
            let code = u8::try_from(error.exit_code()).unwrap_or(ExitReason::Usage.number());
            return match error.print() {
                // The requested text, such as the help, could not be printed in full.
                Err(failure) if code == ExitReason::Done.number() => {
                    let failure = CommandFailure::Print(failure);
                    finish(ResultPrinter::new(false), Err(failure)).into()
                }
                _ => ExitCode::from(code),
            };
        }
        Err(CliParseError::Usage { json, failure }) => {
            return finish(ResultPrinter::new(json), Err(*failure)).into();
        }
    };
    log_output::set_up_logging(args.log_format());
    mimir::interface::install(output::TerminalInterface);
    if let Some(named) = &args.globals.workspace {
        output::workspace_option::set_named_workspace(named);
    }
    let printer = args.globals.printer();
    let result = match run(args) {
        Ok(ExitReason::Restart) => {
            output::stderr_queue::flush();
            Err(restart::restart())
        }
        result => result,
    };
    let exit = finish(printer, result);
    output::stderr_queue::flush();
    exit.into()
}

fn run(args: CliArgs) -> CommandResult {
    let command = process_name(args.command.as_ref());
    mimir::live_calls::set_process_name(command);
    terminal::set_command_name(command);
    let mut builder = match args.command {
        Some(
            CliCommand::Serve(_)
            | CliCommand::Console(_)
            | CliCommand::Worker(_)
            | CliCommand::Run(_)
            | CliCommand::Chat(_),
        ) => {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            builder.event_interval(POLLS_BEFORE_IO);
            builder
        }
        // A single call gains nothing from more threads, and starting them takes time.
        _ => tokio::runtime::Builder::new_current_thread(),
    };
    let runtime = builder.enable_all().build()?;
    let result = runtime.block_on(commands::run(args));
    mimir::telemetry::flush(TELEMETRY_TIMEOUT);
    mimir::live_calls::flush(LIVE_CALLS_TIMEOUT);
    // Stop MCP servers and all their child processes before this process exits.
    runtime.block_on(mimir_mcp::client::stop_server_programs());
    // Do not wait for a running compilation or an unanswered question.
    runtime.shutdown_background();
    // Background commands are killed now, and their workspaces are searched once more for files that must not stay.
    mimir_process::wait_for_last_searches();
    result
}

/// Returns the name of this process for consoles.
fn process_name(command: Option<&CliCommand>) -> &'static str {
    match command {
        Some(CliCommand::Serve(_)) => "serve",
        Some(CliCommand::Worker(_)) => "worker",
        Some(CliCommand::Run(_)) => "run",
        Some(CliCommand::Chat(_)) => "chat",
        Some(CliCommand::Call(_)) => "call",
        _ => "command",
    }
}

/// Prints the error of a failed command. Returns the reason for the exit code.
fn finish(printer: ResultPrinter, result: CommandResult) -> ExitReason {
    match result {
        Ok(exit) => exit,
        Err(CommandFailure::Reported { error, exit }) => match printer.print_failure(&error) {
            Ok(()) => exit,
            Err(failure) => finish(ResultPrinter::new(false), Err(failure)),
        },
        // The reader has closed the pipe on purpose, as `head` does.
        Err(CommandFailure::Print(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitReason::Done
        }
        Err(CommandFailure::Print(error)) => {
            output::note(format_args!("error: {error}"));
            ExitReason::Failed
        }
    }
}
