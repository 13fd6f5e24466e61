//! Formatters, chosen by the type of a file and the configuration of its project. Each reads a file on stdin and prints
//! the formatted text, so it needs no write access, and the change can be undone.

use mimir_sdk::Context;

use crate::project_path::{ancestors, join_path};
use crate::test_project::read_text;

/// The formatter of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Formatter {
    /// Name of the program.
    pub name: &'static str,
    /// Program and arguments.
    pub words: Vec<String>,
    /// Working directory, relative to the workspace root; empty for the root. Formatters search for their settings
    /// from there.
    pub directory: String,
}

/// A file without a formatter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoFormatter {
    /// No formatter is known for the file type.
    UnknownType,
    /// The project does not say which formatter it uses; this would be the remedy.
    NotConfigured(&'static str),
}

/// Interpreters of virtual environments, and the folder of the programs next to each.
const ENVIRONMENTS: [(&str, &str); 4] = [
    (".venv/bin/python", ".venv/bin"),
    ("venv/bin/python", "venv/bin"),
    (".venv/Scripts/python.exe", ".venv/Scripts"),
    ("venv/Scripts/python.exe", "venv/Scripts"),
];

/// File endings that Prettier formats.
const PRETTIER: [&str; 21] = [
    "js", "mjs", "cjs", "jsx", "ts", "mts", "cts", "tsx", "json", "json5", "jsonc", "css", "scss",
    "less", "html", "vue", "md", "mdx", "yaml", "yml", "graphql",
];

/// File endings that Biome formats.
const BIOME: [&str; 13] = [
    "js", "mjs", "cjs", "jsx", "ts", "mts", "cts", "tsx", "json", "jsonc", "css", "graphql", "html",
];

/// File endings that clang-format formats.
const CLANG: [&str; 13] = [
    "c", "cc", "cpp", "cxx", "h", "hh", "hpp", "hxx", "m", "mm", "java", "proto", "cu",
];

impl Formatter {
    /// Patterns of all commands that this module makes.
    pub const PATTERNS: [&str; 10] = [
        "rustfmt *",
        "gofmt *",
        "ruff format *",
        "black *",
        "clang-format *",
        "node *",
        ".venv/bin/python -m *",
        "venv/bin/python -m *",
        ".venv/Scripts/python.exe -m *",
        "venv/Scripts/python.exe -m *",
    ];

    /// Chooses the formatter of a file, whose path is relative to the workspace root.
    pub fn choose(cx: &Context, path: &str) -> Result<Self, NoFormatter> {
        let ending = ending(path);
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let here = |name, words: &[&str]| Self {
            name,
            words: words.iter().map(|&word| word.to_owned()).collect(),
            directory: folder.to_owned(),
        };
        match ending {
            "rs" => {
                let edition = rust_edition(cx, folder);
                Ok(here(
                    "rustfmt",
                    &[
                        "rustfmt",
                        "--edition",
                        &edition,
                        "--emit",
                        "stdout",
                        "--quiet",
                    ],
                ))
            }
            "go" => Ok(here("gofmt", &["gofmt"])),
            "py" | "pyi" => Ok(python(cx, folder, name)),
            ending if CLANG.contains(&ending) => {
                let configs = [".clang-format", "_clang-format"];
                if find_above(cx, folder, &configs).is_none() {
                    return Err(NoFormatter::NotConfigured(
                        "add a .clang-format file to the project",
                    ));
                }
                Ok(here(
                    "clang-format",
                    &["clang-format", &format!("--assume-filename={name}")],
                ))
            }
            ending if PRETTIER.contains(&ending) => web(cx, folder, name, ending),
            _ => Err(NoFormatter::UnknownType),
        }
    }
}

/// Returns the part of a file's name after the last dot; empty if it has none.
pub fn ending(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.rsplit_once('.').map_or("", |(_, ending)| ending)
}

