//! Host files visible to commands: programs, libraries and the user's toolchains, but no other files of the user.
//! Collected once for all commands.

use std::fs;
use std::path::{Path, PathBuf};

use crate::sandbox::environment::AmbientEnvironment;
use crate::sandbox::git_identity::GitIdentity;
use crate::sandbox::special_folders::SYSTEM_FOLDERS;

/// Folders of programs and libraries, on any kind of system.
const PROGRAM_FOLDERS: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    "/nix/store",
    "/gnu/store",
    "/run/current-system",
    "/home/linuxbrew/.linuxbrew",
    // The number of processors.
    "/sys/devices/system/cpu",
];

/// System settings that programs need to run. The list is short because each mount takes time. No entry reveals
/// anything about the user or other programs. Certificates are public; keys are in neighboring folders.
const SYSTEM_SETTINGS: &[&str] = &[
    "/etc/alternatives",
    "/etc/crypto-policies",
    "/etc/fonts",
    "/etc/java",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    // Without the neighboring `settings.xml`, which may have passwords.
    "/etc/maven/logging",
    "/etc/maven/m2.conf",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/perl",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/certs",
    "/etc/pki/tls/cert.pem",
    "/etc/protocols",
    "/etc/python3",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/cert.pem",
    "/etc/ssl/openssl.cnf",
    "/etc/terminfo",
    "/etc/timezone",
];

/// Toolchain folders in a home directory, narrowed to programs and their libraries, because settings and credentials
/// are in neighboring folders.
const TOOLCHAINS: &[&str] = &[
    ".asdf",
    ".bun/bin",
    ".cargo/bin",
    ".cargo/env",
    ".cargo/git",
    ".cargo/registry",
    ".deno/bin",
    ".dotnet",
    ".fnm",
    ".gem/ruby",
    ".ghcup/bin",
    ".ghcup/ghc",
    ".goenv",
    ".jenv",
    ".juliaup",
    ".local/bin",
    ".local/lib",
    ".local/share/fnm",
    ".local/share/mise",
    ".local/share/pipx",
    ".local/share/pnpm",
    ".local/share/uv",
    ".m2/repository",
    ".nvm",
    ".opam",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".rvm",
    ".sdkman/candidates",
    ".volta",
    "go/bin",
    "go/pkg",
];

/// Variables with the path of a toolchain, and the visible folders below it; an empty name stands for the whole folder.
/// The variable is passed to commands, too.
const TOOLCHAIN_VARIABLES: &[(&str, &[&str])] = &[
    ("CARGO_HOME", &["bin", "env", "git", "registry"]),
    ("GOROOT", &[""]),
    ("JAVA_HOME", &[""]),
    ("NVM_DIR", &[""]),
    ("PYENV_ROOT", &[""]),
    ("RUSTUP_HOME", &[""]),
    ("VOLTA_HOME", &[""]),
];

/// Host files visible to a command.
#[derive(Debug, Clone)]
pub(super) struct MachineView {
    pub(super) entries: Vec<MachineEntry>,
    /// Folders from variables. A folder in the workspace is as writable as the workspace.
    pub(super) named: Vec<MachineEntry>,
    /// Visible folders of the `PATH`.
    pub(super) path: Vec<PathBuf>,
    /// Path of the private home: that of the user's home, because toolchains look for themselves there.
    pub(super) home: PathBuf,
    /// Paths of the available devices.
    pub(super) devices: Vec<PathBuf>,
    /// Author of git commits.
    pub(super) git_identity: GitIdentity,
}

/// Read-only host path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MachineEntry {
    /// A folder or file to mount.
    Existing { from: PathBuf, at: PathBuf },
    /// A symbolic link to create.
    Link { at: PathBuf, to: PathBuf },
}

impl MachineEntry {
    pub(super) fn at(&self) -> &Path {
        match self {
            Self::Existing { at, .. } | Self::Link { at, .. } => at,
        }
    }
}

/// Home directory for users without one.
const NO_HOME: &str = "/home/mimir";

/// Devices that only read and write bytes.
const DEVICES: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
];

