//! Files in a workspace with the names of files that engines load: they run only with the rights of the call that
//! imports them.

use mimir_core::needs::DirectoryAccess;
use serde_json::json;

use crate::code::{CodeFixture, code_result};

/// Names of modules that the host's own code, the standard library or a tool imports. The engine's Python lacks some
/// of them.
const MODULES: [&str; 13] = [
    "mimir",
    "plistlib",
    "json",
    "traceback",
    "_ssl",
    "_bz2",
    "bz2",
    "lzma",
    "_threads",
    "_pbkdf2",
    "ctypes",
    "this",
    "getpass",
];

const PYTHON: &str = "
name: py
description: A test.
schema: {type: object}
runtime: python
permissions: {autoAccept: true}
code: |
  import sys
  def execute(args, context):
      import bz2, ctypes, plistlib, getpass, hashlib, threading
      hashlib.pbkdf2_hmac('sha256', b'a', b'b', 1)
      thread = threading.Thread(target=lambda: None)
      thread.start()
      for name in ('_bz2', 'lzma', 'planted', '_ssl'):
          try:
              __import__(name)
              return 'found ' + name
          except ImportError:
              pass
      context.platform.fs.readFile('a.txt')
      return plistlib.__file__ + ' ' + str(hasattr(sys, 'owned'))
";

const BASH: &str = "
name: sh
description: A test.
schema: {type: object}
runtime: bash
permissions: {autoAccept: true}
code: |
  jq -rn '\"jq\"'
  mimir-log info said
  ls / > /dev/null
  planted 2> /dev/null || echo none
  python3 -c 'import plistlib, sys; print(hasattr(sys, \"owned\"))'
  python3 -c 'import planted' 2> /dev/null || echo none
";

fn fixture() -> CodeFixture {
    let fixture = CodeFixture::with_tools(
        DirectoryAccess::ReadWrite,
        &[("py.yml", PYTHON), ("sh.yml", BASH)],
    );
    let root = fixture.path();
    std::fs::write(root.join("a.txt"), "a").unwrap();
    let module = "import sys\nsys.owned = True\nprint('owned')\n";
    for name in MODULES.iter().chain(&["planted"]) {
        std::fs::write(root.join(format!("{name}.py")), module).unwrap();
    }
    for name in [
        "jq",
        "ls",
        "mimir-log",
        "python3",
        "planted",
        ".bashrc",
        ".profile",
    ] {
        let file = root.join(name);
        std::fs::write(&file, "#!/bin/bash\necho owned\n").unwrap();
        #[cfg(unix)]
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
    }
    fixture
}

#[test]
fn script_tools_load_nothing_from_the_workspace() {
    let fixture = fixture();
    let outcome = fixture.call_tool("py", json!({}));
    let text = outcome.text();
    assert!(
        outcome.is_ok() && text.starts_with("/usr/local/lib/") && text.ends_with(" False"),
        "{text}"
    );
    let outcome = fixture.call_tool("sh", json!({}));
    assert_eq!(
        outcome.text(),
        "jq\nnone\nFalse\nnone",
        "{}",
        outcome.text()
    );
}

#[test]
fn code_imports_workspace_modules_after_the_standard_library() {
    let fixture = fixture();
    let code = "import sys, mimir, plistlib, traceback\nprint(hasattr(sys, 'owned'), hasattr(mimir, 'call'))\nimport planted\nprint(sys.path[-1:], sys.argv[1:])";
    let wanted = "False True\nowned\n[''] ['one', 'two words']\n";
    assert_eq!(fixture.run("python", code).stdout, wanted);
    let bash = format!("python3 -c \"{code}\" one 'two words'");
    assert_eq!(fixture.run("bash", &bash).stdout, wanted);
    let session = |code: &str| {
        code_result(&fixture.call(json!({"language": "python", "session": "s", "code": code})))
    };
    let first = session("import sys\nprint(hasattr(sys, 'owned'), sys.path.count(''))\n1 // 0");
    assert_eq!(first.stdout, "False 1\n", "{first:?}");
    assert!(!first.stderr.contains("owned"), "{first:?}");
    let second = session("import planted, plistlib\nprint(plistlib.__file__, sys.path.count(''))");
    assert!(
        second.stdout.starts_with("owned\n/usr/local/lib/") && second.stdout.ends_with(" 1\n"),
        "{second:?}"
    );
}
