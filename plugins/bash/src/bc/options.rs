//! Options of the command `bc`.

use super::BcSource;

/// Text of `--help`.
const HELP: &str = "\
usage: bc [options] [file ...]
  -h  --help         print this usage and exit
  -i  --interactive  accepted, without effect
  -l  --mathlib      define the functions s, c, a, l, e, j and set scale to 20
  -q  --quiet        accepted, without effect
  -s  --standard     accepted, without effect
  -w  --warn         accepted, without effect
  -v  --version      print version information and exit
  -e  --expression   execute an expression in place of stdin
";

/// Text of `--version`.
const VERSION: &str = "bc (mimir), compatible with GNU bc 1.07.1\n";

/// Name of expressions in messages.
const EXPRESSION: &str = "expression";

/// Options and operands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BcOptions {
    /// True if the functions of the math library are defined.
    pub math_library: bool,
    /// Expressions given as arguments.
    pub sources: Vec<BcSource>,
    /// Paths of the files to execute.
    pub files: Vec<String>,
    /// True if stdin is not executed, because expressions were given.
    pub ignores_stdin: bool,
    /// Text to print instead of executing anything.
    pub information: Option<&'static str>,
}

impl BcOptions {
    /// Parses arguments. Short options may be joined, as in `-ql`.
    ///
    /// # Errors
    ///
    /// The message for stderr, if an option is unknown or its value is missing.
    pub fn parse_args(args: &[String]) -> Result<Self, String> {
        let mut options = Self::default();
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            if arg == "--" {
                options.files.extend(rest.cloned());
                break;
            }
            if let Some(long) = arg.strip_prefix("--") {
                match long.split_once('=') {
                    Some(("expression", text)) => options.add_expression(Some(text.to_owned()))?,
                    None if long == "expression" => {
                        options.add_expression(rest.next().cloned())?;
                    }
                    _ => options.set_long(long)?,
                }
            } else if let Some(letters) = arg.strip_prefix('-').filter(|rest| !rest.is_empty()) {
                for (at, letter) in letters.char_indices() {
                    if letter != 'e' {
                        options.set_letter(letter)?;
                        continue;
                    }
                    let joined = &letters[at + 1..];
                    let text = if joined.is_empty() {
                        rest.next().cloned()
                    } else {
                        Some(joined.to_owned())
                    };
                    options.add_expression(text)?;
                    break;
                }
            } else if arg != "-" {
                options.files.push(arg.clone());
            }
        }
        Ok(options)
    }

    fn add_expression(&mut self, text: Option<String>) -> Result<(), String> {
        let text = text.ok_or("bc: the option -e needs an expression\n")?;
        self.sources.push(BcSource {
            name: EXPRESSION.to_owned(),
            text,
        });
        self.ignores_stdin = true;
        Ok(())
    }

    fn set_long(&mut self, name: &str) -> Result<(), String> {
        let letter = match name {
            "help" => 'h',
            "interactive" => 'i',
            "mathlib" => 'l',
            "quiet" => 'q',
            "standard" => 's',
            "version" => 'v',
            "warn" => 'w',
            _ => return Err(format!("bc: unknown option --{name}\n{HELP}")),
        };
        self.set_letter(letter)
    }

    fn set_letter(&mut self, letter: char) -> Result<(), String> {
        match letter {
            'l' => self.math_library = true,
            'h' => self.information = Some(HELP),
            'v' => self.information = Some(VERSION),
            'i' | 'q' | 's' | 'w' => {}
            _ => return Err(format!("bc: unknown option -{letter}\n{HELP}")),
        }
        Ok(())
    }
}
