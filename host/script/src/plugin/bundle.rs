//! Bundling of a module with its imports by the user's own bundler, esbuild or rolldown, from `node_modules` or the
//! PATH. Like a compiler, the bundler runs with the permissions of the user who builds the plugin.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use mimir_core::{ToolError, ToolErrorCode, text};
use tokio::process::Command;

use super::source_positions::SourcePositions;

/// Source of the module `mimir`, for bundlers.
const MIMIR_MODULE: &str = "export const defineTool = (tool) => tool;\n";

/// Name of the bundle inside the function that the engine evaluates.
const BUNDLE_NAME: &str = "__module";

/// Time limit of a bundler. Bundling a hundred packages takes about a second.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Maximum length of a bundler's message, in characters.
const MAX_MESSAGE_CHARS: usize = 2_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BundlerKind {
    Esbuild,
    Rolldown,
}

/// Supported bundlers, in order of preference.
const BUNDLERS: [(BundlerKind, &str); 2] = [
    (BundlerKind::Esbuild, "esbuild"),
    (BundlerKind::Rolldown, "rolldown"),
];

/// Globals that browser packages expect from a bundler, without those by which packages detect Node.
const BROWSER_GLOBALS: &str = "var mimir = __mimir, global = globalThis, process = { env: { NODE_ENV: \"production\" }, browser: true, version: \"\", versions: {}, argv: [], cwd: () => \"/\", nextTick: (work, ...args) => queueMicrotask(() => work(...args)) };";

/// Number of lines before the bundle in the code.
const LINES_BEFORE_BUNDLE: u32 = 2;

/// A module bundled with its imports.
pub(super) struct BundledModule {
    /// Code of a function that returns the exports.
    pub(super) code: String,
    /// Source positions of the code.
    pub(super) positions: SourcePositions,
    /// The bundler that was used.
    pub(super) bundler: PathBuf,
}

/// Bundles a module. `import_error` is the error about the import that requires a bundler, for a missing bundler.
pub(super) async fn bundle(
    module: &Path,
    import_error: Option<ToolError>,
) -> Result<BundledModule, ToolError> {
    let module = module.canonicalize().map_err(|error| {
        let message = format!("{} cannot be found: {error}", shown(module));
        ToolError::new(ToolErrorCode::FileNotFound, message)
    })?;
    let Some((kind, program)) = find_bundler(&module, std::env::var_os("PATH").as_deref()) else {
        let what = import_error.map_or_else(
            || format!("{} imports other modules", shown(&module)),
            |error| error.message,
        );
        let message = format!(
            "{what}, but no bundler was found: run `npm install esbuild` (or rolldown) next to the file, or import only `mimir` and write the schemas in JSON"
        );
        return Err(ToolError::new(ToolErrorCode::Unavailable, message));
    };
    let work = tempfile::tempdir().map_err(|error| {
        let message = format!("cannot create a folder for the bundle: {error}");
        ToolError::new(ToolErrorCode::Unavailable, message)
    })?;
    let folder = work.path().canonicalize();
    let folder = folder.unwrap_or_else(|_| work.path().to_owned());
    let (code, map) = run_bundler(kind, &program, &module, &folder).await?;
    let home = module.parent().unwrap_or(&module);
    let positions =
        map.and_then(|map| SourcePositions::from_bundle(&map, LINES_BEFORE_BUNDLE, &folder, home));
    let code =
        format!("(function (__mimir) {{\n{BROWSER_GLOBALS}\n{code}\nreturn {BUNDLE_NAME};\n}})");
    Ok(BundledModule {
        code,
        positions: positions.unwrap_or_default(),
        bundler: program,
    })
}

