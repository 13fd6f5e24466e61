//! Bundling of a module with its imports by the user's own bundler, esbuild or rolldown, from `node_modules` or the
//! `PATH`. A [`BundlerRunner`] runs it, because both folders may contain code of the plugin.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mimir_core::{ToolError, ToolErrorCode, text};

use super::bundler_runner::{BundlerCommand, BundlerRunner};
use super::source_positions::{SourcePositions, bundled_files};

/// Source of the module `mimir`, for bundlers.
const MIMIR_MODULE: &str = "export const defineTool = (tool) => tool;\n";

/// Source of the module `ai`, for esbuild: the functions of the AI SDK that define tools. The package itself needs
/// streams of browsers as soon as it is loaded, and its other functions query models, which plugins do by `context.llm`.
const AI_MODULE: &str = "export const tool = (tool) => tool;\nexport const dynamicTool = tool;\nexport const jsonSchema = (schema) => ({ jsonSchema: typeof schema === \"function\" ? schema() : schema });\n";

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

/// Folder of packages.
const PACKAGES: &str = "node_modules";

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
    /// The files of the bundle, except the module.
    pub(super) inputs: Vec<PathBuf>,
}

/// Bundles a module. `import_error` is the error about the import that requires a bundler, for a missing bundler.
pub(super) async fn bundle(
    module: &Path,
    import_error: Option<ToolError>,
    runner: &impl BundlerRunner,
) -> Result<BundledModule, ToolError> {
    let module = module.canonicalize().map_err(|error| {
        let message = format!("{} cannot be found: {error}", shown(module));
        ToolError::new(ToolErrorCode::FileNotFound, message)
    })?;
    let path = std::env::var_os("PATH");
    let Some((kind, program)) = find_bundler(&module, path.as_deref()) else {
        let what = import_error.map_or_else(
            || format!("{} imports other modules", shown(&module)),
            |error| error.message,
        );
        let message = format!(
            "{what}, but no bundler was found: run `npm install esbuild` (or rolldown) next to the file, or import only `mimir` and write the schemas in JSON"
        );
        return Err(ToolError::new(ToolErrorCode::Unavailable, message));
    };
    let folder = runner.create_work_folder()?;
    let command = BundlerCommand {
        name: bundler_name(kind),
        args: arguments(kind, &folder),
        read_only: read_folders(&module, &program, path.as_deref()),
        work_folder: folder.clone(),
        program,
    };
    let (code, map) = run_bundler(&command, &module, runner).await?;
    let mut inputs = map
        .as_deref()
        .map_or_else(Vec::new, |map| bundled_files(map, &folder));
    inputs.retain(|file| *file != module);
    let home = module.parent().unwrap_or(&module);
    let positions =
        map.and_then(|map| SourcePositions::from_bundle(&map, LINES_BEFORE_BUNDLE, &folder, home));
    let code =
        format!("(function (__mimir) {{\n{BROWSER_GLOBALS}\n{code}\nreturn {BUNDLE_NAME};\n}})");
    Ok(BundledModule {
        code,
        positions: positions.unwrap_or_default(),
        bundler: command.program,
        inputs,
    })
}

/// Returns the bundler in the nearest `node_modules` above the module, or on the PATH.
fn find_bundler(module: &Path, path: Option<&OsStr>) -> Option<(BundlerKind, PathBuf)> {
    let local = module.ancestors().skip(1);
    let local = local.map(|folder| folder.join(PACKAGES).join(".bin"));
    for folder in local.chain(absolute_folders(path)) {
        for (kind, name) in BUNDLERS {
            if let Some(program) = find_program(&folder, name) {
                return Some((kind, program));
            }
        }
    }
    None
}

fn absolute_folders(path: Option<&OsStr>) -> impl Iterator<Item = PathBuf> {
    let folders = path.into_iter().flat_map(std::env::split_paths);
    folders.filter(|folder| folder.is_absolute())
}

fn find_program(folder: &Path, name: &str) -> Option<PathBuf> {
    let with_suffix = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    let mut files = [name, &with_suffix]
        .map(|name| folder.join(name))
        .into_iter();
    files.find(|file| file.is_file())
}

fn bundler_name(kind: BundlerKind) -> &'static str {
    match kind {
        BundlerKind::Esbuild => "esbuild",
        BundlerKind::Rolldown => "rolldown",
    }
}

/// Returns the files and folders outside of the module's folder that a bundler reads: the packages of the folders above,
/// the bundler's own package, and Node if it is not in the folder that the `PATH` names.
fn read_folders(module: &Path, program: &Path, path: Option<&OsStr>) -> Vec<PathBuf> {
    // A link could lead to a folder without packages.
    let is_folder = |path: &PathBuf| path.symlink_metadata().is_ok_and(|meta| meta.is_dir());
    let above = module.ancestors().skip(2);
    let packages = above.map(|folder| folder.join(PACKAGES)).filter(is_folder);
    let mut read: Vec<PathBuf> = packages.collect();
    let plugin = module.parent().unwrap_or(module);
    if !program.starts_with(plugin)
        && let Ok(real) = program.canonicalize()
    {
        let is_packages = |folder: &&Path| folder.file_name() == Some(OsStr::new(PACKAGES));
        let packages = real.ancestors().filter(is_packages).last();
        read.push(packages.unwrap_or(&real).to_owned());
    }
    let node = absolute_folders(path).find_map(|folder| find_program(&folder, "node"));
    if let Some(node) = node
        && let Ok(real) = node.canonicalize()
        && real != node
    {
        read.push(real);
    }
    read.retain(|path| !path.starts_with(plugin));
    read.dedup();
    read
}

