//! Limits that end the script with a message, at values that the memory allows.
//!
//! As published, `yes` ends after 10,000 lines, `seq` after 100,000, a device after a megabyte and `{1..100000}` is
//! not expanded, and a command that counts the lines of a pipeline succeeds with a wrong number. See
//! `../../bash/bound.rs`.

use super::SourceEdit;

const LIMITS: &str = "src/builtins/limits.rs";
const EXPANSION: &str = "src/interpreter/expansion.rs";
const BRACES: &str = "src/interpreter/brace_expansion.rs";

pub const EDITS: &[SourceEdit] = &[
    (
        "src/limits.rs",
        "    #[error(\"memory limit exceeded: {0}\")]\n",
        1,
        "    #[error(\"{0}\")]\n    Bound(String),\n\n    #[error(\"memory limit exceeded: {0}\")]\n",
    ),
    (
        "src/limits.rs",
        "        if let Some(err) = self.failure() {\n            return Err(err);",
        1,
        "        crate::bound::check()?;\n        if let Some(err) = self.failure() {\n            return Err(err);",
    ),
    (
        "src/lib.rs",
        "let mut result = self.exec_impl(script, invocation).await;",
        1,
        "let mut result = crate::bound::checked(self.exec_impl(script, invocation).await);",
    ),
    (
        LIMITS,
        "    let mut result = crate::interpreter::ExecResult::err(",
        1,
        "    crate::bound::hit(&format!(\"{cmd}: more than {limit} of {what}, the limit for one command; write less, or in parts\"));
    let mut result = crate::interpreter::ExecResult::err(",
    ),
    // Endless output, for a reader that stops.
    (
        "src/builtins/yes.rs",
        "            let lines = output.lines().count();
            for chunk in output.as_bytes().chunks(STREAM_CHUNK_BYTES) {
                ctx.consume_budget_work(1)?;
                if !stream.write(chunk).await? {
                    return Ok(ExecResult::with_code(\"\", 141));
                }
            }
            return Ok(super::limits::cap_exceeded(
                \"yes\",
                String::new(),
                \"output\",
                format!(\"{lines} lines\"),
            ));",
        1,
        "            loop {
                for chunk in output.as_bytes().chunks(STREAM_CHUNK_BYTES) {
                    ctx.consume_budget_work(1)?;
                    if !stream.write(chunk).await? {
                        return Ok(ExecResult::with_code(\"\", 141));
                    }
                }
            }",
    ),
    (LIMITS, "SEQ_MAX_LINES: usize = 100_000;", 1, "SEQ_MAX_LINES: usize = usize::MAX;"),
    (LIMITS, "SEQ_MAX_OUTPUT_BYTES: usize = 1_048_576;", 1, "SEQ_MAX_OUTPUT_BYTES: usize = crate::bound::BYTES;"),
    (
        "src/builtins/seq.rs",
        "            if flushed + output.len() > SEQ_MAX_OUTPUT_BYTES {",
        1,
        "            if stream.is_none() && flushed + output.len() > SEQ_MAX_OUTPUT_BYTES {",
    ),
    (LIMITS, "EXPAND_MAX_OUTPUT_BYTES: usize = 1_048_576;", 1, "EXPAND_MAX_OUTPUT_BYTES: usize = crate::bound::BYTES;"),
    (LIMITS, "NUMFMT_MAX_OUTPUT_BYTES: usize = 1_048_576;", 1, "NUMFMT_MAX_OUTPUT_BYTES: usize = crate::bound::BYTES;"),
    (LIMITS, "FIND_MAX_OUTPUT_BYTES: usize = 1_048_576;", 1, "FIND_MAX_OUTPUT_BYTES: usize = crate::bound::BYTES;"),
    (
        "src/builtins/find/mod.rs",
        "if self.own_bytes + text.len() > self.output_cap {",
        2,
        "if self.own_bytes + text.len() > self.output_cap
                        && crate::bound::hit(\"find: more output than 64 MiB; search fewer folders\")
                    {",
    ),
    (LIMITS, "AWK_MAX_OUTPUT_BYTES: usize = 10_000_000;", 1, "AWK_MAX_OUTPUT_BYTES: usize = crate::bound::BYTES;"),
    (LIMITS, "AWK_MAX_GETLINE_FILE_BYTES: usize = 10_000_000;", 1, "AWK_MAX_GETLINE_FILE_BYTES: usize = crate::bound::BYTES;"),
    (LIMITS, "AWK_MAX_GETLINE_CACHE_BYTES: usize = 10_000_000;", 1, "AWK_MAX_GETLINE_CACHE_BYTES: usize = crate::bound::BYTES;"),
    (LIMITS, "SED_MAX_CYCLE_STEPS: usize = 1_000;", 1, "SED_MAX_CYCLE_STEPS: usize = 1_000_000_000;"),
    (
        "src/builtins/sed/exec.rs",
        "        self.stderr.push_str(&format!(
            \"sed: warning: branch/label loop limit",
        1,
        "        crate::bound::hit(\"sed: the script loops without reading a line\");
        self.stderr.push_str(&format!(
            \"sed: warning: branch/label loop limit",
    ),
    (
        "src/builtins/rg/mod.rs",
        "const RG_MAX_REPLACEMENT_OUTPUT_BYTES: usize = 1_048_576;",
        1,
        "const RG_MAX_REPLACEMENT_OUTPUT_BYTES: usize = crate::bound::BYTES;",
    ),
    (
        "src/builtins/rg/mod.rs",
        "        include_unmatched_text,
    ) > RG_MAX_REPLACEMENT_OUTPUT_BYTES
",
        1,
        "        include_unmatched_text,
    ) > RG_MAX_REPLACEMENT_OUTPUT_BYTES
        && crate::bound::hit(\"rg: a line grows beyond 64 MiB by the replacement of its matches\")
",
    ),
    (
        "src/builtins/dd.rs",
        "                        capped = want.is_none_or(|w| w > DD_MAX_BYTES);",
        1,
        "                        capped = want.is_none_or(|w| w > DD_MAX_BYTES);
                        if want.is_none() {
                            crate::bound::note_device(std::path::Path::new(path));
                        }",
    ),
    (
        "src/builtins/dd.rs",
        "        if capped {
            err.push_str(&format!(",
        1,
        "        if capped {
            if want.is_some() {
                crate::bound::hit(\"dd: more than 64 MiB, the limit for one copy; copy in parts\");
            }
            err.push_str(&format!(",
    ),
    // Endless devices.
    (
        "src/fs/memory.rs",
        "DEV_ZERO_READ_BYTES: usize = 1 << 20;",
        1,
        "DEV_ZERO_READ_BYTES: usize = crate::bound::DEVICE;",
    ),
    (
        "src/fs/memory.rs",
        "DEV_RANDOM_READ_BYTES: usize = 8192;",
        1,
        "DEV_RANDOM_READ_BYTES: usize = crate::bound::DEVICE;",
    ),
    (
        "src/interpreter/redirection.rs",
        "        let device = match source.to_str() {",
        1,
        "        crate::bound::note_device(&source);\n        let device = match source.to_str() {",
    ),
    (
        "src/interpreter/redirection.rs",
        "            Some(\"/dev/random\" | \"/dev/urandom\") => 8192,",
        1,
        "            Some(\"/dev/random\" | \"/dev/urandom\") => crate::bound::DEVICE,",
    ),
    (
        "src/interpreter/redirection.rs",
        "        let budget = &self.execution_budget;
        let mut text = crate::limits::BudgetedString::try_from_string(content, Some(budget))?;",
        1,
        "        crate::bound::forget_device();
        let budget = &self.execution_budget;
        let mut text = crate::limits::BudgetedString::try_from_string(content, Some(budget))?;",
    ),
    (
        "src/interpreter/mod.rs",
        "                Command::Pipeline(pipeline) => self.execute_pipeline(pipeline).await,",
        1,
        "                Command::Pipeline(pipeline) => {
                    crate::bound::forget_device();
                    let several = pipeline.commands.len() > 1;
                    if several {
                        crate::bound::count_pipeline(true);
                    }
                    let result = self.execute_pipeline(pipeline).await;
                    if several {
                        crate::bound::count_pipeline(false);
                    }
                    match pipeline.commands.last() {
                        Some(Command::Simple(last)) => crate::bound::ended(&last.name.to_string()).and(result),
                        _ => result,
                    }
                }",
    ),
    (
        "src/interpreter/mod.rs",
        "                    let result = self.execute_simple_command(simple, None).await;
                    if let Ok(r) = &result {",
        1,
        "                    let result = self.execute_simple_command(simple, None).await;
                    let result = crate::bound::ended(&simple.name.to_string()).and(result);
                    if let Ok(r) = &result {",
    ),
    (
        "src/interpreter/mod.rs",
        "            let result = AssertUnwindSafe(builtin.execute(ctx)).catch_unwind().await;

            let mut result = match result {",
        1,
        "            let result = AssertUnwindSafe(builtin.execute(ctx)).catch_unwind().await;
            crate::bound::finished(name, args)?;

            let mut result = match result {",
    ),
    (
        "src/fs/memory.rs",
        "            return Self::generate_random_bytes();",
        1,
        "            crate::bound::device_read();
            return Self::generate_random_bytes();",
    ),
    (
        "src/fs/memory.rs",
        "            return Ok(vec![0; DEV_ZERO_READ_BYTES]);",
        1,
        "            crate::bound::device_read();
            return Ok(vec![0; DEV_ZERO_READ_BYTES]);",
    ),
    (
        "src/builtins/headtail.rs",
        "            match ctx.fs.read_file(&path).await {",
        1,
        "            let device = match (opts.selection, opts.unit) {
                (Selection::First(bytes), Unit::Bytes) => crate::bound::device(cmd, &path, bytes)?,
                _ => None,
            };
            let read = match device {
                Some(bytes) => Ok(bytes),
                None => ctx.fs.read_file(&path).await,
            };
            match read {",
    ),
    (
        "src/builtins/headtail.rs",
        "        out.extend_from_slice(select(&data, opts.selection, opts.unit));",
        1,
        "        let selected = select(&data, opts.selection, opts.unit);
        if let Selection::First(wanted) = opts.selection {
            let there = match opts.unit {
                Unit::Bytes => selected.len(),
                Unit::Lines => selected.iter().filter(|byte| **byte == b'\\n').count(),
            };
            crate::bound::satisfied(cmd, there >= wanted)?;
        }
        out.extend_from_slice(selected);",
    ),
    // Braces.
    (
        BRACES,
        "const MAX_BRACE_EXPANSION_TOTAL: usize = 100_000;",
        1,
        "const MAX_BRACE_EXPANSION_TOTAL: usize = 10_000_000;",
    ),
    (
        BRACES,
        "const MAX_BRACE_RANGE: u64 = 10_000;",
        1,
        "const MAX_BRACE_RANGE: u64 = 10_000_000;",
    ),
    (
        "src/parser/budget.rs",
        "const MAX_STATIC_BRACE_RANGE: u64 = 100_000;",
        1,
        "const MAX_STATIC_BRACE_RANGE: u64 = 10_000_000;",
    ),
    (
        BRACES,
        "        if *count >= max
            || *bytes >= Self::MAX_EXPANSION_RESULT_BYTES
            || recursion_depth >= MAX_BRACE_EXPANSION_DEPTH
        {",
        1,
        "        if (*count >= max
            || *bytes >= Self::MAX_EXPANSION_RESULT_BYTES
            || recursion_depth >= MAX_BRACE_EXPANSION_DEPTH)
            && (!s.contains('{') || crate::bound::hit(TOO_MANY_WORDS))
        {",
    ),
    (
        BRACES,
        "                if *count >= max || *bytes >= Self::MAX_EXPANSION_RESULT_BYTES {",
        1,
        "                if (*count >= max || *bytes >= Self::MAX_EXPANSION_RESULT_BYTES)
                    && crate::bound::hit(TOO_MANY_WORDS)
                {",
    ),
    (
        BRACES,
        "            if *count >= max || *bytes >= Self::MAX_EXPANSION_RESULT_BYTES {
                break;",
        1,
        "            if (*count >= max || *bytes >= Self::MAX_EXPANSION_RESULT_BYTES)
                && crate::bound::hit(TOO_MANY_WORDS)
            {
                break;",
    ),
    (
        BRACES,
        "            if range_size > MAX_BRACE_RANGE as u128 {",
        1,
        "            if range_size > MAX_BRACE_RANGE as u128 && crate::bound::hit(TOO_MANY_WORDS) {",
    ),
    (
        BRACES,
        "/// Opaque word part `i` is carried as",
        1,
        "/// The message for more words, or deeper braces, than fit into the memory of a script.
const TOO_MANY_WORDS: &str = \"braces make more words than fit here (10,000,000 words, 64 MiB, 100 pairs of braces in one word); \\
    use a loop: for ((i = 1; i <= n; i++))\";

/// Opaque word part `i` is carried as",
    ),
    // Texts.
    (
        EXPANSION,
        "MAX_EXPANSION_RESULT_BYTES: usize = 10 * 1024 * 1024;",
        1,
        "MAX_EXPANSION_RESULT_BYTES: usize = crate::bound::BYTES;",
    ),
    (
        EXPANSION,
        " > Self::MAX_EXPANSION_RESULT_BYTES {",
        7,
        " > Self::MAX_EXPANSION_RESULT_BYTES
            && crate::bound::hit(\"an expansion is longer than 64 MiB; use sed or awk on a file\")
        {",
    ),
    (
        EXPANSION,
        "const MAX_GLOB_MATCH_CALLS: usize = 10_000;",
        2,
        "const MAX_GLOB_MATCH_CALLS: usize = 100_000_000;",
    ),
    (
        EXPANSION,
        "if calls > MAX_GLOB_MATCH_CALLS {",
        3,
        "if calls > MAX_GLOB_MATCH_CALLS && crate::bound::hit(\"a pattern takes too many attempts; use sed\") {",
    ),
    (
        "src/interpreter/mod.rs",
        "const MAX_GLOB_STEPS: usize = 100_000;",
        1,
        "const MAX_GLOB_STEPS: usize = 1_000_000_000;",
    ),
    (
        EXPANSION,
        "if steps.get() == 0 {",
        1,
        "if steps.get() == 0 && crate::bound::hit(\"a pattern takes too many attempts; use sed\") {",
    ),
    (
        "src/interpreter/glob.rs",
        "if steps.get() == 0 {",
        1,
        "if steps.get() == 0 && crate::bound::hit(\"a pattern takes too many attempts; use sed\") {",
    ),
    (
        "src/interpreter/mod.rs",
        "const MAX_GLOB_DEPTH: usize = 50;",
        1,
        "const MAX_GLOB_DEPTH: usize = 500;",
    ),
    (
        "src/interpreter/glob.rs",
        "if depth >= Self::MAX_GLOB_DEPTH {",
        2,
        "if depth >= Self::MAX_GLOB_DEPTH
            && crate::bound::hit(\"a pattern is nested too deep for this shell; use sed or grep -E\")
        {",
    ),
    // Functions.
    (
        "src/limits.rs",
        "const HARD_MAX_FUNCTION_DEPTH: usize = 16;",
        1,
        "const HARD_MAX_FUNCTION_DEPTH: usize = 4096;",
    ),
    (
        "src/limits.rs",
        "    #[error(\"maximum function depth exceeded ({0})\")]",
        1,
        "    #[error(\"functions are nested more than {0} deep, the limit of this shell's stack; use a loop\")]",
    ),
    (
        "src/limits.rs",
        "    #[error(\"maximum command substitution depth exceeded ({0})\")]",
        1,
        "    #[error(\"command substitutions are nested more than {0} deep; use a loop, or a variable for the result\")]",
    ),
];
