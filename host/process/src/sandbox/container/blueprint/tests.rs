use super::*;
use crate::sandbox::WorkspacePart;
use mimir_core::command::CommandProgram;

fn spec(workspace: &Path) -> CommandSpec {
    CommandSpec::new(CommandProgram::Vector(vec!["true".into()]), workspace)
}

struct TestWorkspace(tempfile::TempDir);

impl TestWorkspace {
    fn new(files: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        }
        Self(folder)
    }

    fn path(&self) -> PathBuf {
        self.0.path().canonicalize().unwrap()
    }

    fn blueprint(&self, spec: &CommandSpec) -> ContainerBlueprint {
        ContainerBlueprint::new("x", &ContainerEngineFacts::all(), spec).unwrap()
    }
}

fn mount_at<'a>(blueprint: &'a ContainerBlueprint, path: &Path) -> Option<&'a Mount> {
    let mounts = blueprint.body.host_config.as_ref()?.mounts.as_ref()?;
    mounts
        .iter()
        .find(|mount| mount.target.as_deref() == path.to_str())
}

#[test]
fn blueprint_masks_protected_paths_of_the_workspace() {
    let workspace =
        TestWorkspace::new(&[".env", ".git/config", ".git/hooks/x", ".ssh/id_rsa", "a"]);
    let blueprint = workspace.blueprint(&spec(&workspace.path()));
    let path = |name: &str| match name {
        "" => workspace.path(),
        name => workspace.path().join(name),
    };
    let writable = |name: &str| mount_at(&blueprint, &path(name)).unwrap().read_only == Some(false);
    assert!(
        writable("") && writable(".git"),
        "`.git` must be pinned and writable"
    );
    for name in [".git/config", ".git/hooks", ".mimir"] {
        assert!(!writable(name), "{name}");
    }
    let env = mount_at(&blueprint, &path(".env")).unwrap();
    assert_eq!(
        (env.source.as_deref(), env.read_only),
        (Some("/dev/null"), Some(true))
    );
    assert!(mount_at(&blueprint, &path("a")).is_none());
    for podman in [false, true] {
        let facts = ContainerEngineFacts {
            podman,
            ..ContainerEngineFacts::all()
        };
        let blueprint = ContainerBlueprint::new("x", &facts, &spec(&workspace.path())).unwrap();
        let host = blueprint.body.host_config.as_ref().unwrap();
        let folder = path(".ssh").to_str().unwrap().to_owned();
        let options = &host.tmpfs.as_ref().unwrap()[&folder];
        assert!(
            options.contains("mode=555") && options.contains("ro,"),
            "{options}"
        );
        // Without this option, Podman copies hidden files into the folder that hides them.
        assert_eq!(options.contains("notmpcopyup"), podman);
        assert!(
            mount_at(&blueprint, &path(".ssh")).is_none()
                && mount_at(&blueprint, &path(".ssh/id_rsa")).is_none()
        );
    }
}

#[test]
fn blueprint_masks_protected_paths_of_writable_mounts() {
    let workspace = TestWorkspace::new(&["a"]);
    let other = TestWorkspace::new(&[".git/config", ".git/HEAD", ".env", "b"]);
    let mut spec = spec(&workspace.path());
    let mount = |at: &str, writable| crate::sandbox::HostMount {
        from: other.path(),
        at: at.into(),
        writable,
    };
    spec.mounts = vec![mount("/data", true), mount("/read", false)];
    let blueprint = workspace.blueprint(&spec);
    let mounted_at = |path: &str| mount_at(&blueprint, Path::new(path));
    for name in [".git/config", ".git/hooks"] {
        let cover = mounted_at(&format!("/data/{name}")).unwrap();
        assert_eq!(cover.source.as_deref(), other.path().join(name).to_str());
        assert_eq!(cover.read_only, Some(true), "{name}");
    }
    let pin = mounted_at("/data/.git").unwrap();
    assert_eq!(pin.read_only, Some(false));
    let env = mounted_at("/data/.env").unwrap();
    assert_eq!(env.source.as_deref(), Some("/dev/null"));
    assert!(mounted_at("/data/b").is_none() && mounted_at("/read/.env").is_none());
    assert!(mounted_at("/data/.mimir").is_none());
    let config = other.path().join(".git/config");
    let covered = blueprint.covered();
    assert!(covered.iter().any(|seen| seen.path() == config));
}

#[test]
fn blueprint_lets_files_in_a_read_only_folder_be_replaced() {
    let workspace = TestWorkspace::new(&[".mimir/config.yml", ".mimir/state/x", ".env"]);
    let blueprint = workspace.blueprint(&spec(&workspace.path()));
    let covered = blueprint.covered();
    let is_covered = |path: &str| {
        let path = workspace.path().join(path);
        covered.iter().any(|seen| seen.path() == path)
    };
    assert!(!is_covered(".mimir/config.yml"));
    for path in [".mimir", ".mimir/state", ".env"] {
        assert!(is_covered(path), "{path}");
    }
}

