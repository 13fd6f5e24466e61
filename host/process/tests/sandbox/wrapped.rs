//! Tests specific to bubblewrap, which runs outside the sandbox that it builds.

use mimir_core::ToolErrorCode;
use mimir_core::command::CommandProgram;
use mimir_process::sandbox::{ProcessSandbox, Sandbox, SandboxError};

use crate::kit::{Said, World, run_in};

/// Returns the sandbox, if bubblewrap is installed.
fn sandbox() -> Option<ProcessSandbox> {
    let sandbox = ProcessSandbox::by_bubblewrap();
    sandbox.available().is_ok().then_some(sandbox)
}

#[tokio::test]
async fn bubblewrap_does_not_get_variables_of_the_command() {
    let Some(sandbox) = sandbox() else { return };
    let world = World::new();
    std::fs::create_dir_all(world.path()).unwrap();
    // This library creates a file in any process that loads it.
    let (source, library) = (world.path().join("x.c"), world.path().join("x.so"));
    let mark = world.outside().join("mark");
    let text = format!(
        "#include <stdio.h>\n__attribute__((constructor)) static void f(void) {{ FILE *m = fopen(\"{}\", \"w\"); \
         if (m) fclose(m); }}\n",
        mark.display()
    );
    std::fs::write(&source, text).unwrap();
    let made = std::process::Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .status();
    if !made.is_ok_and(|status| status.success()) {
        return;
    }
    for name in ["LD_PRELOAD", "LD_AUDIT"] {
        let mut spec = world.script(&format!("echo $A; echo ${name}"));
        let library = library.display().to_string();
        spec.environment = vec![(name.into(), library.clone()), ("A".into(), "b c".into())];
        let said = Said::of(run_in(&sandbox, &spec).await.unwrap());
        assert_eq!(said.out, format!("b c\n{library}\n"), "{said:?}");
        assert!(!mark.exists(), "{name} ran code outside the sandbox");
    }
}

#[tokio::test]
async fn bubblewrap_arguments_contain_no_variable_values() {
    let Some(sandbox) = sandbox() else { return };
    let world = World::new();
    let secret = format!("secret-{}", std::process::id());
    let mut spec = world.script("sleep 1; echo $TOKEN");
    spec.environment = vec![("TOKEN".into(), secret.clone())];
    let running = tokio::spawn(async move { run_in(&sandbox, &spec).await });
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let words = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let found = words
            .windows(secret.len())
            .any(|part| part == secret.as_bytes());
        assert!(!found, "{}", entry.path().display());
    }
    let said = Said::of(running.await.unwrap().unwrap());
    assert_eq!(said.out, format!("{secret}\n"));
}

#[tokio::test]
async fn bubblewrap_rejects_too_many_arguments_or_masks() {
    let Some(sandbox) = sandbox() else { return };
    let world = World::new();
    let words = |count: usize| {
        let mut words = vec!["true".to_owned()];
        words.resize(count, "x".to_owned());
        CommandProgram::Vector(words)
    };
    assert_eq!(
        run_in(&sandbox, &world.spec(words(8_000)))
            .await
            .unwrap()
            .exit_code,
        0
    );
    let fault = run_in(&sandbox, &world.spec(words(9_000)))
        .await
        .unwrap_err();
    assert!(matches!(fault, SandboxError::Unsupported { .. }), "{fault}");
    assert!(fault.to_string().contains("9000 arguments"), "{fault}");
    let mut world = World::new();
    for number in 0..3_200 {
        world = world.with(&format!("keys/{number}.pem"), "x");
    }
    let fault = run_in(&sandbox, &world.script("true")).await.unwrap_err();
    assert!(matches!(fault, SandboxError::Unsupported { .. }), "{fault}");
    assert_eq!(fault.code(), ToolErrorCode::Unavailable);
    let error = mimir_core::ToolError::from(fault);
    assert!(!error.remedies.is_empty(), "{error:?}");
}

/// The limit of open files applies to the whole process, so the test runs in another process.
#[tokio::test]
async fn bubblewrap_rejects_more_masks_than_open_files() {
    const INSIDE: &str = "MIMIR_TEST_FEW_FILES";
    let Some(sandbox) = sandbox() else { return };
    if std::env::var_os(INSIDE).is_none() {
        let program = std::env::current_exe().unwrap();
        let name = "wrapped::bubblewrap_rejects_more_masks_than_open_files";
        let said = std::process::Command::new("sh")
            .args([
                "-c",
                "ulimit -n 1024; exec \"$0\" --exact \"$1\" --nocapture",
            ])
            .arg(program)
            .arg(name)
            .env(INSIDE, "1")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&said.stdout);
        assert!(
            said.status.success() && text.contains("1 passed"),
            "{said:?}"
        );
        return;
    }
    let mut world = World::new();
    for number in 0..1_100 {
        world = world.with(&format!("keys/{number}.pem"), "x");
    }
    let fault = run_in(&sandbox, &world.script("true")).await.unwrap_err();
    assert!(matches!(fault, SandboxError::Unsupported { .. }), "{fault}");
    assert!(fault.to_string().contains("ulimit -n 2048"), "{fault}");
}

#[tokio::test]
async fn bubblewrap_dev_folder_accepts_no_files() {
    let Some(sandbox) = sandbox() else { return };
    let world = World::new();
    let spec = world.script(
        "echo x > /dev/file && echo made; echo x > /dev/null; : > /dev/shm/x && echo shared
         df -B1 --output=size /dev/shm | tail -1",
    );
    let said = Said::of(run_in(&sandbox, &spec).await.unwrap());
    assert_eq!(
        said.out.trim(),
        format!("shared\n{}", 2u64 << 30),
        "{said:?}"
    );
}
