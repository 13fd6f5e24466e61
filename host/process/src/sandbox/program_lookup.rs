//! Lookup of programs by name, and the choice of a shell for scripts.

use std::path::{Path, PathBuf};

use mimir_core::command::CommandProgram;

use super::error::SandboxError;

/// Maximum size in bytes of an argument on Linux, including its terminator (`MAX_ARG_STRLEN`).
const MAX_ARGUMENT_BYTES: usize = 128 * 1024;

/// Maximum number of names per folder to search for a similar name.
const MAX_SEARCHED_NAMES: usize = 20_000;

/// A program with its arguments, ready to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ResolvedProgram {
    /// Path of the file. A name with `/` stays as given, so it can be relative to the start folder of the command.
    pub(super) file: PathBuf,
    /// The arguments, beginning with the name of the program as given.
    pub(super) arguments: Vec<String>,
}

/// Finds the program of a command. `path` lists the folders to search.
pub(super) fn resolve_program(
    program: &CommandProgram,
    path: &[PathBuf],
    directory: &Path,
) -> Result<ResolvedProgram, SandboxError> {
    let resolved = match program {
        CommandProgram::Vector(words) => {
            let name = words.first().filter(|name| !name.is_empty());
            let name = name.ok_or(SandboxError::NoProgram)?;
            ResolvedProgram {
                file: find(name, path, directory)?,
                arguments: words.clone(),
            }
        }
        CommandProgram::Script(text) => shell(text, path)?,
    };
    check_arguments(program, &resolved.arguments)?;
    Ok(resolved)
}

/// Checks that the program exists and can be executed.
pub(super) fn check_program(
    name: &str,
    path: &[PathBuf],
    directory: &Path,
) -> Result<(), SandboxError> {
    find(name, path, directory).map(drop)
}

/// Checks that the words can be passed to a program as arguments.
pub(super) fn check_arguments(
    program: &CommandProgram,
    words: &[String],
) -> Result<(), SandboxError> {
    for word in words {
        let invalid = |why| SandboxError::InvalidInput {
            what: match program {
                CommandProgram::Vector(_) => "an argument".to_owned(),
                CommandProgram::Script(_) => "the script".to_owned(),
            },
            why,
        };
        if word.contains('\0') {
            return Err(invalid("it contains a NUL byte"));
        }
        if word.len() >= MAX_ARGUMENT_BYTES {
            return Err(invalid(
                "it is longer than 128 KiB; pass it in a file or on the standard input",
            ));
        }
    }
    Ok(())
}

/// Builds the call of bash, or else of sh, for a script. Neither reads a start-up file: bash gets options for that, and
/// sh reads none unless it is a login shell or interactive with `ENV` set.
fn shell(text: &str, path: &[PathBuf]) -> Result<ResolvedProgram, SandboxError> {
    let on_path = |name: &str| {
        let mut files = path.iter().map(|folder| folder.join(name));
        files.find(|file| is_executable(file))
    };
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    if let Some(file) = on_path("bash") {
        return Ok(ResolvedProgram {
            file,
            arguments: words(&["bash", "--noprofile", "--norc", "-c", text]),
        });
    }
    let file = on_path("sh").ok_or(SandboxError::NoShell)?;
    Ok(ResolvedProgram {
        file,
        arguments: words(&["sh", "-c", text]),
    })
}

fn find(name: &str, path: &[PathBuf], directory: &Path) -> Result<PathBuf, SandboxError> {
    let not_executable = |why| SandboxError::NotExecutable {
        program: name.to_owned(),
        why,
    };
    if name.contains('/') {
        let file = directory.join(name);
        return match file.metadata() {
            Err(_) => Err(SandboxError::not_found(name, [])),
            Ok(metadata) if metadata.is_dir() => Err(not_executable("it is a folder")),
            Ok(_) if !is_executable(&file) => Err(not_executable("run `chmod +x` on it")),
            Ok(_) => Ok(PathBuf::from(name)),
        };
    }
    let mut has_no_permission = false;
    for folder in path {
        let file = folder.join(name);
        if is_executable(&file) {
            return Ok(file);
        }
        has_no_permission |= file.is_file();
    }
    if has_no_permission {
        return Err(not_executable(
            "the file of that name on the PATH has no execute permission",
        ));
    }
    let names: Vec<String> = path
        .iter()
        .filter_map(|folder| folder.read_dir().ok())
        .flat_map(|entries| entries.take(MAX_SEARCHED_NAMES).flatten())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    Err(SandboxError::not_found(
        name,
        names.iter().map(String::as_str),
    ))
}

#[cfg(unix)]
fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let metadata = file.metadata();
    metadata.is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(file: &Path) -> bool {
    file.is_file()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn vector(words: &[&str]) -> CommandProgram {
        CommandProgram::Vector(words.iter().map(|word| (*word).to_owned()).collect())
    }

    #[test]
    fn program_lookup_suggests_the_nearest_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("compile");
        std::fs::write(&file, "#!/bin/sh\n").unwrap();
        let path = [folder.path().to_owned()];
        let find = |program: &CommandProgram| resolve_program(program, &path, folder.path());
        assert!(matches!(
            find(&vector(&["compile"])),
            Err(SandboxError::NotExecutable { .. })
        ));
        assert!(matches!(
            find(&vector(&["./compile"])),
            Err(SandboxError::NotExecutable { .. })
        ));
        assert!(matches!(
            find(&vector(&["./"])),
            Err(SandboxError::NotExecutable { .. })
        ));
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(find(&vector(&["compile", "x"])).unwrap().file, file);
        let error = find(&vector(&["compiel"])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "program `compiel` not found. Did you mean `compile`?"
        );
        assert!(matches!(
            find(&vector(&["./other"])),
            Err(SandboxError::NotFound { .. })
        ));
        assert!(matches!(find(&vector(&[])), Err(SandboxError::NoProgram)));
        assert!(matches!(find(&vector(&[""])), Err(SandboxError::NoProgram)));
        assert!(matches!(
            find(&vector(&["compile", "\0"])),
            Err(SandboxError::InvalidInput { .. })
        ));
        let long = "x".repeat(MAX_ARGUMENT_BYTES);
        assert!(matches!(
            find(&vector(&["compile", &long])),
            Err(SandboxError::InvalidInput { .. })
        ));
        assert!(matches!(
            find(&CommandProgram::Script("true".into())),
            Err(SandboxError::NoShell)
        ));
    }

    #[test]
    fn shell_is_started_without_startup_files() {
        let path = [PathBuf::from("/usr/bin"), PathBuf::from("/bin")];
        let program =
            resolve_program(&CommandProgram::Script("x".into()), &path, Path::new("/")).unwrap();
        match program.arguments[0].as_str() {
            "bash" => assert_eq!(program.arguments[1..3], ["--noprofile", "--norc"]),
            shell => assert_eq!(shell, "sh"),
        }
    }
}