/// Returns the nearest folder at or above `folder` that has one of these files, and the file.
fn find_above<'a>(
    cx: &Context,
    folder: &'a str,
    names: &[&'static str],
) -> Option<(&'a str, &'static str)> {
    ancestors(folder).find_map(|folder| {
        let exists = |name: &&&'static str| {
            let path = cx.workspace().join(join_path(folder, name));
            path.symlink_metadata().is_ok()
        };
        let name = names.iter().find(exists)?;
        Some((folder, *name))
    })
}

/// Returns `../` for each component of `from` below `above`.
fn up(above: &str, from: &str) -> String {
    let below = from.strip_prefix(above).unwrap_or(from);
    let depth = below.split('/').filter(|part| !part.is_empty()).count();
    "../".repeat(depth)
}

/// Returns the edition of the nearest package, or of the workspace that it inherits the edition from.
fn rust_edition(cx: &Context, folder: &str) -> String {
    for folder in ancestors(folder) {
        let manifest = read_text(&cx.workspace().join(join_path(folder, "Cargo.toml")));
        let edition = manifest.as_deref().and_then(|text| {
            text.lines().find_map(|line| {
                let value = line.trim().strip_prefix("edition")?.trim_start();
                let value = value.strip_prefix('=')?.trim().trim_matches('"');
                ["2015", "2018", "2021", "2024"]
                    .contains(&value)
                    .then(|| value.to_owned())
            })
        });
        if let Some(edition) = edition {
            return edition;
        }
    }
    // Without a manifest, the newest syntax is the best guess.
    "2024".to_owned()
}

/// Chooses between Ruff and Black: the one that the project configures, else the one in its virtual environment, else
/// Ruff.
fn python(cx: &Context, folder: &str, name: &str) -> Formatter {
    let configured = |section: &str| {
        ancestors(folder).any(|folder| {
            let text = read_text(&cx.workspace().join(join_path(folder, "pyproject.toml")));
            text.is_some_and(|text| text.contains(section))
        })
    };
    let has_ruff_file = find_above(cx, folder, &["ruff.toml", ".ruff.toml"]).is_some();
    let environment = ENVIRONMENTS.iter().find_map(|(python, programs)| {
        let (above, _) = find_above(cx, folder, &[*python])?;
        Some((above, *python, join_path(above, programs)))
    });
    let has_program = |program: &str| {
        environment.as_ref().is_some_and(|(_, _, programs)| {
            let found = |name: String| {
                let path = cx.workspace().join(join_path(programs, &name));
                path.symlink_metadata().is_ok()
            };
            found(program.to_owned()) || found(format!("{program}.exe"))
        })
    };
    let is_black = match (
        has_ruff_file || configured("[tool.ruff"),
        configured("[tool.black"),
    ) {
        (true, _) => false,
        (false, true) => true,
        (false, false) => has_program("black") && !has_program("ruff"),
    };
    let program = if is_black { "black" } else { "ruff" };
    let (mut words, directory) = match &environment {
        // The program runs where the environment is, so that its path needs no `..`.
        Some((above, python, _)) if has_program(program) => (
            vec![(*python).to_owned(), "-m".to_owned(), program.to_owned()],
            (*above).to_owned(),
        ),
        _ => (vec![program.to_owned()], folder.to_owned()),
    };
    let below = folder.strip_prefix(&directory).unwrap_or(folder);
    let shown = join_path(below.trim_start_matches('/'), name);
    if is_black {
        words.extend(["--quiet".to_owned(), format!("--stdin-filename={shown}")]);
    } else {
        words.extend(["format".to_owned(), format!("--stdin-filename={shown}")]);
    }
    words.push("-".to_owned());
    Formatter {
        name: if is_black { "black" } else { "ruff" },
        words,
        directory,
    }
}

