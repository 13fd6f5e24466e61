//! Package managers: detection by files of the project, and command lines.

use std::path::Path;

use mimir_core::ToolError;
use mimir_core::command::CommandProgram;
use mimir_core::text;
use serde::Deserialize;

use super::package_spec::PackageEcosystem;
use super::registry_facts::PackageRelease;

/// A package manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum PackageManager {
    /// npm.
    Npm,
    /// Yarn, of any version.
    Yarn,
    /// pnpm.
    Pnpm,
    /// pip, in the project's virtual environment.
    Pip,
    /// uv, for projects with its lock file.
    Uv,
    /// Cargo.
    Cargo,
    /// The go command.
    Go,
}

/// Options of an installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct InstallOptions {
    /// The packages are only for development.
    pub(super) dev: bool,
    /// Install scripts run.
    pub(super) scripts: bool,
}

/// Files that select a manager, in the order of precedence.
const MARKERS: [(&str, PackageManager); 13] = [
    ("pnpm-lock.yaml", PackageManager::Pnpm),
    ("yarn.lock", PackageManager::Yarn),
    ("package-lock.json", PackageManager::Npm),
    ("package.json", PackageManager::Npm),
    ("uv.lock", PackageManager::Uv),
    ("Cargo.toml", PackageManager::Cargo),
    ("go.mod", PackageManager::Go),
    ("pyproject.toml", PackageManager::Pip),
    ("requirements.txt", PackageManager::Pip),
    ("setup.py", PackageManager::Pip),
    ("setup.cfg", PackageManager::Pip),
    (".venv/pyvenv.cfg", PackageManager::Pip),
    ("venv/pyvenv.cfg", PackageManager::Pip),
];

/// Lock files of managers that are not supported. Another manager would leave them out of date.
const UNSUPPORTED: [(&str, &str); 6] = [
    ("bun.lock", "bun"),
    ("bun.lockb", "bun"),
    ("deno.lock", "deno"),
    ("poetry.lock", "poetry"),
    ("Pipfile", "pipenv"),
    ("pdm.lock", "pdm"),
];

/// Interpreters of virtual environments.
const INTERPRETERS: [&str; 4] = [
    ".venv/bin/python",
    "venv/bin/python",
    ".venv/Scripts/python.exe",
    "venv/Scripts/python.exe",
];

impl PackageManager {
    pub(super) const ALL: [Self; 7] = [
        Self::Npm,
        Self::Yarn,
        Self::Pnpm,
        Self::Pip,
        Self::Uv,
        Self::Cargo,
        Self::Go,
    ];

    /// Patterns of all commands that this module makes.
    pub(super) const PATTERNS: [&str; 11] = [
        "npm install *",
        "yarn add *",
        "pnpm add *",
        ".venv/bin/python -I -m pip install *",
        "venv/bin/python -I -m pip install *",
        ".venv/Scripts/python.exe -I -m pip install *",
        "venv/Scripts/python.exe -I -m pip install *",
        "uv add *",
        "cargo add *",
        "cargo update *",
        "go get *",
    ];