/// Returns the entry module of the bundle: the plugin's exports, and the functions that convert its schemas to JSON
/// Schema.
fn entry_module(module: &Path) -> String {
    let quoted = |path: &Path| serde_json::Value::from(path.to_string_lossy().into_owned());
    let mut entry = format!("export * as module from {};\n", quoted(module));
    let package = |name: &str, file: &str| {
        let folders = module.ancestors().skip(1);
        let mut files = folders.map(|folder| folder.join(PACKAGES).join(name));
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

/// Names of the files in the work folder.
const ENTRY_FILE: &str = "entry.mjs";
const MIMIR_FILE: &str = "mimir.mjs";
const AI_FILE: &str = "ai.mjs";
const BUNDLE_FILE: &str = "bundle.js";
const MAP_FILE: &str = "bundle.js.map";

/// Returns the arguments of a bundler.
fn arguments(kind: BundlerKind, work: &Path) -> Vec<String> {
    let file = |name: &str| work.join(name).to_string_lossy().into_owned();
    let mut args = vec![file(ENTRY_FILE)];
    let mut add = |more: &[&str]| args.extend(more.iter().map(|arg| (*arg).to_owned()));
    match kind {
        // Async functions become generators; the engine supports all other syntax.
        BundlerKind::Esbuild => add(&[
            "--bundle",
            "--format=iife",
            "--platform=browser",
            &format!("--global-name={BUNDLE_NAME}"),
            "--target=es2022",
            "--define:process.env.NODE_ENV=\"production\"",
            "--sourcemap=external",
            "--sources-content=false",
            "--supported:async-await=false",
            "--supported:async-generator=false",
            "--supported:for-await=false",
            "--charset=utf8",
            "--legal-comments=none",
            "--log-level=error",
            "--color=false",
            &format!("--alias:mimir={}", file(MIMIR_FILE)),
            &format!("--alias:ai={}", file(AI_FILE)),
            &format!("--outfile={}", file(BUNDLE_FILE)),
        ]),
        // `mimir` stays external; the code defines it under this name.
        BundlerKind::Rolldown => add(&[
            "--format",
            "iife",
            "--platform",
            "browser",
            "--name",
            BUNDLE_NAME,
            "--sourcemap",
            "--external",
            "mimir",
            "--globals",
            "mimir:mimir",
            "--transform.target",
            "es2016",
            "--logLevel",
            "warn",
            "--file",
            &file(BUNDLE_FILE),
        ]),
    }
    args
}

/// Runs the bundler. Returns the bundle, and its source map if there is one.
async fn run_bundler(
    command: &BundlerCommand,
    module: &Path,
    runner: &impl BundlerRunner,
) -> Result<(String, Option<String>), ToolError> {
    let (work, program) = (&command.work_folder, &command.program);
    let written = std::fs::write(work.join(ENTRY_FILE), entry_module(module))
        .and_then(|()| std::fs::write(work.join(MIMIR_FILE), MIMIR_MODULE))
        .and_then(|()| std::fs::write(work.join(AI_FILE), AI_MODULE));
    written.map_err(|error| {
        let message = format!("cannot write the input of the bundler: {error}");
        ToolError::new(ToolErrorCode::Unavailable, message)
    })?;
    let finished = tokio::time::timeout(TIMEOUT, runner.run(command)).await;
    let finished = finished.map_err(|_| {
        let message = format!(
            "{} did not finish within {} s",
            shown(program),
            TIMEOUT.as_secs()
        );
        ToolError::new(ToolErrorCode::Timeout, message)
    })??;
    if !finished.succeeded {
        return Err(ToolError::new(
            ToolErrorCode::InvalidInput,
            bundler_error(&finished.text, program),
        ));
    }
    let code = runner.read(&work.join(BUNDLE_FILE))?;
    Ok((code, runner.read(&work.join(MAP_FILE)).ok()))
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
    fn bundler_reads_the_packages_above_the_module_and_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let (global, above) = (root.join("lib/node_modules"), root.join("w/node_modules"));
        let own = root.join("w/plugin/node_modules/.bin");
        for folder in [&global.join("esbuild/bin"), &above, &own] {
            std::fs::create_dir_all(folder).unwrap();
        }
        let program = global.join("esbuild/bin/esbuild");
        std::fs::write(&program, "").unwrap();
        let module = root.join("w/plugin/tool.ts");
        let read = read_folders(&module, &program, None);
        assert_eq!(read, [above.clone(), global]);
        assert_eq!(read_folders(&module, &own.join("esbuild"), None), [above]);
    }

    #[cfg(unix)]
    #[test]
    fn bundler_does_not_read_packages_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("secret")).unwrap();
        std::fs::create_dir_all(root.join("w/plugin")).unwrap();
        std::os::unix::fs::symlink(root.join("secret"), root.join("w/node_modules")).unwrap();
        let module = root.join("w/plugin/tool.ts");
        let program = root.join("w/plugin/node_modules/.bin/esbuild");
        assert!(read_folders(&module, &program, None).is_empty());
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
