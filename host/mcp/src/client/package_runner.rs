//! Command lines that download a package and run one of its programs, such as `npx -y PACKAGE` and `uvx PACKAGE`.
//!
//! Out of scope: the download.

use mimir_core::config::PackageRegistry;

/// A package requested by a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageRequest {
    /// The registry of the package.
    pub registry: PackageRegistry,
    /// The package as the registry's installer accepts it: `name`, `name@range`, `name==version`.
    pub requirement: String,
    /// Additional packages to install.
    pub with: Vec<String>,
    /// Program of the package; `None` for the default program.
    pub program: Option<String>,
    /// Arguments of the program.
    pub args: Vec<String>,
}

/// The reason why a command line that downloads a package is not supported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{runner}` downloads a package, but {why}")]
pub struct PackageCommandError {
    runner: String,
    why: String,
}

/// The registry and the options of a package runner.
struct PackageRunner {
    registry: PackageRegistry,
    /// Options without a value that are ignored.
    flags: &'static [&'static str],
    /// Options that name the package; the first word is then the program.
    package: &'static [&'static str],
    /// Options that name additional packages.
    with: &'static [&'static str],
}

const NPX: PackageRunner = PackageRunner {
    registry: PackageRegistry::Npm,
    flags: &[
        "-y",
        "--yes",
        "-q",
        "--quiet",
        "--silent",
        "--bun",
        "--prefer-offline",
        "--prefer-online",
    ],
    package: &["-p", "--package"],
    with: &[],
};

const UVX: PackageRunner = PackageRunner {
    registry: PackageRegistry::Pypi,
    flags: &[
        "-q",
        "--quiet",
        "-v",
        "--verbose",
        "--isolated",
        "--refresh",
        "--no-progress",
        "-n",
        "--no-cache",
        "-U",
        "--upgrade",
    ],
    package: &["--from"],
    with: &["--with", "-w"],
};

const PIPX: PackageRunner = PackageRunner {
    registry: PackageRegistry::Pypi,
    flags: &["--quiet", "-q", "--verbose", "-v", "--no-cache"],
    package: &["--spec"],
    with: &[],
};

/// Returns the package that a command line downloads, or `None` if it downloads none.
pub fn package_request(words: &[String]) -> Result<Option<PackageRequest>, PackageCommandError> {
    let Some((runner, name, rest)) = runner(words) else {
        return Ok(None);
    };
    runner
        .parse(rest)
        .map(Some)
        .map_err(|why| PackageCommandError { runner: name, why })
}

/// Returns the name of the package runner in a command line, if there is one.
pub(super) fn downloading_runner(words: &[String]) -> Option<String> {
    runner(words).map(|(_, name, _)| name)
}

fn runner(words: &[String]) -> Option<(PackageRunner, String, &[String])> {
    let (program, rest) = words.split_first()?;
    let name = program.rsplit(['/', '\\']).next().unwrap_or_default();
    let name = name
        .strip_suffix(".cmd")
        .or_else(|| name.strip_suffix(".exe"))
        .unwrap_or(name);
    let second = rest.first().map(String::as_str);
    let third = rest.get(1).map(String::as_str);
    let (runner, taken) = match (name, second) {
        ("npx" | "bunx" | "pnpx", _) => (NPX, 0),
        ("npm", Some("exec" | "x")) | ("pnpm" | "yarn", Some("dlx")) | ("bun", Some("x")) => {
            (NPX, 1)
        }
        ("uvx", _) => (UVX, 0),
        ("uv", Some("tool")) if third == Some("run") => (UVX, 2),
        ("pipx", Some("run")) => (PIPX, 1),
        _ => return None,
    };
    let mut runner_name = vec![name.to_owned()];
    runner_name.extend(rest.iter().take(taken).cloned());
    Some((runner, runner_name.join(" "), rest.get(taken..)?))
}

impl PackageRunner {
    fn parse(&self, words: &[String]) -> Result<PackageRequest, String> {
        let mut packages = Vec::new();
        let mut with = Vec::new();
        let mut words = words.iter();
        let first = loop {
            let Some(word) = words.next() else {
                return Err("it does not name a package".to_owned());
            };
            if word == "--" {
                break words.next();
            }
            if !word.starts_with('-') || word == "-" {
                break Some(word);
            }
            let (option, value) = match word.split_once('=') {
                Some((option, value)) => (option, Some(value.to_owned())),
                None => (word.as_str(), None),
            };
            if self.flags.contains(&option) && value.is_none() {
                continue;
            }
            let list = match (self.package.contains(&option), self.with.contains(&option)) {
                (true, _) => &mut packages,
                (_, true) => &mut with,
                _ => {
                    return Err(format!(
                        "its option `{option}` is not supported: omit it, or start the installed program directly"
                    ));
                }
            };
            let Some(value) = value.or_else(|| words.next().cloned()) else {
                return Err(format!("its option `{option}` has no value"));
            };
            match self.registry {
                PackageRegistry::Npm => list.push(value),
                PackageRegistry::Pypi => {
                    list.extend(value.split(',').map(|package| package.trim().to_owned()))
                }
            }
        };
        let first = first.ok_or("it does not name a package")?.clone();
        // `npm exec PACKAGE -- ARGS` has the separator after the package.
        let mut args: Vec<String> = words.cloned().collect();
        if self.registry == PackageRegistry::Npm && args.first().is_some_and(|word| word == "--") {
            args.remove(0);
        }
        let (requirement, program) = if packages.is_empty() {
            self.parse_requirement(&first)
        } else {
            (packages.remove(0), Some(first))
        };
        with.extend(packages);
        for package in std::iter::once(&requirement).chain(&with) {
            if !self.is_registry_package(package) {
                return Err(format!(
                    "`{}` is not a registry package, and only registry packages can be pinned: install it and start its program directly",
                    mimir_core::text::visible(mimir_core::text::prefix(package, 100))
                ));
            }
        }
        Ok(PackageRequest {
            registry: self.registry,
            requirement,
            with,
            program,
            args,
        })
    }