    /// Returns the name in arguments and results.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Npm => "npm",
            Self::Yarn => "yarn",
            Self::Pnpm => "pnpm",
            Self::Pip => "pip",
            Self::Uv => "uv",
            Self::Cargo => "cargo",
            Self::Go => "go",
        }
    }

    pub(super) const fn ecosystem(self) -> PackageEcosystem {
        match self {
            Self::Npm | Self::Yarn | Self::Pnpm => PackageEcosystem::Npm,
            Self::Pip | Self::Uv => PackageEcosystem::Python,
            Self::Cargo => PackageEcosystem::Cargo,
            Self::Go => PackageEcosystem::Go,
        }
    }

    /// Detects the manager of a folder. The lock file of a JavaScript workspace may be in a folder above.
    pub(super) fn detect(workspace: &Path, folder: &Path) -> Result<Self, ToolError> {
        let has = |folder: &Path, name: &str| folder.join(name).is_file();
        let shown = match folder.strip_prefix(workspace) {
            Ok(below) if !below.as_os_str().is_empty() => {
                let path = below.display().to_string();
                format!("`{}`", text::visible(text::prefix(&path, 100)))
            }
            _ => "the workspace".to_owned(),
        };
        if let Some((file, name)) = UNSUPPORTED.iter().find(|(file, _)| has(folder, file)) {
            let message = format!("{shown} uses {name} ({file}), which is not supported");
            let remedy = format!("install the package yourself with {name}");
            return Err(ToolError::unavailable(message).with_remedies([remedy]));
        }
        let found: Vec<Self> = MARKERS
            .iter()
            .filter(|(name, _)| has(folder, name))
            .map(|(_, manager)| *manager)
            .collect();
        let Some(&first) = found.first() else {
            return Err(ToolError::not_found(format!(
                "{shown} is not a project: expected package.json, pyproject.toml, requirements.txt, Cargo.toml or \
                 go.mod"
            ))
            .with_remedies(["name the folder of the project as `path`, or set `manager`".to_owned()]));
        };
        if found
            .iter()
            .any(|manager| manager.ecosystem() != first.ecosystem())
        {
            let mut names: Vec<&str> = found.iter().map(|manager| manager.as_str()).collect();
            names.dedup();
            return Err(ToolError::invalid_input(format!(
                "{shown} has several package managers ({}): set `manager`",
                names.join(", ")
            )));
        }
        // Only `package.json`: the lock file may be that of a workspace.
        if first != Self::Npm || has(folder, "package-lock.json") {
            return Ok(first);
        }
        let above = folder.ancestors().skip(1);
        let above = above.take_while(|folder| folder.starts_with(workspace));
        let locks = &MARKERS[..3];
        let found = above
            .flat_map(|folder| locks.iter().filter(move |(name, _)| has(folder, name)))
            .next();
        Ok(found.map_or(first, |(_, manager)| *manager))
    }

    /// Returns the program that has to be installed on this machine.
    pub(super) fn program(self, folder: &Path) -> Result<&'static str, ToolError> {
        if self != Self::Pip {
            return Ok(self.as_str());
        }
        let mut interpreters = INTERPRETERS.into_iter();
        let found = interpreters.find(|name| folder.join(name).symlink_metadata().is_ok());
        found.ok_or_else(|| {
            ToolError::unavailable(
                "the project has no virtual environment, and packages outside of the project are not changed",
            )
            .with_remedies(["create one in the project's folder: `python3 -m venv .venv`".to_owned()])
        })
    }

    /// Makes the command that installs exactly these packages in a folder.
    pub(super) fn command(
        self,
        folder: &Path,
        packages: &[PackageRelease],
        options: InstallOptions,
    ) -> Result<CommandProgram, ToolError> {
        let InstallOptions { dev, scripts } = options;
        let mut words = vec![self.program(folder)?];
        let mut add = |condition: bool, option: &'static str| {
            if condition {
                words.push(option);
            }
        };
        match self {
            Self::Npm => {
                for word in ["install", "--no-audit", "--no-fund"] {
                    add(true, word);
                }
                add(dev, "--save-dev");
                add(!scripts, "--ignore-scripts");
            }
            // Its versions have different options against install scripts: variables say it to all of them.
            Self::Yarn => {
                add(true, "add");
                add(dev, "--dev");
            }
            Self::Pnpm => {
                add(true, "add");
                add(dev, "--save-dev");
                add(!scripts, "--ignore-scripts");
                // A file of the project that changes what is installed.
                add(!scripts, "--ignore-pnpmfile");
            }
            Self::Pip => {
                // Isolated: a module `pip` in the project's folder does not run.
                for word in ["-I", "-m", "pip", "install", "--no-input"] {
                    add(true, word);
                }
                add(true, "--disable-pip-version-check");
                add(!scripts, "--only-binary=:all:");
            }
            Self::Uv => {
                add(true, "add");
                add(dev, "--dev");
                // Building the project itself would run its code.
                add(!scripts, "--no-build");
                add(!scripts, "--no-install-project");
            }
            Self::Cargo => {
                add(true, "add");
                add(dev, "--dev");
            }
            Self::Go => add(true, "get"),
        }
        let separator = match self.ecosystem() {
            PackageEcosystem::Python => "==",
            _ => "@",
        };
        let words = words.into_iter().map(str::to_owned);
        let pins = packages.iter().map(|package| {
            let PackageRelease { name, version, .. } = package;
            if self == Self::Cargo && is_prerelease(version) {
                return format!("{name}@={version}");
            }
            format!("{name}{separator}{version}")
        });
        let words: Vec<String> = words.chain(pins).collect();
        if self != Self::Cargo {
            return Ok(CommandProgram::Vector(words));
        }
        // In `Cargo.toml`, a version allows later ones; the lock file gets the exact version. All words consist of
        // characters that a shell does not interpret.
        let mut script = format!("{} && cargo update --workspace", words.join(" "));
        for PackageRelease { name, version, .. } in packages {
            // Cargo does not find a prerelease by its series. `Cargo.toml` has its exact version.
            if is_prerelease(version) {
                continue;
            }
            let series = compatible_series(version);
            script.push_str(&format!(
                " && cargo update {name}@{series} --precise {version}"
            ));
        }
        Ok(CommandProgram::Script(script))
    }

    /// Returns variables that keep install scripts from running where options cannot.
    pub(super) fn script_variables(self, scripts: bool) -> Vec<(String, String)> {
        let variables: &[(&str, &str)] = match self {
            Self::Yarn if !scripts => &[
                ("YARN_IGNORE_SCRIPTS", "true"),
                ("YARN_ENABLE_SCRIPTS", "false"),
            ],
            _ => &[],
        };
        owned(variables)
    }

    /// Returns variables for a command in a sandbox, where the usual caches are read-only.
    pub(super) fn cache_variables(self) -> Vec<(String, String)> {
        let variables: &[(&str, &str)] = match self {
            Self::Cargo => &[("CARGO_HOME", "/tmp/cargo")],
            Self::Go => &[("GOPATH", "/tmp/go"), ("GOCACHE", "/tmp/go-build")],
            _ => &[],
        };
        owned(variables)
    }

    /// Describes the effect of install scripts.
    pub(super) fn script_note(self, scripts: bool, packages: &[PackageRelease]) -> &'static str {
        let has_scripts = packages.iter().any(|package| package.has_scripts);
        match (self.ecosystem(), scripts) {
            (PackageEcosystem::Npm, true) if has_scripts => {
                "INSTALL SCRIPTS RUN: programs of these packages, and of packages that they need, run in the sandbox"
            }
            (PackageEcosystem::Npm, true) => {
                "INSTALL SCRIPTS RUN: programs of packages that these need run in the sandbox"
            }
            (PackageEcosystem::Npm, false) if has_scripts => {
                "install scripts do not run, although these packages have some"
            }
            (PackageEcosystem::Python, true) => {
                "INSTALL SCRIPTS RUN: packages without a wheel are built, which runs their code in the sandbox"
            }
            (PackageEcosystem::Npm | PackageEcosystem::Python, false) => {
                "install scripts do not run: no code of the packages runs now"
            }
            (PackageEcosystem::Cargo | PackageEcosystem::Go, _) => {
                "no code of the packages runs now, but a later build may run it"
            }
        }
    }

    /// Returns a hint for the result: packages that still have to be downloaded, because the sandbox of commands cannot
    /// write to the caches of the user.
    pub(super) const fn result_note(self) -> &'static str {
        match self {
            Self::Cargo => {
                "Run `cargo fetch` with network access before the next build: the sources stayed in the sandbox."
            }
            Self::Go => {
                "Run `go mod download` with network access before the next build: the sources stayed in the sandbox."
            }
            _ => "",
        }
    }
}

