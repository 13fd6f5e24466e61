//! Shells and interpreters of other languages: how they are recognized, and where a command line takes the code from.

use crate::ShellWord;

mod interpreter_table;

pub(crate) use interpreter_table::SHELL_LONG_OPTIONS;
use interpreter_table::{INTERPRETERS, InterpreterOptions};

/// Shells whose scripts are parsed.
pub(crate) const SHELLS: &[&str] = &["ash", "bash", "dash", "ksh", "mksh", "sh", "zsh"];

/// Returns the name of a program without its folder, extension `.exe` and version: `python` for `/usr/bin/python3.11`.
/// Listed names that end in a digit, such as `m4`, stay as they are.
fn stem(program: &str) -> &str {
    let name = program.rsplit(['/', '\\']).next().unwrap_or(program);
    let name = name.strip_suffix(".exe").unwrap_or(name);
    if is_listed(name) {
        return name;
    }
    let Some(digit) = name.find(|c: char| c.is_ascii_digit()) else {
        return name;
    };
    let (stem, version) = name.split_at(digit);
    let number = version.split('-').next().unwrap_or(version);
    let digits = number.trim_end_matches(|c: char| c.is_ascii_lowercase());
    let is_version = digits.bytes().all(|c| c.is_ascii_digit() || c == b'.')
        // `python3.13t` is a build of Python; `es2panda` is another program than `es`.
        && number.len() - digits.len() <= 1;
    if is_version && !version.ends_with("-config") {
        stem.trim_end_matches('-')
    } else {
        name
    }
}

fn is_listed(name: &str) -> bool {
    INTERPRETERS.iter().any(|known| known.names.contains(&name))
}

/// Returns the options of an interpreter, whatever its folder and version.
fn find_interpreter(program: &str) -> Option<&'static InterpreterOptions> {
    let stem = stem(program);
    INTERPRETERS
        .iter()
        .find(|known| known.names.contains(&stem))
}

/// Returns true for a shell or an interpreter of another language, whatever its folder and version.
pub(crate) fn is_interpreter(program: &str) -> bool {
    find_interpreter(program).is_some()
}

/// Returns true for a shell, whatever its folder and version.
pub(crate) fn is_shell(program: &str) -> bool {
    find_interpreter(program).is_some_and(|known| known.is_shell)
}

/// Returns the shell of [`SHELLS`] that a name without a folder refers to: `bash` for `bash5.2`.
pub(crate) fn parsed_shell(name: &str) -> Option<&'static str> {
    let stem = stem(name);
    let mut shells = SHELLS.iter().copied();
    shells.find(|shell| !name.contains('/') && *shell == stem)
}

/// Returns the name under which an interpreter without a folder is listed elsewhere: `python` for `pypy3.10`.
pub(crate) fn common_name(name: &str) -> Option<&str> {
    match stem(name) {
        "nodejs" => Some("node"),
        "luajit" => Some("lua"),
        "pypy" => Some("python"),
        stem => (!name.contains('/') && is_listed(stem)).then_some(stem),
    }
}

/// Returns true if a word names the standard input or another inherited file: `-`, `/dev/stdin`, `/proc/self/fd/0`.
pub(crate) fn is_input_word(word: &str) -> bool {
    word == "-" || is_input_device(word)
}

/// Returns true if a path leads to an inherited file instead of a stored one, in any spelling.
pub(crate) fn is_input_device(word: &str) -> bool {
    let mut parts = Vec::new();
    let mut leaves_folder = false;
    for part in word.split('/') {
        match part {
            "" | "." => {}
            ".." => leaves_folder |= parts.pop().is_none(),
            part => parts.push(part),
        }
    }
    let is_device = matches!(parts.first(), Some(&("dev" | "proc"))) && parts.len() > 1;
    // A relative path may lead up to the root.
    let names_input = || parts.last() == Some(&"stdin") || parts.contains(&"fd");
    is_device && (word.starts_with('/') || leaves_folder && names_input())
}

/// Source of the code that an interpreter runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CodeSource {
    /// These files, and code among the words. Empty if only the words have code, or if no code runs.
    Files(Vec<ShellWord>),
    /// The standard input, perhaps after a file.
    Input,
    /// Not known, because an option is not listed. The code may be in these files or in the standard input.
    Unknown(Vec<ShellWord>),
}

/// Returns the source of the code of a command, if its program is an interpreter.
pub(crate) fn code_source(words: &[ShellWord]) -> Option<CodeSource> {
    let interpreter = find_interpreter(words.first()?.known()?)?;
    let mut reading = OptionReading {
        interpreter,
        words,
        at: 1,
        files: Vec::new(),
        is_interactive: false,
        may_do_nothing: false,
    };
    Some(reading.read())
}

