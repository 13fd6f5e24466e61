//! `install_package`: with a local registry, and with the public registries on small real projects.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::kit;
use crate::kit::person::{Person, Settings};
use crate::packages::PackageFixture;
use serde_json::{Value, json};

/// A project with a registry of one package, which has an install script.
fn project() -> PackageFixture {
    let fixture = PackageFixture::new();
    let script = "node -e \"require('fs').writeFileSync('ran', '')\"";
    fixture.publish("1.0.0", "WORDS", Some(script));
    fs::write(
        fixture.work().join("package.json"),
        r#"{"name": "app", "version": "1.0.0"}"#,
    )
    .unwrap();
    let config = fixture.folder.path().join("config");
    fs::create_dir_all(&config).unwrap();
    // Addresses of this machine have to be listed.
    let address = format!("http://127.0.0.1:{}", fixture.port);
    let settings = json!({"network": {"allowedHosts": [address]}});
    fs::write(config.join("config.yml"), settings.to_string()).unwrap();
    fixture
}

fn call(fixture: &PackageFixture, approve: &str, arguments: &Value) -> Value {
    let arguments = arguments.to_string();
    let words = [
        "--json",
        "call",
        "--approve",
        approve,
        "install_package",
        &arguments,
    ];
    let output = command(fixture, &words).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

/// A command with the cache of all tests, so that the built-in tools are compiled once.
fn command(fixture: &PackageFixture, words: &[&str]) -> Command {
    let mut command = fixture.command(words);
    command.env("MIMIR_CACHE_DIR", kit::target_folder("cache"));
    command
}

fn is_installed(fixture: &PackageFixture) -> bool {
    fixture.work().join("node_modules/mimir-probe").exists()
}

#[ignore = "needs npm"]
#[test]
fn install_package_asks_and_installs_without_scripts() {
    let fixture = project();
    let probe = json!({"packages": ["mimir-probe"]});
    let refused = call(&fixture, "never", &probe);
    assert_eq!(refused["error"]["code"], "APPROVAL_DENIED", "{refused:#}");
    assert!(!is_installed(&fixture));

    let mut person = Person::start(command(&fixture, &["serve"]));
    let text = person.text("install_package", probe.clone());
    assert!(
        text.contains("Installed mimir-probe 1.0.0 with npm."),
        "{text}"
    );
    let [prompt] = person.prompts.as_slice() else {
        panic!("{:#?}", person.prompts)
    };
    for part in [
        "install mimir-probe 1.0.0 with npm",
        "install scripts do not run, although these packages have some",
        "does not tell when it was published",
        "and no other host",
        "mimir-probe@1.0.0",
    ] {
        assert!(prompt.contains(part), "{part}: {prompt}");
    }
    assert!(is_installed(&fixture));
    let ran = fixture.work().join("node_modules/mimir-probe/ran");
    assert!(!ran.exists(), "the install script ran");
    let manifest = fs::read_to_string(fixture.work().join("package.json")).unwrap();
    assert!(manifest.contains("mimir-probe"), "{manifest}");

    fs::remove_dir_all(fixture.work().join("node_modules")).unwrap();
    let with_scripts = json!({"packages": ["mimir-probe@1.0.0"], "scripts": true});
    // A new session: npm's headers are visible without TLS, and count as data that an earlier answer may have chosen.
    let mut person = Person::start(command(&fixture, &["serve"]));
    person.text("install_package", with_scripts);
    assert_eq!(person.prompts.len(), 1, "an approval was remembered");
    assert!(person.prompts[0].contains("INSTALL SCRIPTS RUN"));
    assert!(ran.exists());
}

#[ignore = "needs yarn 1 and pnpm, which .ci/everyday installs"]
#[test]
fn install_package_runs_no_scripts_with_yarn_and_pnpm() {
    for manager in ["yarn", "pnpm"] {
        let fixture = project();
        // A file of modern Yarn does not change what Yarn 1 runs.
        fs::write(fixture.work().join(".yarnrc.yml"), "").unwrap();
        let probe = json!({"packages": ["mimir-probe"], "manager": manager});
        let outcome = call(&fixture, "always", &probe);
        assert_eq!(
            outcome["structured"]["exitCode"], 0,
            "{manager}: {outcome:#}"
        );
        assert!(is_installed(&fixture), "{manager}");
        let ran = fixture.work().join("node_modules/mimir-probe/ran");
        assert!(!ran.exists(), "{manager}: the install script ran");
    }
}

#[ignore = "needs npm"]
#[test]
fn install_package_refuses_other_sources_and_forms() {
    let fixture = project();
    for (packages, code) in [
        (json!(["-g"]), "INVALID_INPUT"),
        (json!(["--registry=http://evil.example"]), "INVALID_INPUT"),
        (json!(["https://evil.example/x.tgz"]), "INVALID_INPUT"),
        (json!(["./local"]), "INVALID_INPUT"),
        (json!(["mimir-pr\u{43e}be"]), "INVALID_INPUT"),
        (json!(["mimir-probe@1.0.0;touch x"]), "INVALID_INPUT"),
        (json!(["mimir-probe@9.9.9"]), "NOT_FOUND"),
        (json!(["mimir-prob"]), "NOT_FOUND"),
        (json!([]), "INVALID_INPUT"),
    ] {
        let outcome = call(&fixture, "always", &json!({"packages": packages}));
        assert_eq!(outcome["error"]["code"], code, "{packages}: {outcome:#}");
    }
    let probe = json!({"packages": ["mimir-probe"]});
    let npmrc = fixture.work().join(".npmrc");
    fs::write(&npmrc, "registry=http://127.0.0.1:1/\n").unwrap();
    let outcome = call(&fixture, "always", &probe);
    assert_eq!(outcome["error"]["code"], "PERMISSION_DENIED", "{outcome:#}");
    fs::remove_file(npmrc).unwrap();
    let outside = json!({"packages": ["mimir-probe"], "path": ".."});
    let outcome = call(&fixture, "always", &outside);
    assert_eq!(outcome["error"]["code"], "INVALID_PATH", "{outcome:#}");
    assert!(!is_installed(&fixture));

    let config = fixture.folder.path().join("config/config.yml");
    let mut settings: Value = serde_json::from_str(&fs::read_to_string(&config).unwrap()).unwrap();
    settings["sandbox"] = json!({"networkAccess": false});
    fs::write(config, settings.to_string()).unwrap();
    let outcome = call(&fixture, "always", &probe);
    assert_eq!(outcome["error"]["code"], "UNAVAILABLE", "{outcome:#}");
    assert!(!is_installed(&fixture));
}

/// A workspace with these files.
fn workspace(files: &[(&str, &str)]) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = home.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    home
}

