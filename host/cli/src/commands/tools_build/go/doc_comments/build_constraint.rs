//! Files of a Go package that belong to a build for `wasip1` and `wasm`. Types of other files may have the same names.

use super::go_scanner::{GoScanner, GoTokenKind};

/// Maximum length of a constraint in bytes. A longer one is left to the compiler.
const MAX_CONSTRAINT: usize = 1 << 10;

const OPERATING_SYSTEMS: &[&str] = &[
    "aix",
    "android",
    "darwin",
    "dragonfly",
    "freebsd",
    "hurd",
    "illumos",
    "ios",
    "js",
    "linux",
    "nacl",
    "netbsd",
    "openbsd",
    "plan9",
    "solaris",
    "wasip1",
    "windows",
    "zos",
];

const ARCHITECTURES: &[&str] = &[
    "386", "amd64", "arm", "arm64", "loong64", "mips", "mips64", "mips64le", "mipsle", "ppc64",
    "ppc64le", "riscv64", "s390x", "sparc64", "wasm",
];

/// Returns true if Go compiles the file for a plugin.
pub(super) fn is_built(file_name: &str, source: &str) -> bool {
    is_built_name(file_name) && constraint(source).is_none_or(evaluate)
}

/// Returns false for tests, files that Go ignores, and names that end in another system, such as `time_linux.go`.
fn is_built_name(file_name: &str) -> bool {
    let Some(stem) = file_name.strip_suffix(".go") else {
        return false;
    };
    if stem.starts_with(['_', '.']) || stem.ends_with("_test") {
        return false;
    }
    let mut words = stem.rsplit('_');
    let last = words.next().unwrap_or_default();
    let Some(before) = words.next() else {
        return true;
    };
    if ARCHITECTURES.contains(&last) {
        let has_system = words.next().is_some() && OPERATING_SYSTEMS.contains(&before);
        return last == "wasm" && (!has_system || before == "wasip1");
    }
    !OPERATING_SYSTEMS.contains(&last) || last == "wasip1"
}

/// Returns the expression of the `//go:build` line above the package clause.
fn constraint(source: &str) -> Option<&str> {
    let mut scanner = GoScanner::new(source);
    while let GoTokenKind::Comment(text) = scanner.next_token().kind {
        if let Some(expression) = text.strip_prefix("//go:build ") {
            return Some(expression);
        }
    }
    None
}

/// Evaluates a constraint. One that is not valid is true, so that the compiler reports it.
fn evaluate(expression: &str) -> bool {
    if expression.len() > MAX_CONSTRAINT {
        return true;
    }
    let mut parser = ConstraintParser { rest: expression };
    let value = parser.any();
    value
        .filter(|_| parser.rest.trim().is_empty())
        .unwrap_or(true)
}

struct ConstraintParser<'a> {
    rest: &'a str,
}

impl ConstraintParser<'_> {
    fn skip(&mut self, sign: &str) -> bool {
        let rest = self.rest.trim_start().strip_prefix(sign);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn any(&mut self) -> Option<bool> {
        let mut value = self.all()?;
        while self.skip("||") {
            value |= self.all()?;
        }
        Some(value)
    }

    fn all(&mut self) -> Option<bool> {
        let mut value = self.one()?;
        while self.skip("&&") {
            value &= self.one()?;
        }
        Some(value)
    }

    fn one(&mut self) -> Option<bool> {
        if self.skip("!") {
            return self.one().map(|value| !value);
        }
        if self.skip("(") {
            let value = self.any()?;
            return self.skip(")").then_some(value);
        }
        let text = self.rest.trim_start();
        let is_tag = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
        let (tag, rest) = text.split_at(text.find(|c| !is_tag(c)).unwrap_or(text.len()));
        self.rest = rest;
        (!tag.is_empty()).then(|| {
            // Of the Go version, only the compiler knows more.
            matches!(tag, "wasip1" | "wasm" | "gc") || tag.starts_with("go1.")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_constraint_selects_files_by_name() {
        for (name, is_part) in [
            ("main.go", true),
            ("main_test.go", false),
            ("_old.go", false),
            ("host_linux.go", false),
            ("host_wasip1.go", true),
            ("host_wasm.go", true),
            ("host_wasip1_wasm.go", true),
            ("host_js_wasm.go", false),
            ("host_arm64.go", false),
            // The first word is never a system.
            ("linux.go", true),
            ("js_wasm.go", true),
            ("word_count.go", true),
            ("notes.md", false),
        ] {
            assert_eq!(is_built(name, "package main"), is_part, "{name}");
        }
    }

    #[test]
    fn build_constraint_selects_files_by_expression() {
        for (expression, is_part) in [
            ("ignore", false),
            ("!ignore", true),
            ("wasip1 && wasm", true),
            ("!(wasip1||js)", false),
            ("linux || (gc && !cgo)", true),
            ("go1.25", true),
            // Not valid: the compiler reports it.
            ("wasip1 &&", true),
            ("(linux", true),
            ("linux )", true),
        ] {
            let source = format!("// A licence.\n\n//go:build {expression}\r\n\npackage main\n");
            assert_eq!(is_built("a.go", &source), is_part, "{expression}");
        }
        assert!(is_built(
            "a.go",
            &format!("//go:build {}", "(".repeat(100_000))
        ));
    }

    #[test]
    fn build_constraint_is_read_only_above_the_package() {
        assert!(is_built("a.go", "package main\n\n//go:build ignore\n"));
        assert!(is_built(
            "a.go",
            "/*\n//go:build ignore\n*/\npackage main\n"
        ));
    }
}