fn owned(variables: &[(&str, &str)]) -> Vec<(String, String)> {
    variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

/// Returns true for versions such as `1.0.0-rc.1`.
fn is_prerelease(version: &str) -> bool {
    let (release, _) = version.split_once('+').unwrap_or((version, ""));
    release.contains('-')
}

/// Returns the beginning of a version that all compatible versions share: the numbers up to the first that is not 0.
fn compatible_series(version: &str) -> String {
    let mut series = Vec::new();
    let (release, _) = version.split_once('+').unwrap_or((version, ""));
    for number in release.split('.') {
        series.push(number);
        if number != "0" {
            break;
        }
    }
    series.join(".")
}

#[cfg(test)]
mod tests {
    use super::*;
    use PackageManager::*;

    fn workspace(files: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for name in files {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        dir
    }

    fn release(name: &str, version: &str) -> PackageRelease {
        PackageRelease {
            name: name.to_owned(),
            version: version.to_owned(),
            ..PackageRelease::default()
        }
    }

    #[test]
    fn package_manager_is_detected_by_files() {
        for (files, folder, manager) in [
            (&["package.json"][..], "", Npm),
            (&["package.json", "yarn.lock"], "", Yarn),
            (&["a/package.json", "pnpm-lock.yaml"], "a", Pnpm),
            (
                &["a/package.json", "a/package-lock.json", "yarn.lock"],
                "a",
                Npm,
            ),
            (&["pyproject.toml", "uv.lock"], "", Uv),
            (&["requirements.txt", "pyproject.toml"], "", Pip),
            (&["Cargo.toml"], "", Cargo),
            (&["go.mod"], "", Go),
        ] {
            let dir = workspace(files);
            let found = PackageManager::detect(dir.path(), &dir.path().join(folder)).unwrap();
            assert_eq!(found, manager, "{files:?}");
        }
        let detect = |files: &[&str]| {
            let dir = workspace(files);
            PackageManager::detect(dir.path(), dir.path()).unwrap_err()
        };
        let several = detect(&["package.json", "Cargo.toml"]);
        assert!(several.message.contains("npm, cargo"), "{several}");
        assert_eq!(detect(&[]).code, mimir_core::ToolErrorCode::NotFound);
        let poetry = detect(&["pyproject.toml", "poetry.lock"]);
        assert!(poetry.message.contains("poetry"), "{poetry}");
    }

    #[test]
    fn package_command_has_exact_versions_and_no_scripts() {
        let dir = workspace(&[".venv/bin/python"]);
        let line = |manager: PackageManager, options| {
            let packages = [release("a", "1.2.3")];
            let program = manager.command(dir.path(), &packages, options).unwrap();
            program.text().into_owned()
        };
        for (manager, expected) in [
            (
                Npm,
                "npm install --no-audit --no-fund --ignore-scripts a@1.2.3",
            ),
            (Yarn, "yarn add a@1.2.3"),
            (Pnpm, "pnpm add --ignore-scripts --ignore-pnpmfile a@1.2.3"),
            (
                Pip,
                ".venv/bin/python -I -m pip install --no-input --disable-pip-version-check --only-binary=:all: a==1.2.3",
            ),
            (Uv, "uv add --no-build --no-install-project a==1.2.3"),
            (
                Cargo,
                "cargo add a@1.2.3 && cargo update --workspace && cargo update a@1 --precise 1.2.3",
            ),
            (Go, "go get a@1.2.3"),
        ] {
            let line = line(manager, InstallOptions::default());
            assert_eq!(line, expected);
            for command in line.split(" && ") {
                let mut patterns = PackageManager::PATTERNS.iter();
                let is_covered =
                    |pattern: &&str| command.starts_with(pattern.trim_end_matches('*'));
                assert!(patterns.any(is_covered), "{command}");
            }
        }
        let with_scripts = InstallOptions {
            dev: true,
            scripts: true,
        };
        assert_eq!(
            line(Npm, with_scripts),
            "npm install --no-audit --no-fund --save-dev a@1.2.3"
        );
        let error = Pip.program(workspace(&[]).path()).unwrap_err();
        assert!(error.remedies[0].contains("python3 -m venv"), "{error}");
    }

    #[test]
    fn package_scripts_of_yarn_are_off_in_all_its_versions() {
        let names = |scripts| {
            let variables = Yarn.script_variables(scripts).into_iter();
            variables.map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(names(false), ["YARN_IGNORE_SCRIPTS", "YARN_ENABLE_SCRIPTS"]);
        assert!(names(true).is_empty());
    }

    #[test]
    fn package_command_of_a_prerelease_crate_is_exact() {
        let packages = [release("a", "0.7.0-rc.12"), release("b", "1.2.3+meta-data")];
        let options = InstallOptions::default();
        let program = Cargo.command(Path::new("."), &packages, options).unwrap();
        assert_eq!(
            program.text(),
            "cargo add a@=0.7.0-rc.12 b@1.2.3+meta-data && cargo update --workspace && \
             cargo update b@1 --precise 1.2.3+meta-data"
        );
    }

    #[test]
    fn package_series_of_compatible_versions() {
        for (version, series) in [
            ("1.2.3", "1"),
            ("0.4.2", "0.4"),
            ("0.0.3", "0.0.3"),
            ("2.0.0+build", "2"),
        ] {
            assert_eq!(compatible_series(version), series);
        }
    }
}