/// Hosts of the public registries.
const REGISTRIES: [&str; 5] = [
    "registry.npmjs.org",
    "index.crates.io",
    "static.crates.io",
    "pypi.org",
    "files.pythonhosted.org",
];

/// Installs a package from its public registry. `MIMIR_TEST_REGISTRY_ADDRESS` is a relay to it.
fn install(home: &Path, package: &str) {
    let relay = std::env::var("MIMIR_TEST_REGISTRY_ADDRESS").ok();
    let _settings = relay.map(|address| {
        let hosts = REGISTRIES.map(|name| (name.to_owned(), json!([address])));
        let hosts = Value::Object(hosts.into_iter().collect());
        Settings::of(home, &json!({"network": {"hosts": hosts}}))
    });
    let arguments = json!({"packages": [package]}).to_string();
    let words = [
        "--json",
        "call",
        "--approve",
        "always",
        "install_package",
        &arguments,
    ];
    let (code, out, err) = kit::run(home, &words);
    assert_eq!(code, 0, "{package}: {out}{err}");
    let outcome: Value = serde_json::from_str(&out).unwrap();
    let installed = &outcome["structured"]["packages"][0];
    assert!(
        installed["published"].is_string(),
        "the registry tells the age of {package}: {outcome:#}"
    );
}

#[ignore = "needs npm, cargo, python3, uv and the public registries, which .ci/everyday provides"]
#[test]
fn install_package_installs_from_the_public_registries() {
    let npm = workspace(&[("package.json", r#"{"name": "app", "version": "1.0.0"}"#)]);
    install(npm.path(), "left-pad@1.3.0");
    let installed = npm.path().join("node_modules/left-pad/package.json");
    assert!(fs::read_to_string(installed).unwrap().contains("1.3.0"));

    let cargo = workspace(&[
        (
            "Cargo.toml",
            "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
        ),
        ("src/lib.rs", ""),
    ]);
    install(cargo.path(), "itoa@1.0.9");
    let lock = fs::read_to_string(cargo.path().join("Cargo.lock")).unwrap();
    assert!(
        lock.contains("name = \"itoa\"\nversion = \"1.0.9\""),
        "{lock}"
    );

    let pip = workspace(&[("requirements.txt", "")]);
    let made = Command::new("python3")
        .args(["-m", "venv", ".venv"])
        .current_dir(pip.path())
        .status();
    assert!(made.unwrap().success());
    install(pip.path(), "six==1.16.0");
    let listed = Command::new(pip.path().join(".venv/bin/python"))
        .args(["-c", "import six; print(six.__version__)"])
        .output()
        .unwrap();
    assert_eq!(listed.stdout, b"1.16.0\n");

    let uv = workspace(&[
        (
            "pyproject.toml",
            "[project]\nname = \"app\"\nversion = \"0.1.0\"\nrequires-python = \">=3.9\"\ndependencies = []\n",
        ),
        ("uv.lock", "version = 1\nrequires-python = \">=3.9\"\n"),
    ]);
    install(uv.path(), "six==1.16.0");
    let lock = fs::read_to_string(uv.path().join("uv.lock")).unwrap();
    assert!(
        lock.contains("name = \"six\"\nversion = \"1.16.0\""),
        "{lock}"
    );
}