/// Returns true for an interpreter that runs its standard input.
pub(crate) fn runs_input(words: &[ShellWord]) -> bool {
    code_source(words) == Some(CodeSource::Input)
}

/// Modules of Python that run their standard input.
const INPUT_MODULES: &[&str] = &[
    "IPython", "asyncio", "bpython", "code", "idlelib", "pdb", "ptpython",
];

/// State while the options of an interpreter are read.
struct OptionReading<'a> {
    interpreter: &'static InterpreterOptions,
    words: &'a [ShellWord],
    /// Index of the next word.
    at: usize,
    files: Vec<ShellWord>,
    /// True if the interpreter reads its standard input after the other code.
    is_interactive: bool,
    /// True if the interpreter does not read its standard input although the words name no code.
    may_do_nothing: bool,
}

impl OptionReading<'_> {
    fn read(&mut self) -> CodeSource {
        while let Some(word) = self.words.get(self.at) {
            self.at += 1;
            let Some(text) = word.known() else {
                return self.finish_with(word.clone());
            };
            if is_input_word(text) {
                return CodeSource::Input;
            }
            let result = if text == "--" {
                break;
            } else if let Some(long) = text.strip_prefix("--") {
                self.read_long_option(long)
            } else if let Some(letters) = text.strip_prefix('-') {
                self.read_letters(letters)
            } else if self.interpreter.is_shell && text.starts_with('+') {
                None
            } else if self.interpreter.subcommands.contains(&text) {
                return self.unknown();
            } else {
                return self.finish_with(word.clone());
            };
            if let Some(result) = result {
                return result;
            }
        }
        match self.words.get(self.at) {
            Some(word) if !word.known().is_some_and(is_input_word) => {
                self.finish_with(word.clone())
            }
            None if self.may_do_nothing => self.finish(),
            _ => CodeSource::Input,
        }
    }

    /// Returns the result if no further option counts.
    fn finish(&mut self) -> CodeSource {
        if self.is_interactive {
            CodeSource::Input
        } else {
            CodeSource::Files(std::mem::take(&mut self.files))
        }
    }

    fn finish_with(&mut self, file: ShellWord) -> CodeSource {
        self.files.push(file);
        self.finish()
    }

    /// Returns the result after an option that is not listed: each later word may be a file with code.
    fn unknown(&mut self) -> CodeSource {
        let mut files = std::mem::take(&mut self.files);
        files.extend(possible_files(&self.words[self.at.saturating_sub(1)..]));
        CodeSource::Unknown(files)
    }

    /// Takes the value of an option: the attached one, or the next word.
    fn take_value(&mut self, attached: Option<&str>) -> Option<ShellWord> {
        if let Some(value) = attached {
            return Some(ShellWord::Known(value.to_owned()));
        }
        let value = self.words.get(self.at)?;
        // An unknown word may expand to several.
        value.is_single().then(|| {
            self.at += 1;
            value.clone()
        })
    }

    /// Adds a file that an option loads. Names of installed modules are not files.
    fn add_loaded_file(&mut self, value: ShellWord) {
        let is_name = |text: &str| !text.starts_with(['.', '/']);
        if !value.known().is_some_and(is_name) {
            self.files.push(value);
        }
    }

    fn read_long_option(&mut self, long: &str) -> Option<CodeSource> {
        let (name, attached) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (long, None),
        };
        let known = self.interpreter;
        if matches!(name, "help" | "version") {
            return Some(CodeSource::Files(Vec::new()));
        }
        if known.long_code.contains(&name) {
            return Some(match self.take_value(attached) {
                Some(_) => self.finish(),
                None => CodeSource::Input,
            });
        }
        if known.long_values.contains(&name) {
            let value = self.take_value(attached);
            return value.is_none().then(|| self.unknown());
        }
        if known.long_loads.contains(&name) {
            let Some(value) = self.take_value(attached) else {
                return Some(self.unknown());
            };
            self.add_loaded_file(value);
            return None;
        }
        self.is_interactive |= name == "interactive";
        self.may_do_nothing |= known.long_tests.contains(&name);
        let is_flag = name == "interactive"
            || known.long_tests.contains(&name)
            || known.long_flags.iter().any(|flag| {
                let start = flag.strip_suffix('*');
                *flag == name || start.is_some_and(|start| name.starts_with(start))
            });
        match attached {
            _ if is_flag => None,
            // An attached value takes no other word, but may be a file with code.
            Some(value) => {
                let is_number = value.bytes().all(|c| c.is_ascii_digit());
                if !is_number {
                    self.files.push(ShellWord::Known(value.to_owned()));
                }
                None
            }
            None => Some(self.unknown()),
        }
    }

    fn read_letters(&mut self, letters: &str) -> Option<CodeSource> {
        let known = self.interpreter;
        let mut letters = letters.chars();
        while let Some(letter) = letters.next() {
            let rest = letters.as_str();
            // In a shell, other letters may follow: `bash -oe pipefail`.
            let attached = (!rest.is_empty() && !known.is_shell).then_some(rest);
            if known.stops.contains(letter) {
                return Some(CodeSource::Files(Vec::new()));
            }
            self.is_interactive |= known.interactive.contains(letter);
            self.may_do_nothing |= known.prints_version.contains(letter);
            if known.code.contains(letter) {
                return Some(match self.take_value(attached) {
                    Some(_) => self.finish(),
                    None => CodeSource::Input,
                });
            }
            if known.modules.contains(letter) {
                return Some(match self.take_value(attached) {
                    Some(module) => self.read_module(&module),
                    None => self.unknown(),
                });
            }
            if known.script.contains(letter) {
                return Some(match self.take_value(attached) {
                    Some(file) if !file.known().is_some_and(is_input_word) => {
                        self.finish_with(file)
                    }
                    _ => CodeSource::Input,
                });
            }
            let loads = known.loads.contains(letter);
            if loads || known.values.contains(letter) {
                let Some(value) = self.take_value(attached) else {
                    return Some(self.unknown());
                };
                if loads {
                    self.add_loaded_file(value);
                }
                if known.is_shell {
                    continue;
                }
                return None;
            }
            if known.attached.contains(letter) {
                return None;
            }
            if known.numbers.contains(letter) {
                letters = rest.trim_start_matches(|c: char| c.is_digit(8)).chars();
            } else if !known.flags.contains(letter)
                && !known.interactive.contains(letter)
                && !known.prints_version.contains(letter)
            {
                return Some(self.unknown());
            }
        }
        None
    }

    /// Returns the result for `python -m module`. The files that the module may have in the working directory are part
    /// of the code, and so are the operands, since modules such as `cProfile` run them.
    fn read_module(&mut self, module: &ShellWord) -> CodeSource {
        let Some(name) = module.known() else {
            return self.unknown();
        };
        if INPUT_MODULES.contains(&name) || name.starts_with("idlelib.") {
            return CodeSource::Input;
        }
        let path = name.replace('.', "/");
        for file in [
            format!("{path}.py"),
            format!("{path}/__init__.py"),
            format!("{path}/__main__.py"),
        ] {
            self.files.push(ShellWord::Known(file));
        }
        let operands = self.words.get(self.at..).unwrap_or_default();
        if RUNNING_MODULES.contains(&name) {
            self.files.extend(possible_files(operands));
        }
        self.finish()
    }
}

