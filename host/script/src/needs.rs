//! What a script asks for: what its code mentions. A file names patterns of commands and nothing else that it reaches,
//! so the rest is read from the code; what is reached without being mentioned (`context["plat" + "form"]`) is refused
//! when it is tried, for it was never granted.

use mimir_core::needs::{ANY_HOST, Access, CommandNeed, FileNeed, HostNeed, Needs};

use crate::compile::Mentions;

/// What changes files.
const WRITES: [&str; 5] = ["writeFile", "remove", "unlink", "mkdir", "rm"];

/// Methods that a script may send. Which hosts it reaches is for the settings and the person to say.
const METHODS: [&str; 6] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];

/// The needs of a script. No patterns at all are any command, each judged when it is run.
pub(crate) fn of(mentions: &Mentions, patterns: Option<&[String]>) -> Needs {
    let mut needs = Needs::default();
    let has = |word: &str| mentions.words.contains(word);
    if has("fs") {
        let writes = WRITES.into_iter().any(has);
        needs.files.push(FileNeed {
            path: ".".to_owned(),
            access: match writes {
                true => Access::ReadWrite,
                false => Access::Read,
            },
            reason: "its code uses platform.fs".to_owned(),
        });
    }
    if has("http") || has("fetch") {
        needs.hosts.push(HostNeed {
            host: ANY_HOST.to_owned(),
            methods: METHODS.map(str::to_owned).into(),
            reason: "its code sends requests".to_owned(),
        });
    }
    if has("executor") {
        let any = ["*".to_owned()];
        let patterns = patterns.unwrap_or(&any).iter();
        needs.commands.extend(patterns.map(|pattern| CommandNeed {
            pattern: pattern.clone(),
            reason: "permissions.allowlist".to_owned(),
        }));
        // A command reaches the files that the tool was granted, and works in the workspace.
        if needs.files.is_empty() {
            needs.files.push(FileNeed {
                path: ".".to_owned(),
                access: Access::ReadWrite,
                reason: "the commands that it runs work there".to_owned(),
            });
        } else {
            needs.files[0].access = Access::ReadWrite;
        }
    }
    needs.model = has("llm");
    if has("tools") {
        needs.tools.extend(mentions.called.iter().cloned());
    }
    needs
}

/// The needs of a tool for the machine's own `node`: that. What it starts is in the sandbox that it is in itself.
pub(crate) fn of_node() -> Needs {
    let node = CommandNeed {
        pattern: "node *".to_owned(),
        reason: "runtime: node".to_owned(),
    };
    Needs {
        files: vec![FileNeed {
            path: ".".to_owned(),
            access: Access::ReadWrite,
            reason: "node works there".to_owned(),
        }],
        commands: vec![node],
        ..Needs::default()
    }
}