    /// Splits a word such as `pkg@1.2` into the requirement and the program.
    fn parse_requirement(&self, word: &str) -> (String, Option<String>) {
        if self.registry == PackageRegistry::Npm {
            return (word.to_owned(), None);
        }
        // `uvx ruff@0.6` runs the program `ruff` of that version of the package.
        match word.split_once('@') {
            Some((name, "latest" | "")) => (name.to_owned(), Some(name.to_owned())),
            Some((name, version)) => (format!("{name}=={version}"), Some(name.to_owned())),
            None => {
                let end = word.find(['=', '<', '>', '!', '~', '[', ' ', ';']);
                let name = word.get(..end.unwrap_or(word.len())).unwrap_or(word);
                (word.to_owned(), Some(name.to_owned()))
            }
        }
    }

    /// Returns true if a requirement names a registry package, not a folder, an archive, a repository or an option.
    fn is_registry_package(&self, requirement: &str) -> bool {
        let name = requirement.strip_prefix('@').unwrap_or(requirement);
        let starts_with_letter_or_digit = name.starts_with(|c: char| c.is_ascii_alphanumeric());
        let foreign_markers = [
            ":", "\\", "../", "./", "#", "git+", ".tgz", ".tar", ".whl", ".zip",
        ];
        let slashes = requirement.matches('/').count();
        let max_slashes =
            usize::from(self.registry == PackageRegistry::Npm && requirement.starts_with('@'));
        let is_allowed =
            |c: char| !c.is_control() && (c != ' ' || self.registry == PackageRegistry::Pypi);
        starts_with_letter_or_digit
            && slashes <= max_slashes
            && requirement.chars().all(is_allowed)
            && !foreign_markers
                .iter()
                .any(|part| requirement.contains(part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Option<PackageRequest>, PackageCommandError> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        package_request(&words)
    }

    #[test]
    fn runner_lines_name_package_program_and_arguments() {
        for (line, requirement, program, args) in [
            ("npx -y @a/server-x@1.2.3 .", "@a/server-x@1.2.3", None, "."),
            ("npx @a/server-x", "@a/server-x", None, ""),
            (
                "/usr/bin/npx --yes -- pkg --port 3",
                "pkg",
                None,
                "--port 3",
            ),
            ("npx -p pkg@^2 bin --x", "pkg@^2", Some("bin"), "--x"),
            ("npx --package=pkg bin", "pkg", Some("bin"), ""),
            ("npm exec --yes pkg -- -a", "pkg", None, "-a"),
            ("bunx pkg@latest a", "pkg@latest", None, "a"),
            ("bun x pkg", "pkg", None, ""),
            ("pnpm dlx pkg a", "pkg", None, "a"),
            ("yarn dlx pkg", "pkg", None, ""),
            (
                "uvx mcp-server-git --repository .",
                "mcp-server-git",
                Some("mcp-server-git"),
                "--repository .",
            ),
            (
                "uvx mcp-server-git@2025.1",
                "mcp-server-git==2025.1",
                Some("mcp-server-git"),
                "",
            ),
            ("uvx --from pkg[x]==1 cmd a", "pkg[x]==1", Some("cmd"), "a"),
            ("uv tool run ruff@latest", "ruff", Some("ruff"), ""),
            ("pipx run --spec pkg==2 cmd", "pkg==2", Some("cmd"), ""),
        ] {
            let request = read(line).unwrap().unwrap();
            assert_eq!(request.requirement, requirement, "{line}");
            assert_eq!(request.program.as_deref(), program, "{line}");
            assert_eq!(request.args.join(" "), args, "{line}");
        }
        let with = read("uvx --with a,b --from c cmd").unwrap().unwrap();
        assert_eq!(with.with, ["a", "b"]);
        for line in [
            "node server.js",
            "npm start",
            "uv run server.py",
            "npm run x",
            "python3 -m x",
        ] {
            assert_eq!(read(line).unwrap(), None, "{line}");
        }
    }

    #[test]
    fn runner_lines_that_cannot_be_pinned_are_refused() {
        for line in [
            "npx",
            "npx -y",
            "npx ./server",
            "npx github:me/x",
            "npx me/x",
            "npx -c echo",
            "npx https://h.example/x.tgz",
            "npx --registry=https://h.example x",
            "uvx --from git+https://h.example/x cmd",
            "uvx ./x.whl",
            "uvx --index-url x y",
        ] {
            assert!(read(line).is_err(), "{line}");
        }
    }
}
