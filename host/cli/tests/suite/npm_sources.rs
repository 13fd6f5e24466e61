//! `mimir tools add npm:PACKAGE`, with a registry on a local port.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::kit::modules::built;
use crate::kit::plugin;
use crate::packages::PackageFixture;

/// A toolset without imports.
const TOOLS: &str = r#"
/** Doubles a number */
export function double({ n }: { n: number }): number { return n * 2; }
export const doubleSchema = { type: "object", properties: { n: { type: "number" } }, required: ["n"] };
"#;

/// A package with these files.
struct Package<'a> {
    name: &'a str,
    manifest: Value,
    files: Vec<(&'a str, Vec<u8>)>,
}

/// The integrity under which a package is published.
enum Integrity {
    Sha512,
    Sha1,
    /// The digest of nothing in particular.
    Wrong,
}

/// Packs a package, and returns the archive with its integrity.
fn pack(
    fixture: &PackageFixture,
    package: &Package<'_>,
    integrity: &Integrity,
) -> (Vec<u8>, String) {
    let place = tempfile::tempdir_in(fixture.folder.path()).unwrap();
    let root = place.path().join("package");
    let mut manifest = json!({"name": package.name, "version": "1.0.0"});
    for (key, value) in package.manifest.as_object().unwrap() {
        manifest[key] = value.clone();
    }
    let write = |name: &str, bytes: &[u8]| {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    };
    write("package.json", manifest.to_string().as_bytes());
    for (name, bytes) in &package.files {
        write(name, bytes);
    }
    let archive = place.path().join("a.tgz");
    let mut tar = Command::new("tar");
    tar.arg("-czf").arg(&archive);
    tar.arg("-C").arg(place.path()).arg("package");
    assert!(tar.status().unwrap().success());
    let digest = match integrity {
        Integrity::Sha512 => digest(&archive, "sha512"),
        Integrity::Sha1 => digest(&archive, "sha1"),
        Integrity::Wrong => format!("sha512-{}==", "A".repeat(86)),
    };
    (fs::read(&archive).unwrap(), digest)
}

/// Returns the digest of a file with this hash, as a registry states it.
fn digest(file: &Path, hash: &str) -> String {
    let script = "const [, file, hash] = process.argv; process.stdout.write(hash + '-' + require('crypto').createHash(hash).update(require('fs').readFileSync(file)).digest('base64'))";
    let mut node = Command::new("node");
    node.args(["-e", script]).arg(file).arg(hash);
    String::from_utf8(node.output().unwrap().stdout).unwrap()
}

/// Publishes version 1.0.0 of a package.
fn publish(fixture: &PackageFixture, package: &Package<'_>, integrity: &Integrity) {
    publish_version(fixture, package, "1.0.0", integrity);
}

/// Publishes a version of a package as the only one.
fn publish_version(
    fixture: &PackageFixture,
    package: &Package<'_>,
    version: &str,
    integrity: &Integrity,
) {
    let (archive, digest) = pack(fixture, package, integrity);
    let file = format!("/files/{}-{version}.tgz", package.name.replace('/', "-"));
    fixture.serve(&file, archive);
    let tarball = format!("http://127.0.0.1:{}{file}", fixture.port);
    let mut entry = package.manifest.clone();
    entry["name"] = json!(package.name);
    entry["version"] = json!(version);
    entry["dist"] = json!({"tarball": tarball, "integrity": digest});
    entry["hasInstallScript"] = json!(entry["scripts"].is_object());
    let document = json!({"name": package.name, "dist-tags": {"latest": version}, "versions": {version: entry}});
    let path = format!("/{}", package.name.replace('/', "%2f"));
    fixture.serve(&path, document.to_string().into_bytes());
}

/// A component with the tool `double`.
fn component() -> Vec<u8> {
    let home = built(TOOLS);
    let entries = fs::read_dir(home.path().join(".mimir/tools"))
        .unwrap()
        .flatten();
    let mut files = entries.map(|entry| entry.path());
    let file = files.find(|path| path.extension().is_some_and(|found| found == "wasm"));
    fs::read(file.unwrap()).unwrap()
}

fn lock(fixture: &PackageFixture) -> String {
    fs::read_to_string(fixture.work().join(".mimir/tools.lock")).unwrap_or_default()
}

fn is_added(fixture: &PackageFixture, name: &str) -> bool {
    fixture.work().join(".mimir/tools").join(name).exists()
}

