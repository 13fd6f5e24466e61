//! What of this machine a command sees: its programs and libraries, where toolchains of the person are, and nothing
//! else of the person. Looked up once; it is the same for every command.

use std::fs;
use std::path::{Path, PathBuf};

use crate::sandbox::environment::Ambient;
use crate::sandbox::person::Person;

/// What every machine keeps its programs and libraries in.
const SYSTEM: &[&str] = &[
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
    // How many processors there are.
    "/sys/devices/system/cpu",
];

/// Settings that programs do not run without, and no more, since each takes its time to be mounted. None of them says
/// anything about the person or about what else runs here. Certificates are public; keys are in folders beside them.
const SETTINGS: &[&str] = &[
    "/etc/alternatives",
    "/etc/crypto-policies",
    "/etc/fonts",
    "/etc/java",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
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

/// Where toolchains live in a home. Each is named down to what holds programs and their libraries: settings and
/// credentials lie beside them.
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

/// What a command sees of this machine.
#[derive(Debug, Clone)]
pub(super) struct View {
    pub(super) places: Vec<Place>,
    /// Folders of the `PATH` that a command sees.
    pub(super) path: Vec<PathBuf>,
    /// Where the private home is: where the person's own is, since toolchains look for themselves there.
    pub(super) home: PathBuf,
    /// Where this machine's own devices are.
    pub(super) devices: Vec<PathBuf>,
    /// Whose commits git makes.
    pub(super) person: Person,
}

/// Something of this machine, read-only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// A folder or file.
    There { from: PathBuf, at: PathBuf },
    /// A link.
    Link { at: PathBuf, to: PathBuf },
}

impl Place {
    fn at(&self) -> &Path {
        match self {
            Self::There { at, .. } | Self::Link { at, .. } => at,
        }
    }
}

/// A home for those who have none.
const NO_HOME: &str = "/home/mimir";

/// Devices that give and take nothing but bytes.
const DEVICES: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
];

impl View {
    pub(super) fn of_this_machine(ambient: &Ambient) -> Self {
        let mut places: Vec<Place> = Vec::new();
        for path in SYSTEM.iter().chain(SETTINGS) {
            places.extend(place(Path::new(path)));
        }
        places.extend(versioned_java());
        let home = ambient
            .home
            .clone()
            .and_then(|home| home.canonicalize().ok());
        let home = home.unwrap_or_else(|| NO_HOME.into());
        for below in TOOLCHAINS {
            places.extend(place(&home.join(below)));
        }
        let settings = home.join(".cargo/config.toml");
        if fs::read_to_string(&settings).is_ok_and(|text| !text.contains("token")) {
            places.extend(place(&settings));
        }
        let seen = |folder: &PathBuf| {
            let real = folder.canonicalize().ok();
            real.is_some_and(|real| {
                places.iter().any(|place| match place {
                    Place::There { from, at } => folder.starts_with(at) || real.starts_with(from),
                    Place::Link { .. } => false,
                })
            })
        };
        let path = ambient
            .path
            .iter()
            .filter(|folder| seen(folder))
            .cloned()
            .collect();
        let devices = DEVICES
            .iter()
            .map(PathBuf::from)
            .filter(|path| path.exists());
        Self {
            path,
            person: Person::of(&home),
            home,
            devices: devices.collect(),
            places,
        }
    }

    /// Whether a sandbox with this workspace would still be one.
    pub(super) fn takes(&self, workspace: &Path) -> bool {
        // What a sandbox is made of, and what speaks for the whole machine.
        let made_of = ["/proc", "/sys", "/dev", "/run", "/etc", "/boot"];
        let inside = made_of.iter().any(|made| workspace.starts_with(made));
        let above = self
            .places
            .iter()
            .map(Place::at)
            .filter(|at| !at.starts_with(&self.home));
        let above = above
            .chain(made_of.iter().map(Path::new))
            .any(|at| at.starts_with(workspace));
        let homes = self.home != workspace && self.home.starts_with(workspace);
        !(inside || above || homes)
    }
}

/// Java keeps what its libraries link to below /etc, in a folder named after its version.
fn versioned_java() -> impl Iterator<Item = Place> {
    let entries = Path::new("/etc").read_dir().into_iter().flatten().flatten();
    let java = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("java-"));
    java.filter_map(|entry| place(&entry.path()))
}

fn place(at: &Path) -> Option<Place> {
    let metadata = at.symlink_metadata().ok()?;
    if metadata.is_symlink() && at.parent() == Some(Path::new("/")) {
        // `/bin` where it is a link to `usr/bin`.
        return Some(Place::Link {
            at: at.to_owned(),
            to: fs::read_link(at).ok()?,
        });
    }
    let from = at.canonicalize().ok()?;
    Some(Place::There {
        from,
        at: at.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_the_person_is_seen_but_toolchains() {
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
        let mut ambient = Ambient::of_this_process();
        ambient.home = Some(home.clone());
        ambient.path = vec![
            home.join(".cargo/bin"),
            home.join("secret"),
            "/usr/bin".into(),
        ];
        let view = View::of_this_machine(&ambient);
        let below: Vec<_> = view
            .places
            .iter()
            .filter(|place| place.at().starts_with(&home))
            .collect();
        let bin = home.join(".cargo/bin");
        assert_eq!(
            below,
            [&Place::There {
                from: bin.clone(),
                at: bin.clone()
            }]
        );
        assert_eq!(view.path, [bin, "/usr/bin".into()]);
    }

    #[test]
    fn a_workspace_that_holds_the_sandbox_is_none() {
        let mut ambient = Ambient::of_this_process();
        ambient.home = Some("/".into());
        let view = View {
            home: "/home/p".into(),
            ..View::of_this_machine(&ambient)
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
            assert!(!view.takes(Path::new(bad)), "{bad}");
        }
        for good in [
            "/home/p",
            "/home/p/work",
            "/tmp/x",
            "/srv/x",
            "/usr/local/src/x",
        ] {
            assert!(view.takes(Path::new(good)), "{good}");
        }
    }
}
