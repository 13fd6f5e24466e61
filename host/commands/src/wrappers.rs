//! Programs that run the command in their arguments: the position of that command, and the words that they add.

use super::option_table::OptionTable;

/// Effect of a wrapper on the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WrapperEffect {
    /// The command runs unchanged.
    None,
    /// The wrapper adds words to the command.
    AddsWords,
    /// The command needs approval. The reason is a predicate about the wrapper.
    NeedsApproval(&'static str),
}

/// A program that runs the command in its arguments.
pub(super) struct CommandWrapper {
    pub(super) name: &'static str,
    pub(super) options: OptionTable,
    /// Number of words between the options and the command.
    pub(super) operands: usize,
    /// True if `NAME=value` may precede the command.
    pub(super) takes_assignments: bool,
    pub(super) effect: WrapperEffect,
}

const fn options(flags: &'static str, values: &'static str) -> OptionTable {
    OptionTable {
        flags,
        values,
        ..OptionTable::NONE
    }
}

const fn plain_wrapper(name: &'static str, options: OptionTable) -> CommandWrapper {
    CommandWrapper {
        name,
        options,
        operands: 0,
        takes_assignments: false,
        effect: WrapperEffect::None,
    }
}

const OTHER_USER: WrapperEffect = WrapperEffect::NeedsApproval("runs the command as another user");

pub(super) const WRAPPERS: &[CommandWrapper] = &[
    CommandWrapper {
        takes_assignments: true,
        ..plain_wrapper(
            "env",
            OptionTable {
                long: &["ignore-environment", "null", "debug"],
                long_values: &["unset"],
                ..options("i0v", "u")
            },
        )
    },
    plain_wrapper(
        "nice",
        OptionTable {
            long_values: &["adjustment"],
            ..options("0123456789", "n")
        },
    ),
    plain_wrapper("nohup", options("", "")),
    plain_wrapper(
        "time",
        OptionTable {
            long: &["portability", "verbose"],
            long_values: &["format"],
            ..options("pv", "f")
        },
    ),
    CommandWrapper {
        operands: 1,
        ..plain_wrapper(
            "timeout",
            OptionTable {
                long: &["foreground", "preserve-status", "verbose"],
                long_values: &["kill-after", "signal"],
                ..options("v", "ks")
            },
        )
    },
    plain_wrapper(
        "stdbuf",
        OptionTable {
            long_values: &["input", "output", "error"],
            ..options("", "ioe")
        },
    ),
    plain_wrapper(
        "ionice",
        OptionTable {
            long: &["ignore"],
            long_values: &["class", "classdata"],
            ..options("t", "cn")
        },
    ),
    plain_wrapper(
        "setsid",
        OptionTable {
            long: &["ctty", "fork", "wait"],
            ..options("cfw", "")
        },
    ),
    plain_wrapper("unbuffer", options("p", "")),
    CommandWrapper {
        operands: 1,
        ..plain_wrapper(
            "taskset",
            OptionTable {
                long: &["all-tasks", "cpu-list"],
                ..options("ac", "")
            },
        )
    },
    CommandWrapper {
        effect: WrapperEffect::NeedsApproval("creates the files that its options name"),
        ..plain_wrapper(
            "xvfb-run",
            OptionTable {
                long: &["auto-servernum", "listen-tcp"],
                long_values: &[
                    "auth-file",
                    "error-file",
                    "server-args",
                    "server-num",
                    "wait",
                    "xauth-protocol",
                ],
                ..options("al", "efnpsw")
            },
        )
    },
    CommandWrapper {
        operands: 1,
        effect: WrapperEffect::NeedsApproval("creates its lock file"),
        ..plain_wrapper(
            "flock",
            OptionTable {
                long: &[
                    "close",
                    "exclusive",
                    "nb",
                    "no-fork",
                    "nonblock",
                    "shared",
                    "unlock",
                    "verbose",
                ],
                long_values: &["conflict-exit-code", "timeout", "wait"],
                ..options("enosux", "Ew")
            },
        )
    },
    CommandWrapper {
        effect: WrapperEffect::NeedsApproval("repeats the command until it is stopped"),
        ..plain_wrapper(
            "watch",
            OptionTable {
                long: &[
                    "beep",
                    "chgexit",
                    "color",
                    "errexit",
                    "exec",
                    "no-linewrap",
                    "no-title",
                    "precise",
                ],
                long_values: &["interval"],
                optional: "d",
                long_optional: &["differences"],
                ..options("bcegptwx", "n")
            },
        )
    },
    plain_wrapper("command", options("p", "")),
    plain_wrapper("builtin", options("", "")),
    plain_wrapper("exec", options("cl", "a")),
    plain_wrapper("busybox", options("", "")),
    CommandWrapper {
        effect: WrapperEffect::AddsWords,
        ..plain_wrapper(
            "xargs",
            OptionTable {
                long: &["null", "no-run-if-empty", "verbose", "exit", "open-tty"],
                long_values: &[
                    "max-args",
                    "max-procs",
                    "max-chars",
                    "delimiter",
                    "arg-file",
                ],
                optional: "eil",
                long_optional: &["eof", "max-lines", "replace"],
                ..options("0rtxo", "InPsdaEL")
            },
        )
    },
    CommandWrapper {
        takes_assignments: true,
        effect: OTHER_USER,
        ..plain_wrapper(
            "sudo",
            OptionTable {
                long: &[
                    "non-interactive",
                    "preserve-env",
                    "set-home",
                    "stdin",
                    "background",
                    "reset-timestamp",
                ],
                long_values: &["user", "group", "chdir", "prompt", "host"],
                ..options("nEHSbkKAP", "ugDph")
            },
        )
    },
    CommandWrapper {
        effect: OTHER_USER,
        ..plain_wrapper("doas", options("nL", "uC"))
    },
];