/// Modules of Python that run the file in their arguments.
const RUNNING_MODULES: &[&str] = &[
    "cProfile",
    "coverage",
    "debugpy",
    "kernprof",
    "memory_profiler",
    "profile",
    "runpy",
    "scalene",
    "trace",
    "viztracer",
];

/// Returns the words that may be files, and the values in words such as `--import=./a.mjs`.
fn possible_files(words: &[ShellWord]) -> Vec<ShellWord> {
    let files = words.iter().filter_map(|word| {
        let Some(text) = word.known() else {
            return Some(word.clone());
        };
        if !text.starts_with('-') {
            return Some(word.clone());
        }
        let (_, value) = text.split_once('=')?;
        Some(ShellWord::Known(value.to_owned()))
    });
    files.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<ShellWord> {
        let known = line
            .split(' ')
            .map(|word| ShellWord::Known(word.to_owned()));
        known.collect()
    }

    #[test]
    fn interpreter_names_may_have_a_folder_and_a_version() {
        for name in [
            "python3.11",
            "/usr/bin/python3.13t",
            ".venv/bin/python",
            "python3-dbg",
            "pypy3",
            "perl5.36.0",
            "perl5.36-x86_64-linux-gnu",
            "ruby3.2",
            "ruby-3.2",
            "node22",
            "nodejs",
            "lua5.4",
            "luajit-2.1.0",
            "tclsh8.6",
            "php8.2",
            "guile-3.0",
            "m4",
            "dc",
            "R",
            "python.exe",
        ] {
            assert!(is_interpreter(name) && !is_shell(name), "{name}");
        }
        for name in ["bash5.2", "ksh93", "zsh-5.9", "sh", "fish", "/opt/bash"] {
            assert!(is_shell(name), "{name}");
        }
        for name in [
            "cargo",
            "python3-config",
            "pythonista",
            "perldoc",
            "shellcheck",
            "node-gyp",
            "s3cmd",
            "sha256sum",
            "7z",
            "",
        ] {
            assert!(!is_interpreter(name), "{name}");
        }
        assert_eq!(parsed_shell("bash5.2"), Some("bash"));
        assert_eq!(common_name("pypy3.10"), Some("python"));
    }

    #[test]
    fn interpreter_runs_its_input_without_code_in_its_words() {
        for line in [
            "python3",
            "python3.11 -",
            "/usr/bin/python3.11 -u",
            "python3 -v",
            "python3 -X dev",
            "python3 -W error -",
            "python3 /dev/stdin",
            "python3 /dev/fd/3",
            "python3 /proc/self/fd/0",
            "python3 -i x.py",
            "python3 -ic 1",
            "python3 -m code",
            "python3 --",
            "python3 -- -",
            "perl",
            "perl5.36.0 -w",
            "perl -I lib",
            "ruby -r json",
            "node",
            "node22 --no-warnings -",
            "node -i",
            "node -p",
            "lua5.4 -i x.lua",
            "lua -v -",
            "php -f /dev/stdin",
            "php -a",
            "tclsh",
            "tclsh8.6 -",
            "ts-node",
            "m4 -",
            "dc",
            "csh",
            "bash -o pipefail -s x",
        ] {
            assert!(runs_input(&words(line)), "{line}");
        }
        for line in [
            "python3 x.py",
            "python3 -c 1",
            "python3 -V",
            "python3 -uc 1",
            "python3 --version",
            "perl -e 1",
            "perl -lane 1",
            "perl -v",
            "ruby -v",
            "lua -v",
            "node --test",
            "node -v",
            "node -pe 1",
            "php -r 1",
            "python3 -m http.server",
        ] {
            assert!(!runs_input(&words(line)), "{line}");
        }
    }

    #[test]
    fn interpreter_options_are_not_taken_for_its_file() {
        for (line, expected) in [
            ("python3 -X -c x.py", "x.py"),
            ("python3 -X utf8 x.py a", "x.py"),
            ("python3 -Werror x.py", "x.py"),
            ("python3 -Bu x.py", "x.py"),
            ("perl -I -e x.pl", "x.pl"),
            ("perl -Ilib -w x.pl", "x.pl"),
            ("perl -l x.pl", "x.pl"),
            ("perl -0777 x.pl", "x.pl"),
            ("perl -i.bak x.pl", "x.pl"),
            ("ruby -I lib x.rb", "x.rb"),
            ("ruby -r ./a x.rb", "./a x.rb"),
            ("node --max-old-space-size=9 x.js", "x.js"),
            ("node --odd=a.json x.js", "a.json x.js"),
            ("node -r ./a.js x.js", "./a.js x.js"),
            ("bash -oe pipefail x.sh", "x.sh"),
            ("node --import=./a.mjs x.js", "./a.mjs x.js"),
            ("node -r dotenv/config x.js", "x.js"),
            ("node -C -e x.js", "x.js"),
            ("php -d a=b x.php", "x.php"),
            ("php -f x.php", "x.php"),
            ("lua -l m x.lua", "x.lua"),
            ("bash -o pipefail x.sh", "x.sh"),
            ("bash -eu +x x.sh", "x.sh"),
            ("python3 -- -x.py", "-x.py"),
            ("python3 -c x.py", ""),
            ("perl -ne x.pl", ""),
            ("python3 -m a.b", "a/b.py a/b/__init__.py a/b/__main__.py"),
        ] {
            let files = expected.split(' ').filter(|file| !file.is_empty());
            let files = files.map(|file| ShellWord::Known(file.to_owned()));
            let expected = CodeSource::Files(files.collect());
            assert_eq!(code_source(&words(line)), Some(expected), "{line}");
        }
        for (line, possible) in [
            ("python3 --odd a x.py", "a x.py"),
            ("perl -Sx x.pl", "x.pl"),
            ("node inspect x.js", "inspect x.js"),
            ("php -S localhost:80 a.php", "localhost:80 a.php"),
            ("julia --odd x.jl", "x.jl"),
        ] {
            let files = possible.split(' ');
            let files = files.map(|file| ShellWord::Known(file.to_owned()));
            let expected = CodeSource::Unknown(files.collect());
            assert_eq!(code_source(&words(line)), Some(expected), "{line}");
        }
    }
}