impl MachineView {
    pub(super) fn of_this_machine(ambient: &AmbientEnvironment) -> Self {
        let mut entries: Vec<MachineEntry> = Vec::new();
        for path in PROGRAM_FOLDERS.iter().chain(SYSTEM_SETTINGS) {
            entries.extend(machine_entry(Path::new(path)));
        }
        entries.extend(versioned_java());
        let home = ambient
            .home
            .clone()
            .and_then(|home| home.canonicalize().ok());
        let home = home.unwrap_or_else(|| NO_HOME.into());
        for below in TOOLCHAINS {
            entries.extend(machine_entry(&home.join(below)));
        }
        entries.extend(cargo_settings(&home.join(".cargo")));
        let named = toolchains_from_variables(ambient, &home, &entries);
        let is_visible = |folder: &PathBuf| {
            let real = folder.canonicalize().ok();
            real.is_some_and(|real| {
                entries.iter().chain(&named).any(|entry| match entry {
                    MachineEntry::Existing { from, at } => {
                        folder.starts_with(at) || real.starts_with(from)
                    }
                    MachineEntry::Link { .. } => false,
                })
            })
        };
        let path = ambient
            .path
            .iter()
            .filter(|folder| is_visible(folder))
            .cloned()
            .collect();
        let devices = DEVICES
            .iter()
            .map(PathBuf::from)
            .filter(|path| path.exists());
        Self {
            path,
            git_identity: GitIdentity::read_from(&home),
            home,
            devices: devices.collect(),
            entries,
            named,
        }
    }

    /// Returns true if this workspace can be mounted without undermining the sandbox.
    pub(super) fn accepts_workspace(&self, workspace: &Path) -> bool {
        let inside = SYSTEM_FOLDERS
            .iter()
            .any(|system_folder| workspace.starts_with(system_folder));
        let above = self
            .entries
            .iter()
            .map(MachineEntry::at)
            .filter(|at| !at.starts_with(&self.home));
        let above = above
            .chain(SYSTEM_FOLDERS.iter().map(Path::new))
            .any(|at| at.starts_with(workspace));
        let contains_home = self.home != workspace && self.home.starts_with(workspace);
        !(inside || above || contains_home)
    }
}

/// Returns cargo's settings file, unless it contains a credential.
fn cargo_settings(cargo: &Path) -> Option<MachineEntry> {
    let settings = cargo.join("config.toml");
    let text = fs::read_to_string(&settings).ok()?;
    (!text.contains("token"))
        .then(|| machine_entry(&settings))
        .flatten()
}

/// Returns the toolchain folders from variables, unless they are visible anyway. Ignores a variable with the home, a
/// folder above it or a system folder: these are not toolchains.
fn toolchains_from_variables(
    ambient: &AmbientEnvironment,
    home: &Path,
    entries: &[MachineEntry],
) -> Vec<MachineEntry> {
    let mut folders = Vec::new();
    for (name, parts) in TOOLCHAIN_VARIABLES {
        let value = ambient.passed.iter().find(|(known, _)| known == name);
        let Some(folder) = value.map(|(_, value)| Path::new(value)) else {
            continue;
        };
        let Some(real) = folder.canonicalize().ok().filter(|real| real.is_dir()) else {
            continue;
        };
        let is_machine = |path: &Path| {
            home.starts_with(path)
                || path.parent().is_none_or(|above| above.parent().is_none())
                || SYSTEM_FOLDERS
                    .iter()
                    .any(|system_folder| path.starts_with(system_folder))
        };
        let is_listed = |entry: &MachineEntry| match entry {
            MachineEntry::Existing { from, at } => folder.starts_with(at) && real.starts_with(from),
            MachineEntry::Link { .. } => false,
        };
        if !folder.is_absolute()
            || is_machine(folder)
            || is_machine(&real)
            || entries.iter().any(is_listed)
        {
            continue;
        }
        // A path with `..` or symbolic links is an alias; the mount uses the canonical path.
        let path_of = |part: &str| match part {
            "" => real.clone(),
            part => real.join(part),
        };
        folders.extend(
            parts
                .iter()
                .filter_map(|part| machine_entry(&path_of(part))),
        );
        if *name == "CARGO_HOME" {
            folders.extend(cargo_settings(&real));
        }
        if real != *folder
            && !SYSTEM_FOLDERS
                .iter()
                .any(|system_folder| folder.starts_with(system_folder))
        {
            folders.extend(
                folder
                    .parent()
                    .and_then(|above| above.canonicalize().ok())
                    .and_then(|above| {
                        let at = above.join(folder.file_name()?);
                        (at != real).then(|| MachineEntry::Link {
                            at,
                            to: real.clone(),
                        })
                    }),
            );
        }
    }
    folders
}

/// Returns the versioned folders below `/etc` that Java's libraries link to.
fn versioned_java() -> impl Iterator<Item = MachineEntry> {
    let entries = Path::new("/etc").read_dir().into_iter().flatten().flatten();
    let java = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("java-"));
    java.filter_map(|entry| machine_entry(&entry.path()))
}

