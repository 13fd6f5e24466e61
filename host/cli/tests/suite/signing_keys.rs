//! `mimir keys` in a shell, and trust settings that cannot be used.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::kit::{self, mimir};

/// Password of the keys in these tests.
const PASSWORD: &str = "a-horse-with-a-battery";

fn workspace() -> TempDir {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join(".mimir")).unwrap();
    home
}

/// Runs the program with the password in the environment. Returns the exit code, stdout and stderr.
fn run_with_password(home: &Path, args: &[&str]) -> (i32, String, String) {
    let output = mimir(home, args)
        .env("MIMIR_KEY_PASSWORD", PASSWORD)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (out, err) = (text(output.stdout), text(output.stderr));
    assert!(!out.contains(PASSWORD) && !err.contains(PASSWORD));
    (output.status.code().unwrap(), out, err)
}

fn json(home: &Path, args: &[&str]) -> Value {
    let (code, out, err) = run_with_password(home, args);
    assert_eq!(code, 0, "{err}");
    serde_json::from_str(&out).unwrap()
}

#[test]
fn keys_are_made_shown_exported_and_removed() {
    let home = workspace();
    let home = home.path();
    let made = json(home, &["keys", "new", "release", "--json"]);
    let key = &made["created"];
    assert_eq!(
        (&key["algorithm"], &key["canSign"]),
        (&"ecdsa-p256".into(), &true.into())
    );
    let other = json(
        home,
        &["keys", "new", "other", "--algorithm", "ed25519", "--json"],
    );
    assert_eq!(other["created"]["algorithm"], "ed25519");
    let list = json(home, &["keys", "--json"]);
    let names: Vec<_> = list["keys"]
        .as_array()
        .unwrap()
        .iter()
        .map(|key| &key["name"])
        .collect();
    assert_eq!(names, ["other", "release"]);
    let (code, pem, _) = run_with_password(home, &["keys", "show", "release"]);
    assert_eq!(code, 0);
    assert!(pem.starts_with("-----BEGIN PUBLIC KEY-----\n"), "{pem}");
    assert!(pem.contains(key["id"].as_str().unwrap()));

    // The stored private key is encrypted, and only this user can read it.
    let folder = kit::config(home).join("keys");
    let private = fs::read_to_string(folder.join("release.key")).unwrap();
    assert!(private.starts_with("-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\n"));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::metadata(folder.join("release.key"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o077, 0, "{mode:o}");
    }

    // A key from a file, and a public key alone.
    fs::write(home.join("cosign.key"), &private).unwrap();
    fs::write(home.join("partner.pub"), &pem).unwrap();
    let imported = json(home, &["keys", "import", "cosign.key", "copy", "--json"]);
    assert_eq!(imported["imported"]["id"], key["id"]);
    let partner = json(
        home,
        &["keys", "import", "partner.pub", "partner", "--json"],
    );
    assert_eq!(
        (&partner["imported"]["id"], &partner["imported"]["canSign"]),
        (&key["id"], &false.into())
    );

    let (code, _, err) = run_with_password(home, &["keys", "remove", "copy"]);
    assert_eq!(code, 3, "{err}");
    assert!(folder.join("copy.key").exists());
    json(home, &["keys", "remove", "copy", "--yes", "--json"]);
    assert!(!folder.join("copy.key").exists() && !folder.join("copy.pub").exists());
    let (_, log, _) = run_with_password(home, &["audit", "show", "--json"]);
    let id = key["id"].as_str().unwrap();
    for (subject, detail) in [
        ("key release", format!("created, {id}")),
        ("key copy", format!("imported, private, {id}")),
        ("key partner", format!("imported, public, {id}")),
        ("key copy", format!("removed, {id}")),
    ] {
        assert!(log.contains(subject) && log.contains(&detail), "{log}");
    }
}

