//! `mimir tools add`, `push`, `update`, `search`, `verify` and `vendor` with a registry on a local port: what is pinned,
//! and which content of a lying registry is refused.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::kit::oci_registry::{OciRegistry, digest_of};
use crate::kit::{self, plugin};

mod attacks;
mod offline;
mod publishing;
mod updates;

const TOOL: &str = ".mimir/tools/prob.wasm";
const PASSWORD: &str = "correct horse";

/// A workspace whose settings allow requests to registries on this machine.
struct RegistryWorkspace {
    home: tempfile::TempDir,
    registry: OciRegistry,
}

impl RegistryWorkspace {
    fn new() -> Self {
        Self::with_registry(OciRegistry::start())
    }

    fn with_registry(registry: OciRegistry) -> Self {
        let workspace = Self {
            home: tempfile::tempdir().unwrap(),
            registry,
        };
        fs::create_dir_all(kit::config(workspace.path())).unwrap();
        workspace.configure("");
        workspace
    }

    fn path(&self) -> &Path {
        self.home.path()
    }

    /// Replaces the user's settings, which always allow the registry.
    fn configure(&self, settings: &str) {
        let address = self.registry.address();
        let text = format!("network: {{allowedHosts: ['{address}']}}\n{settings}\n");
        fs::write(kit::config(self.path()).join("config.yml"), text).unwrap();
    }

    /// Settings that trust a key of the user for all repositories of the registry.
    fn trust(&self, key: &str) -> String {
        format!(
            "trust: [{{registry: '{}/*', keys: [{key}]}}]",
            self.registry.address()
        )
    }

    /// Creates a signing key of the user.
    fn key(&self, name: &str) {
        let (code, _, err) = self.run_with_password(&["keys", "new", name]);
        assert_eq!(code, 0, "{err}");
    }

    fn run(&self, args: &[&str]) -> (i32, String, String) {
        self.run_with(args, &[])
    }

    fn run_with_password(&self, args: &[&str]) -> (i32, String, String) {
        self.run_with(args, &[("MIMIR_KEY_PASSWORD", PASSWORD)])
    }

    fn run_with(&self, args: &[&str], variables: &[(&str, &str)]) -> (i32, String, String) {
        let mut command = kit::mimir(self.path(), args);
        command.env("HOME", self.path().join("nowhere"));
        command.env_remove("DOCKER_CONFIG");
        for (name, value) in variables {
            command.env(name, value);
        }
        let output = command.stdin(Stdio::null()).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let code = output.status.code().unwrap();
        (code, text(output.stdout), text(output.stderr))
    }

    fn json(&self, args: &[&str]) -> (i32, Value) {
        let args = [&["--json"], args].concat();
        let (code, out, err) = self.run(&args);
        let value = serde_json::from_str(&out);
        (
            code,
            value.unwrap_or_else(|error| panic!("{error}: {out}{err}")),
        )
    }

    /// Pushes a component to `acme/prob:TAG`. Returns the digest of its manifest.
    fn push(&self, component: &[u8], tag: &str, args: &[&str]) -> String {
        let (code, out, err) = self.try_push(component, tag, args);
        assert_eq!(code, 0, "{out}{err}");
        self.registry.digest(&format!("acme/prob:{tag}"))
    }

    fn try_push(&self, component: &[u8], tag: &str, args: &[&str]) -> (i32, String, String) {
        let file = self.path().join("prob.wasm");
        fs::write(&file, component).unwrap();
        let reference = self.reference(tag);
        let fixed = ["tools", "push", "prob.wasm", &reference];
        let pushed = self.run_with_password(&[&fixed, args].concat());
        fs::remove_file(&file).unwrap();
        pushed
    }

    fn reference(&self, tag: &str) -> String {
        self.registry.reference(&format!("acme/prob:{tag}"))
    }

    fn add(&self, tag: &str, args: &[&str]) -> (i32, String, String) {
        let reference = self.reference(tag);
        self.run(&[&["tools", "add", &reference], args].concat())
    }

