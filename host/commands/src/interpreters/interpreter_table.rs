//! The command-line options of interpreters. Options that are not listed make the source of the code unknown.

/// Long options of shells that do not change how commands are read.
pub(crate) const SHELL_LONG_OPTIONS: &[&str] = &[
    "login",
    "noprofile",
    "norc",
    "posix",
    "verbose",
    "noediting",
    "restricted",
];

/// The options of an interpreter. Most fields list letters; the value of a letter is the rest of its word, or the next
/// word.
pub(super) struct InterpreterOptions {
    /// Names without a version.
    pub(super) names: &'static [&'static str],
    pub(super) is_shell: bool,
    /// Letters without a value.
    pub(super) flags: &'static str,
    /// Letters whose value is not code.
    pub(super) values: &'static str,
    /// Letters whose value is a file or module that is loaded.
    pub(super) loads: &'static str,
    /// Letters whose value is code.
    pub(super) code: &'static str,
    /// Letters whose value is a module that runs, like `python -m`.
    pub(super) modules: &'static str,
    /// Letters whose value is the file to run.
    pub(super) script: &'static str,
    /// Letters after which the rest of the word is a value, if there is one.
    pub(super) attached: &'static str,
    /// Letters before an octal number, which other letters may follow.
    pub(super) numbers: &'static str,
    /// Letters that make the interpreter read its standard input after the file.
    pub(super) interactive: &'static str,
    /// Letters that print the version, and end the interpreter if no file is named.
    pub(super) prints_version: &'static str,
    /// Letters that print something instead of running code.
    pub(super) stops: &'static str,
    /// Long options without a value. A `*` stands for any ending.
    pub(super) long_flags: &'static [&'static str],
    /// Long options that run the tests of the project.
    pub(super) long_tests: &'static [&'static str],
    /// Long options with a value.
    pub(super) long_values: &'static [&'static str],
    /// Long options whose value is a file or module that is loaded.
    pub(super) long_loads: &'static [&'static str],
    /// Long options whose value is code.
    pub(super) long_code: &'static [&'static str],
    /// Subcommands, which are not files.
    pub(super) subcommands: &'static [&'static str],
}

/// An interpreter without known options.
const fn interpreter(names: &'static [&'static str]) -> InterpreterOptions {
    InterpreterOptions {
        names,
        is_shell: false,
        flags: "",
        values: "",
        loads: "",
        code: "",
        modules: "",
        script: "",
        attached: "",
        numbers: "",
        interactive: "",
        prints_version: "",
        stops: "",
        long_flags: &[],
        long_tests: &[],
        long_values: &[],
        long_loads: &[],
        long_code: &[],
        subcommands: &[],
    }
}

/// Long options of Node.js without a value.
const NODE_FLAGS: &[&str] = &[
    "abort-on-uncaught-exception",
    "check",
    "enable-source-maps",
    "experimental-strip-types",
    "experimental-transform-types",
    "experimental-vm-modules",
    "experimental-modules",
    "experimental-json-modules",
    "experimental-wasm-modules",
    "experimental-sqlite",
    "experimental-test-coverage",
    "expose-gc",
    "frozen-intrinsics",
    "harmony*",
    "inspect",
    "inspect-brk",
    "no-*",
    "pending-deprecation",
    "preserve-symlinks*",
    "prof",
    "throw-deprecation",
    "trace-*",
    "use-openssl-ca",
    "use-bundled-ca",
    "watch",
];

