//! Needs of a script, derived from the words in its code, because a tool file declares only command patterns. Access
//! that the code hides (`context["plat" + "form"]`) is denied at run time, because it was never granted.

use mimir_core::needs::{ANY_HOST, CommandNeed, DirectoryAccess, FileNeed, HostNeed, Needs};

use crate::compile::CodeMentions;

/// Words that indicate writes to files.
const WRITES: [&str; 5] = ["writeFile", "remove", "unlink", "mkdir", "rm"];

/// HTTP methods that a script may use. Hosts are limited by the settings and by the user.
const METHODS: [&str; 6] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];

/// Returns the needs of a script. Without patterns, a script that runs commands needs any command; each is checked when
/// it runs.
pub(crate) fn script_needs(mentions: &CodeMentions, patterns: Option<&[String]>) -> Needs {
    let mut needs = Needs::default();
    let has = |word: &str| mentions.words.contains(word);
    if has("fs") {
        let writes = WRITES.into_iter().any(has);
        needs.files.push(FileNeed {
            path: ".".to_owned(),
            access: if writes {
                DirectoryAccess::ReadWrite
            } else {
                DirectoryAccess::Read
            },
            reason: "the code accesses files".to_owned(),
        });
    }
    if has("http") || has("fetch") {
        needs.hosts.push(HostNeed {
            host: ANY_HOST.to_owned(),
            methods: METHODS.map(str::to_owned).into(),
            reason: "the code sends requests".to_owned(),
        });
    }
    if has("executor") {
        let any = ["*".to_owned()];
        let reason = if patterns.is_some() {
            "permissions.allowlist"
        } else {
            "the code runs commands"
        };
        let patterns = patterns.unwrap_or(&any).iter();
        needs.commands.extend(patterns.map(|pattern| CommandNeed {
            pattern: pattern.clone(),
            reason: reason.to_owned(),
        }));
        // Commands run in the workspace, and can access the files granted to the tool.
        if needs.files.is_empty() {
            needs.files.push(FileNeed {
                path: ".".to_owned(),
                access: DirectoryAccess::ReadWrite,
                reason: "the commands that the code runs start there".to_owned(),
            });
        } else {
            needs.files[0].access = DirectoryAccess::ReadWrite;
        }
    }
    needs.model = has("llm");
    if has("tools") {
        needs.tools.extend(mentions.called.iter().cloned());
    }
    needs
}

/// Returns the needs of a script in bash, which gets read access to the workspace whatever its code names.
pub(crate) fn bash_needs(mentions: &CodeMentions, patterns: Option<&[String]>) -> Needs {
    let mut needs = script_needs(mentions, patterns);
    for need in &mut needs.files {
        if need.access == DirectoryAccess::Read {
            need.reason = "bash can always read the workspace".to_owned();
        }
    }
    needs
}

/// Returns the needs of a `runtime: node` tool: the `node` command. Child processes share its sandbox.
pub(crate) fn node_needs() -> Needs {
    let node = CommandNeed {
        pattern: "node *".to_owned(),
        reason: "runtime: node".to_owned(),
    };
    Needs {
        files: vec![FileNeed {
            path: ".".to_owned(),
            access: DirectoryAccess::ReadWrite,
            reason: "node starts there".to_owned(),
        }],
        commands: vec![node],
        ..Needs::default()
    }
}