#[test]
fn keys_commands_refuse_bad_input_and_keep_what_is_stored() {
    let home = workspace();
    let home = home.path();
    json(home, &["keys", "new", "release", "--json"]);
    let folder = kit::config(home).join("keys");
    let before = fs::read(folder.join("release.key")).unwrap();
    fs::write(home.join("broken.pub"), "no key").unwrap();
    fs::write(home.join("huge.pub"), vec![b'x'; 1 << 20]).unwrap();
    fs::copy(folder.join("release.key"), home.join("own.key")).unwrap();
    for (args, why) in [
        (&["keys", "new", "release"][..], "exists already"),
        (&["keys", "new", "../x"], "invalid name of a key"),
        (
            &["keys", "new", "x", "--algorithm", "rsa"],
            "unknown algorithm `rsa`",
        ),
        (&["keys", "show", "nothing"], "unknown key `nothing`"),
        (
            &["keys", "remove", "nothing", "--yes"],
            "unknown key `nothing`",
        ),
        (
            &["keys", "import", "broken.pub", "x"],
            "expected a public key in PEM",
        ),
        (&["keys", "import", "huge.pub", "x"], "huge.pub"),
        (&["keys", "import", "missing.pub", "x"], "missing.pub"),
    ] {
        let (code, _, err) = run_with_password(home, args);
        assert!(code != 0 && err.contains(why), "{args:?}: {err}");
    }
    let wrong = mimir(home, &["keys", "import", "own.key", "x"])
        .env("MIMIR_KEY_PASSWORD", "wrong")
        .output()
        .unwrap();
    let err = String::from_utf8(wrong.stderr).unwrap();
    assert!(
        err.contains("password of the private key is wrong"),
        "{err}"
    );
    // Without a terminal and without the variable, nothing can be asked for.
    let (code, _, err) = kit::run(home, &["keys", "new", "unasked"]);
    assert!(code != 0 && err.contains("MIMIR_KEY_PASSWORD"), "{err}");
    assert_eq!(fs::read(folder.join("release.key")).unwrap(), before);
    let list = json(home, &["keys", "list", "--json"]);
    assert_eq!(list["keys"].as_array().unwrap().len(), 1);
}

#[test]
fn key_password_is_masked_in_results() {
    let home = workspace();
    fs::write(home.path().join("note.txt"), format!("it is {PASSWORD}.\n")).unwrap();
    // `run_with_password` fails if the password is printed.
    let (code, out, err) = run_with_password(home.path(), &["call", "read_file", "path=note.txt"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("it is "), "{out}");
}

#[test]
fn trust_settings_that_cannot_be_used_are_reported() {
    let home = workspace();
    let user = kit::config(home.path());
    fs::create_dir_all(&user).unwrap();
    fs::write(
        user.join("root.json"),
        r#"{"mediaType": "application/json"}"#,
    )
    .unwrap();
    fs::write(home.path().join("own.pub"), "x").unwrap();
    let inside = home
        .path()
        .join("own.pub")
        .display()
        .to_string()
        .replace('\\', "/");
    for (config, why) in [
        ("trustRoot: missing.json".to_owned(), "missing.json"),
        // Relative to the folder of the settings, as all files that they name.
        (
            "trustRoot: root.json".to_owned(),
            "the trust root is not valid",
        ),
        (rule("missing"), "unknown key `missing`"),
        (rule("missing.pub"), "missing.pub"),
        (rule(&inside), "is in the workspace"),
        (rule("-----BEGIN PUBLIC KEY-----"), "in PEM"),
        (
            "trust: [{registry: '*'}]".to_owned(),
            "expected `keys` or `identities`",
        ),
    ] {
        fs::write(user.join("config.yml"), format!("{config}\n")).unwrap();
        // Nothing listens there: the settings are judged before any request.
        let (code, _, err) = kit::run(home.path(), &["tools", "add", "127.0.0.1:9/acme/weather:1"]);
        assert!(code != 0 && err.contains(why), "{config}: {err}");
    }
}

fn rule(key: &str) -> String {
    format!("trust: [{{registry: '*', keys: ['{key}']}}]")
}
