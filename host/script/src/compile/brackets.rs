//! Measurement of the nesting depth of brackets before the code is parsed: the parser tries each `(` as the parameters
//! of a function first and then parses its content again, so that the cost is quadratic in the depth.
//!
//! Only a parser can tell whether `/` divides or begins a regular expression. Where both are possible, both readings
//! are followed, and readings that turn out to be invalid code are dropped. The correct reading is among the rest, so
//! their greatest depth is an upper bound.
//!
//! Out of scope: unbalanced brackets, which the parser reports.

/// Maximum number of readings that are followed at a time. In ordinary code, a wrong reading fails by the end of its
/// line.
const MAX_READINGS: usize = 64;

/// The state of one reading of the code up to a position.
#[derive(Debug, Clone, PartialEq, Eq)]
struct BracketScan {
    /// The position in bytes.
    at: usize,
    /// Open braces, each true if it belongs to a template literal.
    braces: Vec<bool>,
    /// Number of other open brackets.
    others: usize,
    in_template: bool,
    preceding: PrecedingToken,
}

/// The kind of the preceding token, which decides the meaning of `/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PrecedingToken {
    /// A value, after which `/` divides.
    Value,
    /// An operator, after which `/` begins a regular expression.
    Operator,
    /// A token after which both are possible.
    Either,
}

/// Keywords after which a value follows.
const OPERATOR_KEYWORDS: [&[u8]; 16] = [
    b"return",
    b"typeof",
    b"case",
    b"do",
    b"else",
    b"in",
    b"of",
    b"instanceof",
    b"new",
    b"void",
    b"delete",
    b"throw",
    b"yield",
    b"await",
    b"as",
    b"satisfies",
];

/// A reason to reject code before it is parsed, with an offset in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BracketFault {
    /// The first position at which brackets are nested too deep.
    TooDeep(usize),
    /// A position up to which so many `/` are ambiguous that the depth cannot be measured.
    TooAmbiguous(usize),
}

/// Checks that brackets are nested at most `max_depth` levels deep.
pub(super) fn check_depth(source: &str, max_depth: usize) -> Result<(), BracketFault> {
    let source = source.as_bytes();
    let mut readings = vec![BracketScan {
        at: 0,
        braces: Vec::new(),
        others: 0,
        in_template: false,
        preceding: PrecedingToken::Operator,
    }];
    // The reading that is furthest behind advances, so that readings that reach an equal state are merged.
    while let Some(furthest_behind) =
        (0..readings.len()).min_by_key(|candidate| readings[*candidate].at)
    {
        let mut reading = readings.swap_remove(furthest_behind);
        let mut other = None;
        let is_alive = reading.read_token(source, &mut other);
        for reading in is_alive.then_some(reading).into_iter().chain(other) {
            if reading.braces.len() + reading.others > max_depth {
                return Err(BracketFault::TooDeep(reading.at.min(source.len())));
            }
            let equal = readings.iter_mut().find(|candidate| {
                candidate.at == reading.at
                    && candidate.in_template == reading.in_template
                    && candidate.preceding == reading.preceding
                    && candidate.braces == reading.braces
            });
            match equal {
                Some(equal) => equal.others = equal.others.max(reading.others),
                None => readings.push(reading),
            }
        }
        if readings.len() > MAX_READINGS {
            let at = readings[0].at.min(source.len());
            return Err(BracketFault::TooAmbiguous(at));
        }
    }
    Ok(())
}

impl BracketScan {
    /// Reads the next token. If `/` is ambiguous, sets `other` to the second reading. Returns false at the end, or if
    /// this reading is not valid code.
    fn read_token(&mut self, source: &[u8], other: &mut Option<Self>) -> bool {
        let Some(&byte) = source.get(self.at) else {
            return false;
        };
        if self.in_template {
            return self.read_template(source, byte);
        }
        let next = source.get(self.at + 1).copied();
        match byte {
            b'/' if next == Some(b'/') => {
                self.at = find(source, self.at, |rest| matches!(rest[0], b'\n' | b'\r'));
                return true;
            }
            b'/' if next == Some(b'*') => {
                let end = find(source, self.at + 2, |rest| rest.starts_with(b"*/"));
                self.at = end + 2;
                return true;
            }
            b'/' => return self.read_slash(source, other),
            b'"' | b'\'' => return self.read_string(source, byte),
            b'`' => {
                self.in_template = true;
                self.at += 1;
                return true;
            }
            b'(' | b'[' => self.others += 1,
            b'{' => self.braces.push(false),
            b')' | b']' => self.others = self.others.saturating_sub(1),
            b'}' => self.in_template = self.braces.pop().unwrap_or_default(),
            _ => {}
        }
        if is_word(byte) {
            let end = find(source, self.at, |rest| !is_word(rest[0]));
            self.preceding = if OPERATOR_KEYWORDS.contains(&&source[self.at..end]) {
                PrecedingToken::Either
            } else {
                PrecedingToken::Value
            };
            self.at = end;
            return true;
        }
        self.preceding = match byte {
            b' ' | b'\t' | b'\n' | b'\r' => self.preceding,
            b']' => PrecedingToken::Value,
            // `a++ / b`, `a! / b`, `a as B<C> / d`, `if (a) /b/`, `{} /a/`.
            b')' | b'}' | b'+' | b'-' | b'!' | b'>' => PrecedingToken::Either,
            _ => PrecedingToken::Operator,
        };
        self.at += 1;
        true
    }

