//! Environment variables that change which program runs, or make a program run another one.

/// Names, in lower case, of variables from which programs or the shell take code or commands.
const RISKY_NAMES: &[&str] = &[
    "ar",
    "as",
    "bash_env",
    "bash_compat",
    "posixly_correct",
    "bashopts",
    "browser",
    "cc",
    "comspec",
    "cpp",
    "cxx",
    "display",
    "docker_host",
    "editor",
    "env",
    "fcedit",
    "fpath",
    "gconv_path",
    "goauth",
    "gobin",
    "gocache",
    "gocacheprog",
    "goenv",
    "goexperiment",
    "gomodcache",
    "gonoproxy",
    "gonosumdb",
    "goprivate",
    "goproxy",
    "goroot",
    "gosumdb",
    "gotmpdir",
    "gotoolchain",
    "govcs",
    "groovy_opts",
    "home",
    "hostaliases",
    "ifs",
    "ld",
    "lessclose",
    "lessopen",
    "linker",
    "locpath",
    "magic",
    "mail",
    "make",
    "nix_path",
    "nlspath",
    "node_extra_ca_certs",
    "openssl_conf",
    "pager",
    "path",
    "perllib",
    "ps0",
    "ps1",
    "ps2",
    "ps3",
    "ps4",
    "rubylib",
    "rubyopt",
    "rustc",
    "rustdoc",
    "shell",
    "shellopts",
    "sudo_askpass",
    "term_program",
    "terminfo",
    "terminfo_dirs",
    "termcap",
    "tmpdir",
    "visual",
    "zdotdir",
];

/// Prefixes of such names.
const RISKY_PREFIXES: &[&str] = &[
    "bash_func",
    "bun_",
    "cargo_",
    "cgo_",
    "cmake_",
    "deno_",
    "dotnet_",
    "dyld_",
    "electron_",
    "gem_",
    "git_",
    "gradle_",
    "java",
    "jdk_",
    "ld_",
    "maven_",
    "npm_",
    "perl5",
    "pip_",
    "pnpm_",
    "poetry_",
    "pytest_",
    "python",
    "rustup_",
    "ssh_",
    "uv_",
    "xdg_",
    "yarn_",
];

/// Suffixes of such names.
const RISKY_SUFFIXES: &[&str] = &[
    "_args",
    "_askpass",
    "_cmd",
    "_command",
    "_conf",
    "_config",
    "_editor",
    "_exec",
    "_flags",
    "_hook",
    "_init",
    "_lib",
    "_launcher",
    "_linker",
    "_opts",
    "_options",
    "_pager",
    "_preload",
    "_proxy",
    "_rc",
    "_runner",
    "_shell",
    "_startup",
    "_wrapper",
    "flags",
    "path",
    "rcfile",
];

/// Exceptions that only change the output of a program.
const HARMLESS: &[&str] = &[
    "cargo_incremental",
    "cargo_term_color",
    "cargo_term_progress_when",
    "cargo_term_quiet",
    "cargo_term_verbose",
    "git_no_lazy_fetch",
    "git_pager_in_use",
    "git_terminal_prompt",
    "npm_config_loglevel",
    "npm_config_yes",
    "pip_no_input",
    "pythondontwritebytecode",
    "pythonhashseed",
    "pythonioencoding",
    "pythonunbuffered",
    "pythonutf8",
];

/// Returns true if a variable may be set for a command without approval, since it does not select code or programs to
/// run. Ignores case.
pub fn is_harmless(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let name = name.as_str();
    HARMLESS.contains(&name)
        || !(RISKY_NAMES.contains(&name)
            || RISKY_PREFIXES.iter().any(|start| name.starts_with(start))
            || RISKY_SUFFIXES.iter().any(|end| name.ends_with(end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_variables_that_change_programs_are_not_harmless() {
        for bad in [
            "PATH",
            "LD_PRELOAD",
            "BASH_ENV",
            "ENV",
            "IFS",
            "GIT_SSH_COMMAND",
            "GIT_EXTERNAL_DIFF",
            "PYTHONPATH",
            "NODE_OPTIONS",
            "RUSTC_WRAPPER",
            "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER",
            "RUSTFLAGS",
            "http_proxy",
            "HOME",
            "LESSOPEN",
            "PAGER",
            "GOFLAGS",
            "MAKEFLAGS",
            "CDPATH",
            "BASH_FUNC_ls%%",
            "PROMPT_COMMAND",
            "npm_config_script_shell",
            "PERL5OPT",
            "RUBYOPT",
            "XDG_CONFIG_HOME",
            "ld_library_path",
        ] {
            assert!(!is_harmless(bad), "{bad}");
        }
        for good in [
            "RUST_BACKTRACE",
            "RUST_LOG",
            "CI",
            "NODE_ENV",
            "i",
            "name",
            "DEBUG",
            "LANG",
            "TZ",
            "CARGO_TERM_COLOR",
            "PYTHONUNBUFFERED",
            "GIT_TERMINAL_PROMPT",
            "PORT",
        ] {
            assert!(is_harmless(good), "{good}");
        }
    }
}
