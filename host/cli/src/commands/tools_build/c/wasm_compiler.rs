//! A compiler for C or C++ with the options for a plugin.

use std::path::Path;

use mimir_core::ToolError;

use super::super::{BuildContext, BuildStep};
use crate::args::PluginLanguage;
use crate::commands::toolchains::{self, FoundToolchain, ProgramSearch};

/// Headers of the C++ library of Debian, which clang does not find by itself.
const SYSTEM_CPP_HEADERS: &str = "/usr/include/wasm32-wasi/c++/v1";

/// The option that selects the C library of the system.
const SYSTEM_SYSROOT: &str = "--sysroot=/usr";

/// A compiler with the options for a language.
#[derive(Debug)]
pub struct WasmCompiler {
    toolchain: FoundToolchain,
    language: PluginLanguage,
    /// Folder of all SDKs.
    sdk_root: String,
    include: String,
}

impl WasmCompiler {
    /// Finds a compiler of this machine.
    pub fn find(
        cx: &BuildContext<'_>,
        language: PluginLanguage,
        search: &ProgramSearch,
    ) -> Result<Self, ToolError> {
        let toolchain = toolchains::find(language, search)?;
        Ok(Self {
            toolchain,
            language,
            sdk_root: cx.sdk.root.to_string_lossy().into_owned(),
            include: cx
                .sdk
                .folder("c")
                .join("include")
                .to_string_lossy()
                .into_owned(),
        })
    }

    /// Returns the language that it compiles.
    pub fn language(&self) -> PluginLanguage {
        self.language
    }

    /// Returns true for zig.
    pub fn is_zig(&self) -> bool {
        self.toolchain.is_zig
    }

    /// Returns a text that differs if the objects of the SDK must be compiled again.
    pub fn key(&self) -> String {
        let compiler = self.toolchain.program.join(" ");
        format!(
            "{compiler}\n{}\n{}\n",
            self.toolchain.version, self.sdk_root
        )
    }

    /// Returns the options that select the target, the language and its headers, for compilers and editors.
    pub fn language_options(&self) -> Vec<String> {
        let mut options = Vec::new();
        let is_cpp = self.language == PluginLanguage::Cpp;
        // Before the headers of the C library, which those of C++ include.
        if is_cpp && self.is_system_clang() && Path::new(SYSTEM_CPP_HEADERS).is_dir() {
            options.extend(["-isystem", SYSTEM_CPP_HEADERS].map(str::to_owned));
        }
        let target = self.toolchain.target.iter();
        options.extend(target.filter(|option| !is_linked(option)).cloned());
        let language: &[&str] = if is_cpp {
            &["-std=c++20", "-fno-exceptions", "-fno-rtti"]
        } else {
            &["-std=gnu17"]
        };
        options.extend(language.iter().map(|&option| option.to_owned()));
        options.extend(["-Wall".to_owned(), format!("-I{}", self.include)]);
        options
    }

    /// Returns the options of a step that links.
    pub fn link_options(&self) -> Vec<String> {
        let strip = if self.is_zig() {
            "-s"
        } else {
            "-Wl,--gc-sections,--strip-all"
        };
        let target = self.toolchain.target.iter();
        let mut options: Vec<String> = target.filter(|option| is_linked(option)).cloned().collect();
        options.extend(["-mexec-model=reactor", strip].map(str::to_owned));
        options
    }

    /// Returns a step that compiles. Its arguments come after the options.
    pub fn step(&self, args: Vec<String>) -> BuildStep {
        let mut line = self.toolchain.program.clone();
        if self.language == PluginLanguage::Cpp && !self.is_zig() {
            // The program is the driver for C: for C++, it must link the C++ library too.
            line.push("--driver-mode=g++".to_owned());
        }
        line.extend(self.language_options());
        line.push("-Os".to_owned());
        // Names of files in assertions must not depend on the machine.
        line.push(format!("-ffile-prefix-map={}=.", self.sdk_root));
        line.extend(args);
        BuildStep {
            compiler: if self.is_zig() { "zig" } else { "clang" },
            args: line,
            read_only: self.toolchain.roots.clone(),
            ..BuildStep::default()
        }
    }

    /// Returns the remedy for a missing C++ library.
    pub fn missing_library(&self) -> Option<String> {
        let is_missing = self.language == PluginLanguage::Cpp
            && self.is_system_clang()
            && !Path::new(SYSTEM_CPP_HEADERS).is_dir();
        is_missing.then(|| {
            "the C++ library for WebAssembly is not installed: \
             apt install libc++-19-dev-wasm32 libc++abi-19-dev-wasm32"
                .to_owned()
        })
    }

    /// Returns the folders with zig's own headers, for editors.
    pub fn zig_headers(&self) -> Vec<String> {
        const HEADERS: [&str; 2] = ["wasm-wasi-musl", "generic-musl"];
        let roots = self.toolchain.roots.iter().filter(|_| self.is_zig());
        let folders = roots.flat_map(|root| {
            let include = root.join("lib/libc/include");
            HEADERS.map(|name| include.join(name))
        });
        let folders = folders.filter(|folder| folder.is_dir());
        folders
            .map(|folder| folder.to_string_lossy().into_owned())
            .collect()
    }

    fn is_system_clang(&self) -> bool {
        let mut target = self.toolchain.target.iter();
        target.any(|option| option == SYSTEM_SYSROOT)
    }
}

/// Returns true for an option of the linker, which clang reports as unused when it only compiles.
fn is_linked(option: &str) -> bool {
    option.starts_with("-L")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compiler(language: PluginLanguage, is_zig: bool) -> WasmCompiler {
        WasmCompiler {
            toolchain: FoundToolchain {
                program: vec!["/usr/bin/compiler".to_owned()],
                target: vec!["--target=wasm32-wasi".to_owned()],
                is_zig,
                ..FoundToolchain::default()
            },
            language,
            sdk_root: "/sdk".to_owned(),
            include: "/sdk/include".to_owned(),
        }
    }

    #[test]
    fn clang_links_the_cpp_library_only_for_cpp() {
        let step = |language, is_zig| compiler(language, is_zig).step(Vec::new()).args;
        let driver = "--driver-mode=g++".to_owned();
        assert!(step(PluginLanguage::Cpp, false).contains(&driver));
        assert!(!step(PluginLanguage::C, false).contains(&driver));
        assert!(!step(PluginLanguage::Cpp, true).contains(&driver));
    }

    #[test]
    fn clang_gets_the_folder_of_libraries_only_to_link() {
        let mut compiler = compiler(PluginLanguage::C, false);
        compiler.toolchain.target.push("-L/usr/lib".to_owned());
        assert!(
            !compiler
                .step(Vec::new())
                .args
                .contains(&"-L/usr/lib".to_owned())
        );
        assert_eq!(compiler.link_options()[0], "-L/usr/lib");
    }

    #[test]
    fn c_sources_are_arguments_after_the_options() {
        let step = compiler(PluginLanguage::C, false).step(vec!["tool.c".to_owned()]);
        assert_eq!(step.args[0], "/usr/bin/compiler");
        assert_eq!(step.args.last().unwrap(), "tool.c");
        assert!(step.args.contains(&"-std=gnu17".to_owned()));
        assert!(!step.args.contains(&"-std=c++20".to_owned()));
    }
}
