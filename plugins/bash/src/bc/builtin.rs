//! The command `bc` of the shell.

use bashkit::{Builtin, BuiltinContext, ExecResult, Result, async_trait};

use super::{BcOptions, BcSource, STANDARD_INPUT, run_sources};

/// `bc [OPTION]… [FILE]…`: executes the files, then stdin.
pub struct BcBuiltin;

#[async_trait]
impl Builtin for BcBuiltin {
    async fn execute(&self, ctx: BuiltinContext<'_>) -> Result<ExecResult> {
        let options = match BcOptions::parse_args(ctx.args) {
            Ok(options) => options,
            Err(message) => return Ok(ExecResult::err(message, 1)),
        };
        if let Some(text) = options.information {
            return Ok(ExecResult::ok(text.to_owned()));
        }
        let mut sources = options.sources;
        for file in options.files {
            let Ok(bytes) = ctx.fs.read_file(&ctx.cwd.join(&file)).await else {
                return Ok(ExecResult::err(format!("File {file} is unavailable.\n"), 1));
            };
            let text = String::from_utf8_lossy(&bytes).into_owned();
            sources.push(BcSource { name: file, text });
        }
        if let Some(stdin) = ctx.stdin
            && !options.ignores_stdin
        {
            sources.push(BcSource {
                name: STANDARD_INPUT.to_owned(),
                text: stdin.to_string(),
            });
        }
        let line_length = ctx.env.get("BC_LINE_LENGTH").map(String::as_str);
        let output = run_sources(&sources, options.math_library, line_length);
        let mut result = ExecResult::ok(output.stdout);
        result.stderr = output.stderr.into();
        Ok(result)
    }

    fn llm_hint(&self) -> Option<&'static str> {
        Some("bc: Exact decimal calculator. Use 'echo \"scale=2; 1/3\" | bc' for decimals.")
    }
}