/// Returns the bundler in the nearest `node_modules` above the module, or on the PATH.
fn find_bundler(module: &Path, path: Option<&std::ffi::OsStr>) -> Option<(BundlerKind, PathBuf)> {
    let local = module.ancestors().skip(1);
    let local = local.map(|folder| folder.join("node_modules/.bin"));
    let global = path.into_iter().flat_map(std::env::split_paths);
    for folder in local.chain(global.filter(|folder| folder.is_absolute())) {
        for (kind, name) in BUNDLERS {
            for name in [
                name.to_owned(),
                format!("{name}{}", std::env::consts::EXE_SUFFIX),
            ] {
                let program = folder.join(name);
                if program.is_file() {
                    return Some((kind, program));
                }
            }
        }
    }
    None
}

/// Returns the entry module of the bundle: the plugin's exports, and the functions that convert its schemas to JSON
/// Schema.
fn entry_module(module: &Path) -> String {
    let quoted = |path: &Path| serde_json::Value::from(path.to_string_lossy().into_owned());
    let mut entry = format!("export * as module from {};\n", quoted(module));
    let package = |name: &str, file: &str| {
        let folders = module.ancestors().skip(1);
        let mut files = folders.map(|folder| folder.join("node_modules").join(name));
        files.find(|folder| folder.is_dir()).and_then(|folder| {
            let file = folder.join(file);
            file.is_file().then_some((folder, file))
        })
    };
    if let Some((folder, file)) = package("zod", "index.js")
        && major_version(&folder) == Some(4)
    {
        entry += &format!("export {{ toJSONSchema }} from {};\n", quoted(&file));
    }
    if let Some((_, file)) = package("zod-to-json-schema", "dist/esm/index.js") {
        entry += &format!("export {{ zodToJsonSchema }} from {};\n", quoted(&file));
    }
    entry
}

/// Returns the major version of a package.
fn major_version(folder: &Path) -> Option<u32> {
    let text = std::fs::read_to_string(folder.join("package.json")).ok()?;
    let package: serde_json::Value = serde_json::from_str(&text).ok()?;
    package["version"].as_str()?.split('.').next()?.parse().ok()
}

/// Runs the bundler. Returns the bundle, and its source map if there is one.
async fn run_bundler(
    kind: BundlerKind,
    program: &Path,
    module: &Path,
    work: &Path,
) -> Result<(String, Option<String>), ToolError> {
    let fault = |what: &str, error: std::io::Error| {
        ToolError::new(ToolErrorCode::Unavailable, format!("{what}: {error}"))
    };
    let (input, own, output) = (
        work.join("entry.mjs"),
        work.join("mimir.mjs"),
        work.join("bundle.js"),
    );
    let written = std::fs::write(&input, entry_module(module))
        .and_then(|()| std::fs::write(&own, MIMIR_MODULE));
    written.map_err(|error| fault("cannot write the input of the bundler", error))?;
    let mut command = Command::new(program);
    command.arg(&input);
    match kind {
        // Async functions become generators; the engine supports all other syntax.
        BundlerKind::Esbuild => command
            .args(["--bundle", "--format=iife", "--platform=browser"])
            .arg(format!("--global-name={BUNDLE_NAME}"))
            .args([
                "--target=es2022",
                "--define:process.env.NODE_ENV=\"production\"",
                "--sourcemap=external",
                "--sources-content=false",
            ])
            .args([
                "--supported:async-await=false",
                "--supported:async-generator=false",
            ])
            .args(["--supported:for-await=false", "--charset=utf8"])
            .args([
                "--legal-comments=none",
                "--log-level=error",
                "--color=false",
            ])
            .arg(format!("--alias:mimir={}", own.display()))
            .arg(format!("--outfile={}", output.display())),
        // `mimir` stays external; the code defines it under this name.
        BundlerKind::Rolldown => command
            .args([
                "--format",
                "iife",
                "--platform",
                "browser",
                "--name",
                BUNDLE_NAME,
            ])
            .arg("--sourcemap")
            .args(["--external", "mimir", "--globals", "mimir:mimir"])
            .args(["--transform.target", "es2016", "--logLevel", "warn"])
            .arg("--file")
            .arg(&output),
    };
    let folder = module.parent().unwrap_or(module);
    command
        .current_dir(folder)
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let finished = tokio::time::timeout(TIMEOUT, command.output()).await;
    let finished = finished.map_err(|_| {
        let message = format!(
            "{} did not finish within {} s",
            shown(program),
            TIMEOUT.as_secs()
        );
        ToolError::new(ToolErrorCode::Timeout, message)
    })?;
    let finished =
        finished.map_err(|error| fault(&format!("{} cannot be started", shown(program)), error))?;
    if !finished.status.success() {
        let output_text = [finished.stderr, finished.stdout].concat();
        let output_text = String::from_utf8_lossy(&output_text);
        return Err(ToolError::new(
            ToolErrorCode::InvalidInput,
            bundler_error(&output_text, program),
        ));
    }
    let code = std::fs::read_to_string(&output)
        .map_err(|error| fault(&format!("{} wrote no bundle", shown(program)), error))?;
    let map = std::fs::read_to_string(work.join("bundle.js.map")).ok();
    Ok((code, map))
}