/// Chooses between Biome and Prettier: Biome if the project has a file for it, else Prettier if it is installed.
fn web(cx: &Context, folder: &str, name: &str, ending: &str) -> Result<Formatter, NoFormatter> {
    let file = |program: &'static str, words: Vec<String>| Formatter {
        name: program,
        words,
        directory: folder.to_owned(),
    };
    let node = |above: &str, script: &str| {
        vec!["node".to_owned(), format!("{}{script}", up(above, folder))]
    };
    let has_biome_file = find_above(cx, folder, &["biome.json", "biome.jsonc"]).is_some();
    let biome = "node_modules/@biomejs/biome/bin/biome";
    if has_biome_file
        && BIOME.contains(&ending)
        && let Some((above, script)) = find_above(cx, folder, &[biome])
    {
        let mut words = node(above, script);
        words.extend(["format".to_owned(), format!("--stdin-file-path={name}")]);
        return Ok(file("biome", words));
    }
    let scripts = [
        "node_modules/prettier/bin/prettier.cjs",
        "node_modules/prettier/bin-prettier.js",
    ];
    if let Some((above, script)) = find_above(cx, folder, &scripts) {
        let mut words = node(above, script);
        words.push(format!("--stdin-filepath={name}"));
        return Ok(file("prettier", words));
    }
    Err(NoFormatter::NotConfigured(
        "install prettier, or @biomejs/biome with a biome.json, in the project",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(files: &[(&str, &str)], path: &str) -> Result<String, NoFormatter> {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let file = dir.path().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        let formatter = Formatter::choose(&Context::at(dir.path()), path)?;
        Ok(format!(
            "{}> {}",
            formatter.directory,
            formatter.words.join(" ")
        ))
    }

    #[test]
    fn formatter_is_chosen_by_type_and_project() {
        let prettier = ("node_modules/prettier/bin/prettier.cjs", "");
        let biome = ("node_modules/@biomejs/biome/bin/biome", "");
        for (files, path, expected) in [
            (
                vec![
                    ("Cargo.toml", "[package]\nedition = \"2021\"\n"),
                    ("a/Cargo.toml", "edition.workspace = true"),
                ],
                "a/src/lib.rs",
                "a/src> rustfmt --edition 2021 --emit stdout --quiet",
            ),
            (vec![], "b/x.go", "b> gofmt"),
            (vec![], "x.py", "> ruff format --stdin-filename=x.py -"),
            (
                vec![("pyproject.toml", "[tool.black]\n")],
                "p/x.py",
                "p> black --quiet --stdin-filename=x.py -",
            ),
            (
                vec![(".venv/bin/python", ""), (".venv/bin/black", "")],
                "p/x.py",
                "> .venv/bin/python -m black --quiet --stdin-filename=p/x.py -",
            ),
            (
                vec![prettier],
                "src/a/x.ts",
                "src/a> node ../../node_modules/prettier/bin/prettier.cjs --stdin-filepath=x.ts",
            ),
            (
                vec![prettier, biome, ("biome.json", "{}")],
                "x.ts",
                "> node node_modules/@biomejs/biome/bin/biome format --stdin-file-path=x.ts",
            ),
            (
                vec![prettier, biome, ("biome.json", "{}")],
                "x.md",
                "> node node_modules/prettier/bin/prettier.cjs --stdin-filepath=x.md",
            ),
            (
                vec![(".clang-format", "")],
                "src/x.cpp",
                "src> clang-format --assume-filename=x.cpp",
            ),
        ] {
            assert_eq!(chosen(&files, path).unwrap(), expected);
        }
    }

    #[test]
    fn formatter_needs_configuration_of_the_project() {
        for path in ["x.ts", "x.c"] {
            assert!(
                matches!(chosen(&[], path), Err(NoFormatter::NotConfigured(_))),
                "{path}"
            );
        }
        assert_eq!(chosen(&[], "x.txt"), Err(NoFormatter::UnknownType));
        assert_eq!(chosen(&[], "a.rs/x"), Err(NoFormatter::UnknownType));
    }
}