#[ignore = "needs npm"]
#[test]
fn npm_component_is_added_and_its_scripts_do_not_run() {
    let fixture = PackageFixture::new();
    let component = component();
    let mut other = component.clone();
    other.extend([0, 3, 1, b'x', 1]);
    publish(
        &fixture,
        &Package {
            name: "@acme/twice",
            manifest: json!({
                "mimir": {"component": "lib/twice.wasm"},
                "scripts": {"postinstall": "cp lib/evil.wasm lib/twice.wasm"},
            }),
            files: vec![
                ("lib/twice.wasm", component.clone()),
                ("lib/evil.wasm", other),
            ],
        },
        &Integrity::Sha512,
    );
    let (code, _, err) = fixture.run(&["tools", "add", "npm:@acme/twice"]);
    assert_eq!(code, 0, "{err}");
    assert!(
        err.contains("npm package @acme/twice 1.0.0, sha512-"),
        "{err}"
    );
    let installed = fs::read(fixture.work().join(".mimir/tools/twice.wasm")).unwrap();
    assert_eq!(installed, component);
    assert!(
        lock(&fixture).contains("npm:@acme/twice@1.0.0"),
        "{}",
        lock(&fixture)
    );
    let (code, out, err) = fixture.run(&["call", "--approve", "always", "double", "n=4"]);
    assert!(code == 0 && out.contains('8'), "{out}{err}");
    let left: Vec<_> = fs::read_dir(fixture.folder.path().join("cache/mcp/packages"))
        .unwrap()
        .flatten()
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[ignore = "needs npm"]
#[test]
fn npm_update_shows_the_differences_of_a_newer_version() {
    let fixture = PackageFixture::new();
    let publish = |version: &str, component: Vec<u8>| {
        let package = Package {
            name: "@acme/twice",
            manifest: json!({"mimir": {"component": "twice.wasm"}, "version": version}),
            files: vec![("twice.wasm", component)],
        };
        publish_version(&fixture, &package, version, &Integrity::Sha512);
    };
    let first = component();
    publish("1.0.0", first.clone());
    let (code, _, err) = fixture.run(&["tools", "add", "npm:@acme/twice"]);
    assert_eq!(code, 0, "{err}");
    let updates = fixture.json(&["tools", "update"]);
    assert_eq!(updates["updates"][0]["status"], "up-to-date", "{updates}");

    let second = plugin::search();
    publish("1.1.0", second.clone());
    let updates = fixture.json(&["tools", "update", "--check"]);
    let update = &updates["updates"][0];
    assert_eq!(update["status"], "available", "{updates}");
    assert_eq!(update["toVersion"], "1.1.0");
    assert!(
        !update["changes"].as_array().unwrap().is_empty(),
        "{update}"
    );
    let installed = fixture.work().join(".mimir/tools/twice.wasm");
    assert_eq!(fs::read(&installed).unwrap(), first);
    let (code, out, err) = fixture.run(&["tools", "update", "--yes"]);
    assert_eq!(code, 0, "{out}{err}");
    assert_eq!(fs::read(&installed).unwrap(), second);
    assert!(lock(&fixture).contains("npm:@acme/twice@1.1.0"));

    // An older version is refused.
    publish("1.0.5", first.clone());
    let (code, out, _) = fixture.run(&["tools", "update", "--yes"]);
    assert!(
        code == 3 && out.contains("downgrade from 1.1.0 to 1.0.5"),
        "{out}"
    );
    assert_eq!(fs::read(&installed).unwrap(), second);

    // The pinned version is restored by exact version and digest.
    publish("1.1.0", second.clone());
    fs::remove_file(&installed).unwrap();
    let (code, out, err) = fixture.run(&["tools", "vendor"]);
    assert_eq!(code, 0, "{out}{err}");
    assert_eq!(fs::read(&installed).unwrap(), second);
    publish("1.1.0", first);
    fs::remove_file(&installed).unwrap();
    let (code, out, err) = fixture.run(&["tools", "vendor"]);
    assert!(code == 3 && err.contains("digest mismatch"), "{out}{err}");
    assert!(!installed.exists());

    // An exact version has no updates.
    let (code, _, err) = fixture.run(&["tools", "add", "npm:@acme/twice@1.1.0", "--force"]);
    assert_eq!(code, 0, "{err}");
    assert!(
        lock(&fixture).contains("requested: 1.1.0"),
        "{}",
        lock(&fixture)
    );
    let updates = fixture.json(&["tools", "update"]);
    assert_eq!(updates["updates"][0]["status"], "pinned", "{updates}");
}

#[ignore = "needs npm"]
#[test]
fn npm_toolset_is_built_without_programs_of_the_package() {
    let fixture = PackageFixture::new();
    publish(
        &fixture,
        &Package {
            name: "twice",
            manifest: json!({}),
            files: vec![("tools.ts", TOOLS.into())],
        },
        &Integrity::Sha512,
    );
    let (code, _, err) = fixture.run(&["tools", "add", "npm:twice@1.0.0"]);
    assert_eq!(code, 0, "{err}");
    let (code, out, err) = fixture.run(&["call", "--approve", "always", "double", "n=4"]);
    assert!(code == 0 && out.contains('8'), "{out}{err}");
    assert!(
        lock(&fixture).contains("npm:twice@1.0.0"),
        "{}",
        lock(&fixture)
    );

    // Imports need a bundler, and the package brings a program of that name. It would leave a file in the folder that
    // bundlers may write.
    let marker = fixture.folder.path().join("ran");
    let program = format!("#!/bin/sh\ntouch {}\nexit 1\n", marker.display());
    let source = format!(
        "import {{ by }} from \"./by.ts\";\n{}",
        TOOLS.replace("n * 2", "n * by")
    );
    publish(
        &fixture,
        &Package {
            name: "bundled",
            manifest: json!({"bin": {"esbuild": "esbuild.sh", "rolldown": "esbuild.sh"}}),
            files: vec![
                ("tools.ts", source.into_bytes()),
                ("by.ts", b"export const by = 2;".to_vec()),
                ("esbuild.sh", program.clone().into_bytes()),
                ("node_modules/.bin/esbuild", program.into_bytes()),
            ],
        },
        &Integrity::Sha512,
    );
    let (code, _, err) = fixture.run(&["tools", "add", "npm:bundled"]);
    assert_ne!(code, 0, "{err}");
    assert!(err.contains("put esbuild or rolldown on the PATH"), "{err}");
    assert!(!marker.exists() && !is_added(&fixture, "bundled.wasm"));
}

#[ignore = "needs npm"]
#[test]
fn npm_package_that_is_not_what_it_says_is_not_added() {
    let fixture = PackageFixture::new();
    let package = |name, manifest| Package {
        name,
        manifest,
        files: vec![("a.wasm", b"no component".to_vec())],
    };
    let wrong = package("wrong", json!({}));
    publish(&fixture, &wrong, &Integrity::Wrong);
    let weak = package("weak", json!({}));
    publish(&fixture, &weak, &Integrity::Sha1);
    publish(&fixture, &package("broken", json!({})), &Integrity::Sha512);
    publish(
        &fixture,
        &package("outside", json!({"mimir": {"component": "../x.wasm"}})),
        &Integrity::Sha512,
    );
    publish(
        &fixture,
        &Package {
            name: "empty",
            manifest: json!({}),
            files: Vec::new(),
        },
        &Integrity::Sha512,
    );
    publish(
        &fixture,
        &Package {
            name: "several",
            manifest: json!({}),
            files: vec![("a.wasm", Vec::new()), ("b.wasm", Vec::new())],
        },
        &Integrity::Sha512,
    );
    for (name, part) in [
        ("wrong", "EINTEGRITY"),
        ("weak", "expected a SHA-512"),
        ("broken", "nothing was added"),
        ("outside", "expected the path of a .wasm file"),
        ("empty", "has no tools"),
        ("several", "a.wasm, b.wasm"),
        ("missing", "404"),
    ] {
        let (code, _, err) = fixture.run(&["tools", "add", &format!("npm:{name}")]);
        assert!(code != 0 && err.contains(part), "{name}: {code} {err}");
        assert!(!is_added(&fixture, &format!("{name}.wasm")), "{name}");
    }
    assert!(!lock(&fixture).contains("npm:"), "{}", lock(&fixture));
}

#[test]
fn npm_source_that_is_not_a_package_name_is_refused() {
    let home = tempfile::tempdir().unwrap();
    for bad in [
        "npm:file:../x",
        "npm:--prefix=/",
        "npm:acme/repository",
        "npm:https://example.com/a.tgz",
    ] {
        let (code, _, err) = crate::kit::run(Path::new(home.path()), &["tools", "add", bad]);
        assert!(
            code == 2 && err.contains("is not a package"),
            "{bad}: {code} {err}"
        );
    }
}