fn machine_entry(at: &Path) -> Option<MachineEntry> {
    let metadata = at.symlink_metadata().ok()?;
    if metadata.is_symlink() && at.parent() == Some(Path::new("/")) {
        // `/bin` is often a link to `usr/bin`.
        return Some(MachineEntry::Link {
            at: at.to_owned(),
            to: fs::read_link(at).ok()?,
        });
    }
    let from = at.canonicalize().ok()?;
    // A link such as `/etc/localtime` leads to a visible file; creating a link takes a quarter of the time of a mount.
    if metadata.is_symlink() && from.starts_with("/usr") && !at.starts_with("/usr") {
        return Some(MachineEntry::Link {
            at: at.to_owned(),
            to: from,
        });
    }
    Some(MachineEntry::Existing {
        from,
        at: at.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn home_is_hidden_except_toolchains() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        for file in [
            ".cargo/bin/cargo",
            ".cargo/credentials.toml",
            ".ssh/id_rsa",
            ".bash_history",
            ".aws/credentials",
            ".cargo/config.toml",
        ] {
            fs::create_dir_all(home.join(file).parent().unwrap()).unwrap();
            fs::write(home.join(file), "[registry]\ntoken = 'x'").unwrap();
        }
        let mut ambient = AmbientEnvironment::of_this_process();
        ambient.home = Some(home.clone());
        ambient.path = vec![
            home.join(".cargo/bin"),
            home.join("secret"),
            "/usr/bin".into(),
        ];
        let view = MachineView::of_this_machine(&ambient);
        let below: Vec<_> = view
            .entries
            .iter()
            .filter(|entry| entry.at().starts_with(&home))
            .collect();
        let bin = home.join(".cargo/bin");
        assert_eq!(
            below,
            [&MachineEntry::Existing {
                from: bin.clone(),
                at: bin.clone()
            }]
        );
        assert_eq!(view.path, [bin, "/usr/bin".into()]);
    }

    #[test]
    fn toolchains_in_variables_are_visible_but_not_other_folders() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        let home = real.join("people/me");
        for file in [
            "rust/cargo/bin/cargo",
            "rust/cargo/credentials.toml",
            "rust/up/x",
            "people/me/x",
        ] {
            fs::create_dir_all(real.join(file).parent().unwrap()).unwrap();
            fs::write(real.join(file), "x").unwrap();
        }
        std::os::unix::fs::symlink("up", real.join("rust/link")).unwrap();
        let mut ambient = AmbientEnvironment::of_this_process();
        ambient.home = Some(home.clone());
        let value = |path: &str| real.join(path).to_str().unwrap().to_owned();
        ambient.passed = vec![
            ("CARGO_HOME".into(), value("rust/cargo")),
            ("RUSTUP_HOME".into(), value("rust/link")),
            // These do not name a toolchain.
            ("JAVA_HOME".into(), value("people/me")),
            ("GOROOT".into(), value("people")),
            ("NVM_DIR".into(), "/".into()),
            ("PYENV_ROOT".into(), "/etc/ssh".into()),
            ("VOLTA_HOME".into(), "/usr/lib".into()),
            ("LANG".into(), value("rust")),
        ];
        ambient.path = vec![real.join("rust/cargo/bin"), real.join("people")];
        let view = MachineView::of_this_machine(&ambient);
        let existing = |path: &str| MachineEntry::Existing {
            from: real.join(path),
            at: real.join(path),
        };
        let link = MachineEntry::Link {
            at: real.join("rust/link"),
            to: real.join("rust/up"),
        };
        assert_eq!(
            view.named,
            [existing("rust/cargo/bin"), existing("rust/up"), link]
        );
        assert_eq!(view.path, [real.join("rust/cargo/bin")]);
        assert!(
            view.accepts_workspace(&real.join("rust")),
            "a workspace with its own toolchain was rejected"
        );
    }

    #[test]
    fn workspace_in_a_system_folder_is_not_accepted() {
        let mut ambient = AmbientEnvironment::of_this_process();
        ambient.home = Some("/".into());
        let view = MachineView {
            home: "/home/p".into(),
            ..MachineView::of_this_machine(&ambient)
        };
        for bad in [
            "/",
            "/usr",
            "/etc",
            "/etc/x",
            "/proc/self",
            "/dev",
            "/home",
            "/run/user/1",
        ] {
            assert!(!view.accepts_workspace(Path::new(bad)), "{bad}");
        }
        for good in [
            "/home/p",
            "/home/p/work",
            "/tmp/x",
            "/srv/x",
            "/usr/local/src/x",
        ] {
            assert!(view.accepts_workspace(Path::new(good)), "{good}");
        }
    }
}
