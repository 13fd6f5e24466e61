//! Compilers for C and C++: the one in `MIMIR_CC`, the WASI SDK, clang with wasi-libc, or zig.

use std::path::{Path, PathBuf};

use crate::args::PluginLanguage;

use super::program_search::ProgramSearch;
use super::{
    FoundToolchain, MissingToolchain, contains_home, path_text, zig_programs, zig_toolchain,
};

/// Variable with the path of a compiler that has a C library for WASI.
const COMPILER_VARIABLE: &str = "MIMIR_CC";

/// Variable with the folder of the WASI SDK.
const SDK_VARIABLE: &str = "WASI_SDK_PATH";

/// Folders of which an SDK has at least one.
const SDK_PARTS: [&str; 2] = ["share/wasi-sysroot", "lib/clang"];

/// Names of clang, newest first.
const CLANG: [&str; 11] = [
    "clang", "clang-24", "clang-23", "clang-22", "clang-21", "clang-20", "clang-19", "clang-18",
    "clang-17", "clang-16", "clang-15",
];

/// Header of the C library of Debian and Fedora.
const WASI_LIBC: &str = "/usr/include/wasm32-wasi/stdio.h";

/// Debian's packages of the C++ library, as more arguments of `apt install`.
const CPP_LIBRARIES: &str = " libc++-19-dev-wasm32 libc++abi-19-dev-wasm32";

/// Finds a compiler for C or C++.
pub fn find(
    language: PluginLanguage,
    search: &ProgramSearch,
) -> Result<FoundToolchain, MissingToolchain> {
    let title = language.title();
    let clang = named_compiler(search).or_else(|| system_clang(search, Path::new(WASI_LIBC)));
    if let Some(found) = clang {
        return Ok(FoundToolchain {
            version: format!("{title} with {}", found.version),
            ..found
        });
    }
    let mut zig = zig_programs(search).into_iter();
    if let Some((program, version)) = zig.next() {
        let driver = match language {
            PluginLanguage::Cpp => "c++",
            _ => "cc",
        };
        let mut found = zig_toolchain(&program, &version);
        found.version = format!("{title} with {}", found.version);
        found.program.push(driver.to_owned());
        found.target = ["-target", "wasm32-wasi"].map(str::to_owned).to_vec();
        return Ok(found);
    }
    let libraries = match language {
        PluginLanguage::Cpp => CPP_LIBRARIES,
        _ => "",
    };
    Err(MissingToolchain {
        what: format!("{title} tools need clang with wasi-libc, or zig, and neither is installed"),
        command: format!(
            "pip install ziglang, or: apt install clang-19 lld-19 wasi-libc libclang-rt-19-dev-wasm32{libraries}"
        ),
    })
}

/// Returns the compiler that a variable of the user names.
fn named_compiler(search: &ProgramSearch) -> Option<FoundToolchain> {
    let variable = |name: &str| {
        let value = std::env::var_os(name).filter(|value| !value.is_empty())?;
        Some(PathBuf::from(value)).filter(|path| path.is_absolute())
    };
    let program = variable(COMPILER_VARIABLE)
        .or_else(|| Some(variable(SDK_VARIABLE)?.join("bin/clang")))
        .filter(|program| program.is_file())?;
    let version = version(search, &program)?;
    Some(FoundToolchain {
        roots: compiler_roots(&program),
        program: vec![path_text(&program)],
        target: vec!["--target=wasm32-wasi".to_owned()],
        version,
        ..FoundToolchain::default()
    })
}

/// Returns what a compiler reads: the folder of its SDK, or only the program. In an SDK, programs are in `bin`, and the
/// library is next to that.
fn compiler_roots(program: &Path) -> Vec<PathBuf> {
    let is_sdk = |folder: &&Path| {
        let mut parts = SDK_PARTS.iter();
        parts.any(|part| folder.join(part).is_dir()) && !contains_home(folder)
    };
    let of_sdk = |program: &Path| {
        let folder = program.parent().and_then(Path::parent).filter(is_sdk);
        folder.map(Path::to_owned)
    };
    if let Some(root) = of_sdk(program) {
        return vec![root];
    }
    let mut roots = vec![program.to_owned()];
    // The program may be a link into an SDK.
    roots.extend(program.canonicalize().ok().and_then(|real| of_sdk(&real)));
    roots
}

/// Returns the clang of the system, if it has the linker and the C library for WASI.
fn system_clang(search: &ProgramSearch, library: &Path) -> Option<FoundToolchain> {
    if !library.is_file() {
        return None;
    }
    let programs = CLANG.iter().filter_map(|name| search.program(name));
    let has_linker = |program: &PathBuf| {
        let linker = search.output(&[path_text(program)], &["--print-prog-name=wasm-ld"]);
        linker.is_some_and(|linker| Path::new(linker.trim()).is_file())
    };
    let program = programs.into_iter().find(has_linker)?;
    let target = [
        "--target=wasm32-wasi",
        "--sysroot=/usr",
        "-isystem",
        "/usr/include/wasm32-wasi",
        "-L/usr/lib/wasm32-wasi",
    ];
    Some(FoundToolchain {
        version: version(search, &program)?,
        program: vec![path_text(&program)],
        target: target.map(str::to_owned).to_vec(),
        ..FoundToolchain::default()
    })
}

/// Returns the first line of `--version`, which has the name too.
fn version(search: &ProgramSearch, program: &Path) -> Option<String> {
    let output = search.output(&[path_text(program)], &["--version"])?;
    output.lines().next().map(|line| line.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compiler_that_the_user_names_shows_builds_its_sdk_or_only_itself() {
        let folder = tempfile::tempdir().unwrap();
        let sdk = folder.path().join("sdk");
        std::fs::create_dir_all(sdk.join("bin")).unwrap();
        let program = sdk.join("bin/clang");
        std::fs::write(&program, "").unwrap();
        assert_eq!(compiler_roots(&program), std::slice::from_ref(&program));
        std::fs::create_dir_all(sdk.join("share/wasi-sysroot")).unwrap();
        assert_eq!(compiler_roots(&program), [sdk]);
    }

    #[cfg(unix)]
    #[test]
    fn compiler_that_is_a_link_shows_builds_the_sdk_that_it_leads_to() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let sdk = root.join("sdk");
        std::fs::create_dir_all(sdk.join("lib/clang")).unwrap();
        std::fs::create_dir_all(sdk.join("bin")).unwrap();
        std::fs::write(sdk.join("bin/clang"), "").unwrap();
        let link = root.join("wasm-clang");
        std::os::unix::fs::symlink(sdk.join("bin/clang"), &link).unwrap();
        assert_eq!(compiler_roots(&link), [link.clone(), sdk]);
    }
}
