//! Programs that run the command in their arguments: the position of that command, and the words that they add.

use super::options::Options;

/// The effect of a wrapper on the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// No effect: the command runs as it is.
    None,
    /// It adds words of its own.
    Adds,
    /// It runs the command in a way that a person has to approve.
    Asks(&'static str),
}

/// A program that runs the command in its arguments.
pub(super) struct Wrapper {
    pub(super) name: &'static str,
    pub(super) options: Options,
    /// Words between its options and the command.
    pub(super) operands: usize,
    /// True if `NAME=value` may come before the command.
    pub(super) assigns: bool,
    pub(super) effect: Effect,
}

const fn options(flags: &'static str, values: &'static str) -> Options {
    Options {
        flags,
        values,
        ..Options::NONE
    }
}

const fn plain(name: &'static str, options: Options) -> Wrapper {
    Wrapper {
        name,
        options,
        operands: 0,
        assigns: false,
        effect: Effect::None,
    }
}

const OTHER_USER: Effect = Effect::Asks("it runs as another user");

/// Returns true for a program that runs the command in its arguments like the command alone.
pub(super) fn is_wrapper(name: &str) -> bool {
    WRAPPERS.iter().any(|wrapper| wrapper.name == name)
}

pub(super) const WRAPPERS: &[Wrapper] = &[
    Wrapper {
        assigns: true,
        ..plain(
            "env",
            Options {
                long: &["ignore-environment", "null", "debug"],
                long_values: &["unset"],
                ..options("i0v", "u")
            },
        )
    },
    plain(
        "nice",
        Options {
            long_values: &["adjustment"],
            ..options("0123456789", "n")
        },
    ),
    plain("nohup", options("", "")),
    plain(
        "time",
        Options {
            long: &["portability", "verbose"],
            long_values: &["format"],
            ..options("pv", "f")
        },
    ),
    Wrapper {
        operands: 1,
        ..plain(
            "timeout",
            Options {
                long: &["foreground", "preserve-status", "verbose"],
                long_values: &["kill-after", "signal"],
                ..options("v", "ks")
            },
        )
    },
    plain(
        "stdbuf",
        Options {
            long_values: &["input", "output", "error"],
            ..options("", "ioe")
        },
    ),
    plain(
        "ionice",
        Options {
            long: &["ignore"],
            long_values: &["class", "classdata"],
            ..options("t", "cn")
        },
    ),
    plain(
        "setsid",
        Options {
            long: &["ctty", "fork", "wait"],
            ..options("cfw", "")
        },
    ),
    plain("command", options("p", "")),
    plain("builtin", options("", "")),
    plain("exec", options("cl", "a")),
    plain("busybox", options("", "")),
    Wrapper {
        effect: Effect::Adds,
        ..plain(
            "xargs",
            Options {
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
    Wrapper {
        assigns: true,
        effect: OTHER_USER,
        ..plain(
            "sudo",
            Options {
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
    Wrapper {
        effect: OTHER_USER,
        ..plain("doas", options("nL", "uC"))
    },
];