/// Shells and interpreters of other languages.
pub(super) const INTERPRETERS: &[InterpreterOptions] = &[
    InterpreterOptions {
        is_shell: true,
        flags: "abefhilmnprtuvxBCDEHPT",
        values: "oO",
        code: "c",
        // With `-s`, even an operand is not a file.
        interactive: "s",
        long_flags: SHELL_LONG_OPTIONS,
        ..interpreter(&["ash", "bash", "dash", "ksh", "mksh", "rbash", "sh", "zsh"])
    },
    InterpreterOptions {
        is_shell: true,
        code: "c",
        interactive: "i",
        ..interpreter(&[
            "csh", "elvish", "es", "fish", "nu", "oksh", "osh", "pwsh", "rc", "tcsh", "xonsh",
            "yash",
        ])
    },
    InterpreterOptions {
        flags: "bBdEIOPqsSuvx",
        values: "WX",
        code: "c",
        modules: "m",
        interactive: "i",
        stops: "hV?",
        long_values: &["check-hash-based-pycs"],
        ..interpreter(&["python", "pypy", "ipython", "jython", "micropython"])
    },
    InterpreterOptions {
        flags: "acfgnpsTtUuWwX",
        values: "I",
        code: "eE",
        attached: "CDFiMm",
        numbers: "0l",
        stops: "hvV?",
        ..interpreter(&["perl"])
    },
    InterpreterOptions {
        flags: "acdlnpswy",
        values: "IE",
        loads: "r",
        code: "e",
        attached: "iFKTW",
        numbers: "0",
        prints_version: "v",
        stops: "h",
        long_flags: &["debug", "jit", "verbose", "yjit", "disable-*", "enable-*"],
        long_values: &["encoding", "external-encoding", "internal-encoding"],
        ..interpreter(&["ruby", "jruby", "truffleruby"])
    },
    InterpreterOptions {
        flags: "c",
        values: "C",
        loads: "r",
        code: "ep",
        interactive: "i",
        stops: "hv",
        long_flags: NODE_FLAGS,
        long_tests: &["test"],
        long_values: &[
            "conditions",
            "env-file",
            "env-file-if-exists",
            "experimental-default-type",
            "icu-data-dir",
            "input-type",
            "test-name-pattern",
            "test-reporter",
            "test-reporter-destination",
            "title",
            "unhandled-rejections",
        ],
        long_loads: &["experimental-loader", "import", "loader", "require"],
        long_code: &["eval", "print"],
        subcommands: &["inspect", "watch"],
        ..interpreter(&["node", "nodejs", "tsx"])
    },
    InterpreterOptions {
        flags: "TFH",
        values: "OPC",
        loads: "r",
        code: "ep",
        interactive: "i",
        stops: "hv",
        long_flags: &[
            "esm",
            "files",
            "swc",
            "transpile-only",
            "type-check",
            "pretty",
        ],
        long_values: &["project", "compiler-options", "compiler"],
        long_loads: &["require"],
        long_code: &["eval", "print"],
        ..interpreter(&["ts-node", "ts-node-esm", "ts-node-script"])
    },
    InterpreterOptions {
        flags: "neglqwsH",
        values: "cd",
        code: "r",
        script: "f",
        interactive: "a",
        stops: "hvim",
        ..interpreter(&["php", "php-cgi"])
    },
    InterpreterOptions {
        flags: "EW",
        loads: "l",
        code: "e",
        interactive: "i",
        prints_version: "v",
        ..interpreter(&["lua", "luajit", "luau"])
    },
    InterpreterOptions {
        code: "e",
        long_flags: &["vanilla", "no-*", "slave", "quiet", "verbose"],
        ..interpreter(&["Rscript"])
    },
    InterpreterOptions {
        flags: "q",
        values: "tp",
        loads: "L",
        code: "eE",
        interactive: "i",
        stops: "hv",
        long_flags: &["project"],
        long_code: &["eval", "print"],
        ..interpreter(&["julia"])
    },
    interpreter(&[
        "R",
        "bb",
        "clisp",
        "clojure",
        "dc",
        "ecl",
        "elixir",
        "erl",
        "escript",
        "expect",
        "fennel",
        "ghci",
        "gjs",
        "gnuplot",
        "gp",
        "groovy",
        "guile",
        "iex",
        "irb",
        "janet",
        "jshell",
        "m4",
        "maxima",
        "ocaml",
        "octave",
        "osascript",
        "pry",
        "psysh",
        "qjs",
        "quickjs",
        "racket",
        "raku",
        "runghc",
        "sage",
        "sbcl",
        "scala",
        "swipl",
        "tclsh",
        "wish",
    ]),
];