    fn tool(&self) -> PathBuf {
        self.path().join(TOOL)
    }

    fn lock(&self) -> String {
        fs::read_to_string(self.path().join(".mimir/tools.lock")).unwrap_or_default()
    }

    fn source(&self) -> Value {
        let (code, info) = self.json(&["tools", "info", "prob"]);
        assert_eq!(code, 0, "{info}");
        info["installedFrom"].clone()
    }
}

/// The plugin of the kit with another text in its description, of the same length.
fn changed_plugin() -> Vec<u8> {
    let mut bytes = plugin::search();
    plugin::swap(&mut bytes, b"skips binary files", b"omits binary files");
    bytes
}

/// A component with a version in its metadata.
fn versioned(mut component: Vec<u8>, version: &str) -> Vec<u8> {
    let name = "version";
    let length = u8::try_from(1 + name.len() + version.len()).unwrap();
    component.extend([0, length, u8::try_from(name.len()).unwrap()]);
    component.extend(name.bytes());
    component.extend(version.bytes());
    component
}

#[test]
fn tools_push_and_add_pin_reference_manifest_and_layer() {
    let work = RegistryWorkspace::new();
    let component = versioned(plugin::search(), "1.2.0");
    let digest = work.push(&component, "1.2", &["--tag", "latest"]);
    assert_eq!(work.registry.digest("acme/prob:latest"), digest);
    let manifest = work.registry.manifest("acme/prob:1.2");
    assert_eq!(
        manifest["config"]["mediaType"],
        "application/vnd.wasm.config.v0+json"
    );
    assert_eq!(manifest["layers"][0]["mediaType"], "application/wasm");
    assert_eq!(manifest["layers"][0]["digest"], digest_of(&component));
    assert_eq!(
        manifest["annotations"]["org.opencontainers.image.version"],
        "1.2.0"
    );

    let (code, _, err) = work.add("1.2", &[]);
    assert_eq!(code, 0, "{err}");
    assert!(
        err.contains("prob_search") && err.contains(&digest),
        "{err}"
    );
    assert!(err.contains("unsigned"), "{err}");
    assert_eq!(fs::read(work.tool()).unwrap(), component);
    let source = work.source();
    assert_eq!(source["reference"], work.reference("1.2"));
    assert_eq!(source["manifest"], digest);
    assert_eq!(source["layer"], digest_of(&component));
    assert_eq!(source["version"], "1.2.0");
    assert_eq!(source.get("signer"), None);
    let (_, audit, _) = work.run(&["audit", "show"]);
    assert!(audit.contains("acme/prob:1.2"), "{audit}");

    // The rules for files of the same name are those of other sources.
    let (code, _, err) = work.add("latest", &[]);
    assert!(code == 1 && err.contains("--force"), "{code}: {err}");
    let (code, _, err) = work.add("latest", &["--force"]);
    assert_eq!(code, 0, "{err}");

    let (code, out, err) = work.run(&["tools", "remove", "prob", "--yes"]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(!work.lock().contains("sources"), "{}", work.lock());
    let signatures = work.path().join(".mimir/tools.signatures/prob.json");
    assert!(!signatures.exists());
}

#[test]
fn tools_push_does_not_replace_a_tag_with_other_content() {
    let work = RegistryWorkspace::new();
    let first = work.push(&plugin::search(), "1", &[]);
    let (code, _, err) = work.try_push(&changed_plugin(), "1", &[]);
    assert!(
        code == 1 && err.contains("--force") && err.contains(&first),
        "{code}: {err}"
    );
    assert_eq!(work.registry.digest("acme/prob:1"), first);
    // The same content is not pushed again.
    assert_eq!(work.push(&plugin::search(), "1", &[]), first);
    assert_ne!(work.push(&changed_plugin(), "1", &["--force"]), first);

    let pinned = format!("{}@{first}", work.reference("1"));
    let (code, _, err) = work.run(&["tools", "push", "nothing", &pinned]);
    assert!(code == 2 && err.contains("digest"), "{code}: {err}");
    let (code, _, err) = work.try_push(b"\0asm no component", "2", &[]);
    assert_eq!(code, 2, "{err}");
    let (code, _, err) = work.run(&["tools", "push", "x.wasm", "acme/prob"]);
    assert!(code == 2 && err.contains("registry.example.com"), "{err}");
}

#[test]
fn tools_add_never_completes_a_name_without_a_registry() {
    let work = RegistryWorkspace::new();
    let (code, _, err) = work.run(&["tools", "add", "weather"]);
    assert!(
        code == 2 && err.contains("begins with its registry"),
        "{code}: {err}"
    );
    assert!(work.registry.requests().is_empty());
    let missing = work.registry.reference("acme/nothing:1");
    let (code, _, err) = work.run(&["tools", "add", &missing]);
    assert!(code == 1 && err.contains("acme/nothing"), "{code}: {err}");
}

#[test]
fn tools_add_requires_the_signer_of_the_trust_rule() {
    for lacks_referrers in [false, true] {
        let work = RegistryWorkspace::new();
        work.registry
            .with(|content| content.lacks_referrers = lacks_referrers);
        work.key("acme");
        work.key("other");
        work.configure(&work.trust("acme"));
        work.push(&plugin::search(), "unsigned", &[]);
        let (code, _, err) = work.add("unsigned", &[]);
        assert!(code == 3 && err.contains("not signed"), "{code}: {err}");
        let theirs = changed_plugin();
        work.push(&theirs, "theirs", &["--sign", "other"]);
        let (code, _, err) = work.add("theirs", &[]);
        assert!(code == 3 && err.contains("trusted"), "{code}: {err}");
        assert!(!work.tool().exists());
        // Refused before the component is downloaded.
        let layer = digest_of(&theirs);
        let downloads = work.registry.requests();
        let downloads = downloads
            .iter()
            .filter(|line| line.starts_with("GET") && line.contains(&layer));
        assert_eq!(downloads.count(), 0);

        let digest = work.push(&plugin::search(), "unsigned", &["--sign", "acme"]);
        let (code, _, err) = work.add("unsigned", &[]);
        assert_eq!(code, 0, "{err}");
        assert!(err.contains("acme (key"), "{err}");
        let source = work.source();
        assert_eq!(source["manifest"], digest);
        assert_eq!(source["signer"]["name"], "acme");
        let (code, out, err) = work.run(&["tools", "info", "prob"]);
        assert!(code == 0 && out.contains("Signer: key acme"), "{out}{err}");
        let (code, out, err) = work.run(&["tools", "verify"]);
        assert!(
            code == 0 && out.contains("signed by key acme"),
            "{out}{err}"
        );
    }
}

#[test]
fn tools_add_refuses_a_tampered_layer() {
    let work = RegistryWorkspace::new();
    work.key("acme");
    work.configure(&work.trust("acme"));
    // Not in the cache of another test.
    let component = versioned(plugin::search(), &format!("2.{}.0", std::process::id()));
    work.push(&component, "1", &["--sign", "acme"]);
    let mut other = component.clone();
    *other.last_mut().unwrap() ^= 1;
    work.registry.with(|content| {
        content.blobs.insert(digest_of(&component), other.clone());
    });
    let (code, _, err) = work.add("1", &[]);
    assert!(code != 0 && err.contains("digest"), "{code}: {err}");
    assert!(!work.tool().exists());

    // A manifest with the tampered layer has another digest, which is not signed.
    let mut manifest = work.registry.manifest("acme/prob:1");
    manifest["layers"][0] = work.registry.put_blob("application/wasm", &other);
    work.registry.put_manifest("acme/prob:1", &manifest);
    let (code, _, err) = work.add("1", &[]);
    assert!(code == 3 && err.contains("not signed"), "{code}: {err}");
    assert!(!work.tool().exists() && work.lock().is_empty());
}

#[test]
fn tools_add_stores_the_policy_of_a_bundle_and_grants_nothing() {
    let work = RegistryWorkspace::new();
    work.push(&plugin::search(), "1", &[]);
    let policy = b"version: '1.0'\npermissions:\n  network: {allow: [{host: api.example.com}]}\n";
    let mut manifest = work.registry.manifest("acme/prob:1");
    let layer = work
        .registry
        .put_blob("application/vnd.wasm.policy.v1+yaml", policy);
    manifest["layers"].as_array_mut().unwrap().push(layer);
    let digest = work.registry.put_manifest("acme/prob:1", &manifest);
    assert_eq!(work.add("1", &[]).0, 0);
    let file = work.path().join(".mimir/tools/prob.policy.yaml");
    assert_eq!(fs::read(&file).unwrap(), policy);
    let source = work.source();
    assert_eq!(source["manifest"], digest);
    assert_eq!(source["policy"], digest_of(policy));
    assert!(!work.lock().contains("api.example.com"), "{}", work.lock());
    assert_eq!(work.json(&["tools", "verify"]).0, 0);
    fs::write(&file, "permissions: {}").unwrap();
    let (code, checked) = work.json(&["tools", "verify"]);
    assert!(
        code == 1 && checked.to_string().contains("prob.policy.yaml"),
        "{checked}"
    );

    // The next build comes without it.
    work.push(&changed_plugin(), "1", &["--force"]);
    let (code, out, err) = work.run(&["tools", "update", "--yes"]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(!file.exists());
    assert_eq!(work.source().get("policy"), None);
}

#[test]
fn tools_add_of_a_local_file_forgets_the_registry() {
    let work = RegistryWorkspace::new();
    work.push(&plugin::search(), "1", &[]);
    assert_eq!(work.add("1", &[]).0, 0);
    fs::write(work.path().join("prob.wasm"), changed_plugin()).unwrap();
    let (code, _, err) = work.run(&["tools", "add", "prob.wasm", "--force"]);
    assert_eq!(code, 0, "{err}");
    assert!(!work.lock().contains("sources"), "{}", work.lock());
    let signatures = work.path().join(".mimir/tools.signatures/prob.json");
    assert!(!signatures.exists());
    let (code, updates) = work.json(&["tools", "update"]);
    assert!(code == 0 && updates["updates"] == json!([]), "{updates}");
    let (code, checked) = work.json(&["tools", "verify"]);
    assert!(
        code == 1 && checked.to_string().contains("unknown"),
        "{checked}"
    );
}

#[test]
fn tools_update_shows_the_differences_and_keeps_the_file_without_consent() {
    let work = RegistryWorkspace::new();
    let old = versioned(plugin::search(), "1.0.0");
    let first = work.push(&old, "1", &[]);
    assert_eq!(work.add("1", &[]).0, 0);
    let (code, updates) = work.json(&["tools", "update", "--check"]);
    assert_eq!(code, 0, "{updates}");
    assert_eq!(updates["updates"][0]["status"], "up-to-date");

    let new = versioned(changed_plugin(), "1.1.0");
    let second = work.push(&new, "1", &["--force"]);
    let (code, updates) = work.json(&["tools", "update", "--check"]);
    assert_eq!(code, 1, "{updates}");
    let update = &updates["updates"][0];
    assert_eq!(update["status"], "available");
    assert_eq!(
        (&update["from"], &update["to"]),
        (&json!(first), &json!(second))
    );
    assert_eq!(
        (&update["fromVersion"], &update["toVersion"]),
        (&json!("1.0.0"), &json!("1.1.0"))
    );
    assert!(
        !update["changes"].as_array().unwrap().is_empty(),
        "{update}"
    );

    // Without a terminal, nobody has agreed.
    let (code, _, err) = work.run(&["tools", "update"]);
    assert!(code == 3 && err.contains("--yes"), "{code}: {err}");
    assert_eq!(fs::read(work.tool()).unwrap(), old);
    assert_eq!(work.source()["manifest"], first);

    let (code, out, err) = work.run(&["tools", "update", "prob", "--yes"]);
    assert_eq!(code, 0, "{out}{err}");
    assert_eq!(fs::read(work.tool()).unwrap(), new);
    assert_eq!(work.source()["manifest"], second);
    assert_eq!(work.json(&["tools", "verify"]).0, 0);
}

#[test]
fn tools_update_refuses_downgrades_and_names_moved_tags() {
    let work = RegistryWorkspace::new();
    let old = versioned(plugin::search(), "2.0.0");
    work.push(&old, "1", &[]);
    assert_eq!(work.add("1", &[]).0, 0);
    work.push(&versioned(changed_plugin(), "1.9.9"), "1", &["--force"]);
    let (code, out, _) = work.run(&["tools", "update", "--yes"]);
    assert!(
        code == 3 && out.contains("downgrade from 2.0.0 to 1.9.9"),
        "{code}: {out}"
    );
    assert!(out.contains("--allow-downgrade"), "{out}");
    assert_eq!(fs::read(work.tool()).unwrap(), old);
    let (code, out, err) = work.run(&["tools", "update", "--yes", "--allow-downgrade"]);
    assert_eq!(code, 0, "{out}{err}");
    assert_eq!(work.source()["version"], "1.9.9");

    work.push(&versioned(plugin::search(), "1.9.9"), "1", &["--force"]);
    let (code, _, err) = work.run(&["tools", "update", "--yes"]);
    assert!(
        code == 0 && err.contains("the tag has moved"),
        "{code}: {err}"
    );
}

#[test]
fn tools_update_refuses_another_signer() {
    let work = RegistryWorkspace::new();
    work.key("acme");
    work.key("other");
    work.configure(&work.trust("acme"));
    let old = plugin::search();
    work.push(&old, "1", &["--sign", "acme"]);
    assert_eq!(work.add("1", &[]).0, 0);
    let update = || {
        let (code, out, _) = work.run(&["tools", "update", "--yes"]);
        assert_eq!(fs::read(work.tool()).unwrap(), old);
        (code, out)
    };
    work.push(&changed_plugin(), "1", &["--force", "--sign", "other"]);
    let (code, out) = update();
    assert!(code == 3 && out.contains("trusted"), "{code}: {out}");
    // Without the rule, the signature counts as missing.
    work.configure("");
    let (code, out) = update();
    assert!(
        code == 3 && out.contains("was signed by key acme"),
        "{code}: {out}"
    );
    assert!(out.contains("`trust` rule"), "{out}");
    // A rule with both keys accepts the change.
    let both = work.trust("acme").replace("[acme]", "[acme, other]");
    work.configure(&both);
    let (code, _, err) = work.run(&["tools", "update", "--yes"]);
    assert!(
        code == 0 && err.contains("the signer changes"),
        "{code}: {err}"
    );
    assert_eq!(work.source()["signer"]["name"], "other");
}

#[test]
fn tools_update_restores_the_previous_build_if_the_new_one_is_not_valid() {
    let work = RegistryWorkspace::new();
    let old = plugin::search();
    let first = work.push(&old, "1", &[]);
    assert_eq!(work.add("1", &[]).0, 0);
    let mut manifest = work.registry.manifest("acme/prob:1");
    let broken = b"\0asm\x0d\0\x01\0 not a component";
    manifest["layers"][0] = work.registry.put_blob("application/wasm", broken);
    work.registry.put_manifest("acme/prob:1", &manifest);
    let (code, out, _) = work.run(&["tools", "update", "--yes"]);
    assert!(code != 0 && out.contains("not valid"), "{code}: {out}");
    assert_eq!(fs::read(work.tool()).unwrap(), old);
    assert_eq!(work.source()["manifest"], first);
    assert_eq!(work.json(&["tools", "verify"]).0, 0);
}

#[test]
fn tools_add_continues_an_interrupted_download() {
    let work = RegistryWorkspace::new();
    // Not in the cache of another test.
    let mut component = plugin::search();
    component = versioned(component, &format!("1.{}.0", std::process::id()));
    work.push(&component, "1", &[]);
    work.registry.with(|content| {
        content.cuts = vec![50_000, 1_000];
        content.requests.clear();
    });
    let (code, _, err) = work.add("1", &[]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(fs::read(work.tool()).unwrap(), component);
    let requests = work.registry.requests();
    let layer = digest_of(&component);
    let of_layer = requests
        .iter()
        .filter(|line| line.starts_with("GET") && line.contains(&layer));
    let of_layer: Vec<_> = of_layer.collect();
    assert!(of_layer.len() > 1, "{requests:?}");
    assert!(of_layer[1].ends_with("bytes=50000-"), "{requests:?}");
}

#[cfg(unix)]
#[test]
fn tools_add_to_a_folder_that_is_read_only_changes_nothing() {
    use std::os::unix::fs::PermissionsExt as _;
    if is_root() {
        // Root writes anywhere: a file in place of the folder fails for everybody.
        let work = RegistryWorkspace::new();
        work.push(&plugin::search(), "1", &[]);
        fs::create_dir_all(work.path().join(".mimir")).unwrap();
        fs::write(work.path().join(".mimir/tools"), "").unwrap();
        let (code, _, err) = work.add("1", &[]);
        assert!(code != 0, "{err}");
        assert!(!work.lock().contains("sources"), "{}", work.lock());
        assert!(!work.path().join(".mimir/tools.signatures").exists());
        return;
    }
    let work = RegistryWorkspace::new();
    work.push(&plugin::search(), "1", &[]);
    let tools = work.path().join(".mimir/tools");
    fs::create_dir_all(&tools).unwrap();
    fs::set_permissions(&tools, fs::Permissions::from_mode(0o555)).unwrap();
    let (code, _, err) = work.add("1", &[]);
    fs::set_permissions(&tools, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(code != 0 && err.contains("write"), "{code}: {err}");
    assert!(!work.tool().exists() && !work.lock().contains("sources"));
    assert!(!work.path().join(".mimir/tools.signatures").exists());
}

#[cfg(unix)]
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0)
}

#[test]
fn tools_add_logs_in_with_the_files_and_helpers_of_docker() {
    let work = RegistryWorkspace::new();
    work.push(&plugin::search(), "1", &[]);
    // base64 of `me:secret`
    let login = "bWU6c2VjcmV0";
    work.registry
        .with(|content| content.login = Some(login.to_owned()));
    let (code, _, err) = work.add("1", &[]);
    assert!(code != 0 && !work.tool().exists(), "{err}");

    let docker = work.path().join("docker");
    fs::create_dir(&docker).unwrap();
    let folder = docker.to_str().unwrap().to_owned();
    let reference = work.reference("1");
    let add = |config: &Value, variables: &[(&str, &str)]| {
        fs::write(docker.join("config.json"), config.to_string()).unwrap();
        let variables = [&[("DOCKER_CONFIG", folder.as_str())], variables].concat();
        work.run_with(&["tools", "add", &reference, "--force"], &variables)
    };
    let wrong = json!({"auths": {work.registry.address(): {"auth": "bWU6d3Jvbmc="}}});
    let (code, _, err) = add(&wrong, &[]);
    assert!(code != 0 && !err.contains("wrong"), "{code}: {err}");
    let config = json!({"auths": {work.registry.address(): {"auth": login}}});
    let (code, _, err) = add(&config, &[]);
    assert_eq!(code, 0, "{err}");

    let helper = json!({"credHelpers": {work.registry.address(): "mimir-test-missing"}});
    let (code, _, err) = add(&helper, &[]);
    assert!(
        code != 0 && err.contains("docker-credential-mimir-test-missing"),
        "{code}: {err}"
    );
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let outside = tempfile::tempdir().unwrap();
        let script = "#!/bin/sh\nread -r server || true\necho '{\"Username\":\"me\",\"Secret\":\"secret\"}'\n";
        let path = outside.path().join("docker-credential-mimir-test-missing");
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let search = format!("{}:/usr/bin:/bin", outside.path().display());
        let (code, _, err) = add(&helper, &[("PATH", &search)]);
        assert_eq!(code, 0, "{err}");
    }
}

/// The key `registries.catalogs`.
#[test]
fn tools_search_shows_the_same_name_of_two_catalogs() {
    let work = RegistryWorkspace::new();
    let tool = |host: &str| {
        json!({"name": "weather", "description": "Forecasts for a place.", "tags": ["rain"],
               "reference": format!("{host}/acme/weather:1")})
    };
    let catalog = |host: &str| json!({"version": 1, "tools": [tool(host)]}).to_string();
    fs::write(work.path().join("catalog.json"), catalog("one.example.com")).unwrap();
    let reference = work.registry.reference("acme/catalog:latest");
    let (code, _, err) = work.run(&["tools", "push", "catalog.json", &reference]);
    assert_eq!(code, 0, "{err}");
    let own = kit::config(work.path()).join("own.json");
    fs::write(&own, catalog("two.example.com")).unwrap();
    let (_, without) = work.json(&["tools", "search", "rain"]);
    assert_eq!(without.get("catalogs"), None, "{without}");

    work.configure(&format!(
        "registries: {{catalogs: ['{reference}', ./own.json, ./missing.json]}}"
    ));
    let (code, found) = work.json(&["tools", "search", "rain"]);
    assert_eq!(code, 0, "{found}");
    let references: Vec<_> = found["catalogs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["reference"])
        .collect();
    assert_eq!(
        references,
        [
            "one.example.com/acme/weather:1",
            "two.example.com/acme/weather:1"
        ]
    );
    assert_eq!(found["catalogs"][0]["catalog"], reference);
    assert!(
        found["faults"][0]["catalog"]
            .as_str()
            .unwrap()
            .ends_with("missing.json"),
        "{found}"
    );
    let (_, out, err) = work.run(&["tools", "search", "rain"]);
    assert!(
        out.contains("mimir tools add two.example.com/acme/weather:1"),
        "{out}"
    );
    assert!(err.contains("missing.json"), "{err}");

    fs::write(work.path().join("bad.json"), "{}").unwrap();
    let (code, _, err) = work.run(&["tools", "push", "bad.json", &reference]);
    assert!(
        code == 2 && err.contains("not a valid catalog"),
        "{code}: {err}"
    );
}

/// The key `registries.mirrors.*`.
#[test]
fn registry_mirrors_are_tried_first() {
    let work = RegistryWorkspace::new();
    work.push(&plugin::search(), "1", &[]);
    let mirror = work.registry.address();
    work.configure(&format!(
        "registries: {{mirrors: {{registry.invalid: ['{mirror}']}}}}"
    ));
    let (code, _, err) = work.run(&["tools", "add", "registry.invalid/acme/prob:1"]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(work.source()["reference"], "registry.invalid/acme/prob:1");

    // Those of a project count only after the user has accepted them.
    let project = RegistryWorkspace::with_registry(work.registry.clone());
    let config = project.path().join(".mimir/config.yml");
    fs::create_dir_all(config.parent().unwrap()).unwrap();
    let text = format!("registries: {{mirrors: {{registry.invalid: ['{mirror}']}}}}\n");
    fs::write(&config, text).unwrap();
    let (code, _, err) = project.run(&["tools", "add", "registry.invalid/acme/prob:1"]);
    assert!(code != 0 && !project.tool().exists(), "{err}");
}

#[test]
fn registry_on_a_private_address_must_be_allowed() {
    let work = RegistryWorkspace::new();
    work.push(&plugin::search(), "1", &[]);
    fs::write(kit::config(work.path()).join("config.yml"), "").unwrap();
    let requests = work.registry.requests().len();
    let (code, _, err) = work.add("1", &[]);
    assert!(code != 0 && err.contains("network"), "{code}: {err}");
    assert_eq!(work.registry.requests().len(), requests);
}