    fn read_template(&mut self, source: &[u8], byte: u8) -> bool {
        match byte {
            b'\\' => self.at += 2,
            b'`' => {
                self.in_template = false;
                self.preceding = PrecedingToken::Value;
                self.at += 1;
            }
            b'$' if source.get(self.at + 1) == Some(&b'{') => {
                self.braces.push(true);
                self.in_template = false;
                self.preceding = PrecedingToken::Operator;
                self.at += 2;
            }
            _ => self.at += 1,
        }
        true
    }

    fn read_slash(&mut self, source: &[u8], other: &mut Option<Self>) -> bool {
        let mut as_division = self.clone();
        as_division.at += 1;
        as_division.preceding = PrecedingToken::Operator;
        match self.preceding {
            PrecedingToken::Value => {
                *self = as_division;
                return true;
            }
            PrecedingToken::Either => *other = Some(as_division),
            PrecedingToken::Operator => {}
        }
        let mut in_class = false;
        self.at += 1;
        loop {
            match source.get(self.at) {
                None | Some(b'\n' | b'\r') => return false,
                Some(b'\\') => self.at += 1,
                Some(b'[') => in_class = true,
                Some(b']') => in_class = false,
                Some(b'/') if !in_class => break,
                Some(_) => {}
            }
            self.at += 1;
        }
        self.at += 1;
        self.preceding = PrecedingToken::Value;
        true
    }

    fn read_string(&mut self, source: &[u8], quote: u8) -> bool {
        self.at += 1;
        loop {
            match source.get(self.at) {
                None | Some(b'\n' | b'\r') => return false,
                // A line continuation with CRLF has two bytes after the backslash.
                Some(b'\\') if source[self.at..].starts_with(b"\\\r\n") => self.at += 2,
                Some(b'\\') => self.at += 1,
                Some(byte) if *byte == quote => break,
                Some(_) => {}
            }
            self.at += 1;
        }
        self.at += 1;
        self.preceding = PrecedingToken::Value;
        true
    }
}

/// Returns the first position from `at` on for which the predicate is true, or the end.
fn find(source: &[u8], at: usize, is: impl Fn(&[u8]) -> bool) -> usize {
    let offsets = at..source.len();
    let mut offsets = offsets.filter(|offset| is(&source[*offset..]));
    offsets.next().unwrap_or(source.len())
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || byte >= 0x80
}

#[cfg(test)]
mod tests {
    use super::*;

    fn depth(source: &str) -> usize {
        let mut depths = (0..200).filter(|max_depth| check_depth(source, *max_depth).is_ok());
        depths.next().unwrap()
    }

    #[test]
    fn too_deep_ignores_brackets_in_text() {
        for (source, expected) in [
            ("f(a[{}])", 3),
            ("'((' + \"[[\" + `((${ f(1) }((` // ((\n/* (( */", 2),
            ("a = /[(/]\\/((/.test(b)", 1),
            ("(a) / (b) / (c)", 1),
            ("a++ / (b) / 2; if (x) /((((/.test(y);", 4),
            ("`${`${`${1}`}`}`; ((1))", 3),
            ("'a\\\n((b' + \"\\\"((\"", 0),
            ("a.map((b) => ({ c: b })); d();", 3),
        ] {
            assert_eq!(depth(source), expected, "{source}");
        }
    }

    #[test]
    fn too_deep_misses_no_bracket() {
        let max_depth = 20;
        for open in [
            "({a=/*})*/",
            "({a=//})\n",
            "({a='})'+",
            "({a=`})`+",
            "({a=/})/+",
            "({a=(b)/c/+",
            "({a=[]/')/'+",
            "if(x)/[`]/.a;({a=",
            "({a=\"\\\"})\"+",
            "`${(",
            "({a=b++/`})`/",
            "(a)/'/;({a=/'/.b+",
        ] {
            let source = open.repeat(max_depth + 1);
            assert!(check_depth(&source, max_depth).is_err(), "{open}");
        }
        assert!(check_depth(&"a(b);\n{ c / d } /e/.f;\n".repeat(2_000), max_depth).is_ok());
    }
}
