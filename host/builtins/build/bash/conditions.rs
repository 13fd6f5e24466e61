//! File tests in `[`, `test` and `[[` that behave like bash.
//!
//! As published, the empty name is the current directory, so `[ -d "$DIR" ] && rm -rf "$DIR"/*` passes without a
//! `DIR`, and `[[` knows only half of the tests: the others are always true, and it compares files by paths from the
//! root.

use super::SourceEdit;

pub const EDITS: &[SourceEdit] = &[
    ("src/builtins/mod.rs", "\nmod test;\n", 1, "\npub(crate) mod test;\n"),
    (
        "src/builtins/test.rs",
        "    let p = Path::new(arg);
    if p.is_absolute() {",
        1,
        "    if arg.is_empty() {
        // No file has an empty name, and no file can be below this path.
        return PathBuf::from(\"/dev/null/-\");
    }
    let p = Path::new(arg);
    if p.is_absolute() {",
    ),
    (
        "src/builtins/test.rs",
        "            // regular file
            let path = resolve_file_path(cwd, arg);
            Ok(match fs.stat(&path).await {
                Ok(meta) => meta.file_type.is_file(),",
        1,
        "            // regular file
            let path = resolve_file_path(cwd, arg);
            Ok(match fs.stat(&path).await {
                Ok(meta) => meta.file_type.is_file() && !path.starts_with(\"/dev\"),",
    ),
    (
        "src/builtins/test.rs",
        "            let left_path = super::resolve_path(cwd, left);
            let right_path = super::resolve_path(cwd, right);
            Ok(left_path == right_path)",
        1,
        "            let left = crate::fs::canonicalize(&**fs, &resolve_file_path(cwd, left)).await;
            let right = crate::fs::canonicalize(&**fs, &resolve_file_path(cwd, right)).await;
            match (left, right) {
                (Ok(left), Ok(right)) => {
                    Ok(left == right && fs.exists(&left).await.unwrap_or(false))
                }
                _ => Ok(false),
            }",
    ),
    (
        "src/builtins/test.rs",
        "/// Evaluate a unary test expression\n",
        1,
        "/// Returns the result of `[[ op arg ]]` for an operator that tests a file or an option, otherwise `None`.
pub(crate) async fn file_test(
    op: &str,
    arg: &str,
    fs: &Arc<dyn FileSystem>,
    cwd: &Path,
    variables: &HashMap<String, String>,
) -> Option<bool> {
    if !is_unop(op) || matches!(op, \"-n\" | \"-z\" | \"-v\" | \"-t\" | \"-N\" | \"-R\") {
        return None;
    }
    let env = Env { fs, cwd, variables, set_vars: &[] };
    Some(matches!(evaluate_unary(op, arg, &env).await, Ok(true)))
}

/// Returns the result of `[[ left op right ]]` for two files.
pub(crate) async fn compare_files(
    left: &str,
    op: &str,
    right: &str,
    fs: &Arc<dyn FileSystem>,
    cwd: &Path,
) -> bool {
    matches!(evaluate_binary(left, op, right, fs, cwd).await, Ok(true))
}

/// Evaluate a unary test expression\n",
    ),
    (
        "src/interpreter/mod.rs",
        "                    match args[0].as_str() {
                        \"-z\" => args[1].is_empty(),",
        1,
        "                    if args[0] == \"-R\" {
                        return self.scoped.namerefs.contains_key(&args[1]);
                    }
                    if args[0] == \"-N\" {
                        let message = \"[[: -N: this shell does not know when a file was read\";
                        self.record_arith_error(message.to_string());
                        return false;
                    }
                    let answer = crate::builtins::test::file_test(
                        &args[0],
                        &args[1],
                        &self.fs,
                        &self.cwd,
                        &self.scoped.variables,
                    );
                    if let Some(answer) = answer.await {
                        return answer;
                    }
                    match args[0].as_str() {
                        \"-z\" => args[1].is_empty(),",
    ),
    (
        "src/interpreter/mod.rs",
        "                    // Binary operators
                    match args[1].as_str() {
                        // bash 5.2:",
        1,
        "                    // Binary operators
                    if matches!(args[1].as_str(), \"-nt\" | \"-ot\" | \"-ef\") {
                        let (left, op, right) = (&args[0], &args[1], &args[2]);
                        let answer = crate::builtins::test::compare_files(
                            left, op, right, &self.fs, &self.cwd,
                        );
                        return answer.await;
                    }
                    match args[1].as_str() {
                        // bash 5.2:",
    ),
];