#[test]
fn blueprint_grants_no_capabilities_or_network() {
    let workspace = TestWorkspace::new(&[]);
    let blueprint = workspace.blueprint(&spec(&workspace.path()));
    let host = blueprint.body.host_config.unwrap();
    assert_eq!(host.network_mode.as_deref(), Some("none"));
    assert_eq!(host.readonly_rootfs, Some(true));
    assert_eq!(host.cap_drop.as_deref(), Some(&["ALL".to_owned()][..]));
    // The engine's own filter of system calls is active unless it is disabled here.
    assert_eq!(
        host.security_opt,
        Some(vec!["no-new-privileges".to_owned()])
    );
    assert_eq!(
        (host.privileged, host.cap_add, host.pid_mode),
        (None, None, None)
    );
    assert_eq!(host.memory_swap, host.memory);
    assert_eq!(host.memory, Some(8 << 30));
    assert_eq!(blueprint.body.env, None);
}

#[test]
fn blueprint_limits_use_the_units_of_the_engine() {
    let workspace = TestWorkspace::new(&[]);
    let mut spec = spec(&workspace.path());
    spec.bounds.cpu = Some(150);
    spec.bounds.processes = ResourceBound::Requested(9);
    let host = workspace.blueprint(&spec).body.host_config.unwrap();
    assert_eq!(
        (host.cpu_quota, host.cpu_period),
        (Some(150_000), Some(100_000))
    );
    assert_eq!(host.pids_limit, Some(9));
    let limits = host.ulimits.unwrap();
    let files = limits
        .iter()
        .find(|limit| limit.name.as_deref() == Some("nofile"));
    let own = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let limit = own.maximum.map_or(65_536, |own| own.min(65_536));
    assert_eq!(files.unwrap().hard, i64::try_from(limit).ok());
    let none = ContainerEngineFacts {
        memory: false,
        pids: false,
        ..ContainerEngineFacts::all()
    };
    let host = ContainerBlueprint::new("x", &none, &spec)
        .unwrap()
        .body
        .host_config
        .unwrap();
    assert_eq!(
        (host.memory, host.memory_swap, host.pids_limit),
        (None, None, None)
    );
}

#[test]
fn blueprint_mounts_only_the_visible_parts() {
    let workspace = TestWorkspace::new(&["src/a", "b/.env", "c"]);
    let mut spec = spec(&workspace.path());
    spec.visible_parts = vec![WorkspacePart {
        below: "src".into(),
        writable: false,
    }];
    let blueprint = workspace.blueprint(&spec);
    assert_eq!(
        mount_at(&blueprint, &workspace.path().join("src"))
            .unwrap()
            .read_only,
        Some(true)
    );
    assert_eq!(blueprint.body.host_config.unwrap().mounts.unwrap().len(), 1);
}

#[test]
fn blueprint_differs_after_a_masked_file_is_replaced() {
    let workspace = TestWorkspace::new(&[".env", "a"]);
    let spec = spec(&workspace.path());
    let before = workspace.blueprint(&spec);
    if !before.can_verify_mounts() {
        return;
    }
    std::fs::write(workspace.path().join("a"), "other").unwrap();
    std::fs::write(workspace.path().join("b"), "new").unwrap();
    std::fs::write(workspace.path().join(".env"), "written again").unwrap();
    assert_eq!(
        workspace.blueprint(&spec),
        before,
        "the blueprint changed although no masked file was replaced"
    );
    // Replaces the file by a rename, as editors do when they save.
    std::fs::write(workspace.path().join("new"), "x").unwrap();
    std::fs::rename(workspace.path().join("new"), workspace.path().join(".env")).unwrap();
    let after = workspace.blueprint(&spec);
    assert_ne!(after, before, "the replaced masked file was not detected");
    std::fs::write(workspace.path().join("key.pem"), "x").unwrap();
    assert_ne!(
        workspace.blueprint(&spec),
        after,
        "the added masked file was not detected"
    );
}

#[test]
fn mounts_of_system_folders_or_engine_socket_are_rejected() {
    let socket = Path::new("/srv/engine/docker.sock");
    for bad in [
        "/",
        "/usr",
        "/home",
        HOME,
        "/tmp",
        "/etc/x",
        "/proc/self",
        "/run/x",
        "/var",
    ] {
        let fault = check_mounts(&spec(Path::new(bad)), socket).unwrap_err();
        assert!(
            matches!(fault, SandboxError::Workspace(_)),
            "{bad}: {fault}"
        );
    }
    assert!(check_mounts(&spec(Path::new("/srv")), socket).is_err());
    for good in [
        "/home/p",
        "/home/mimir/workspace",
        "/tmp/x",
        "/srv/x",
        "/var/lib/x",
    ] {
        assert!(
            check_mounts(&spec(Path::new(good)), socket).is_ok(),
            "{good}"
        );
    }
    for (from, at, accepted) in [
        ("/srv", "/data", false),
        ("/srv/engine/docker.sock", "/s", false),
        ("/srv/other", "/data", true),
        ("/data", "/", false),
        ("/data", "/tmp", false),
        ("/data", "/tmp/x", true),
        ("/data", HOME, false),
    ] {
        let mut spec = spec(Path::new("/home/p"));
        spec.mounts = vec![crate::sandbox::HostMount {
            from: from.into(),
            at: at.into(),
            writable: false,
        }];
        assert_eq!(
            check_mounts(&spec, socket).is_ok(),
            accepted,
            "{from} at {at}"
        );
    }
}