/// Extracts the first error from a bundler's output, prefixed with its position if that is recognized.
fn bundler_error(output_text: &str, program: &Path) -> String {
    let lines: Vec<&str> = output_text.lines().map(str::trim).collect();
    let positioned = lines.iter().enumerate().find_map(|(at, line)| {
        let what = line.split_once("[ERROR] ")?.1;
        let position = lines[at + 1..].iter().find(|line| !line.is_empty())?;
        let position = position.strip_suffix(':')?;
        Some(format!("{position}: {what}"))
    });
    let hint = if output_text.contains("node:") || output_text.contains("built into node") {
        "; plugins cannot use Node's modules: use the tool's `context`, and packages that support browsers"
    } else {
        ""
    };
    let error_text = positioned.unwrap_or_else(|| {
        let output_text = text::prefix(output_text.trim(), MAX_MESSAGE_CHARS);
        format!("{} cannot bundle the module: {output_text}", shown(program))
    });
    let lines = error_text.lines().map(text::visible).collect::<Vec<_>>();
    format!("{}{hint}", lines.join("\n"))
}

fn shown(path: &Path) -> String {
    text::visible(&path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bundler_nearest_to_the_module_is_preferred() {
        let dir = tempfile::tempdir().unwrap();
        let (near, far) = (
            dir.path().join("a/node_modules/.bin"),
            dir.path().join("bin"),
        );
        for folder in [&near, &far] {
            std::fs::create_dir_all(folder).unwrap();
        }
        let module = dir.path().join("a/b/tool.ts");
        let path = far.clone().into_os_string();
        assert_eq!(find_bundler(&module, Some(&path)), None);
        std::fs::write(far.join("esbuild"), "").unwrap();
        let bundler = find_bundler(&module, Some(&path)).unwrap();
        assert_eq!(bundler, (BundlerKind::Esbuild, far.join("esbuild")));
        std::fs::write(near.join("rolldown"), "").unwrap();
        let bundler = find_bundler(&module, Some(&path)).unwrap();
        assert_eq!(bundler, (BundlerKind::Rolldown, near.join("rolldown")));
        assert_eq!(find_bundler(&module, None), Some(bundler));
    }

    #[test]
    fn bundler_error_starts_with_its_position() {
        let output_text = "✘ [ERROR] Could not resolve \"nowhere\"\n\n    tool.ts:1:18:\n      1 │ import x from \"nowhere\";\n";
        let error_text = bundler_error(output_text, Path::new("esbuild"));
        assert_eq!(error_text, "tool.ts:1:18: Could not resolve \"nowhere\"");
        let error_text = bundler_error("it is broken", Path::new("esbuild"));
        assert!(error_text.contains("esbuild cannot bundle"), "{error_text}");
    }
}
