//! A generated source tree for searches, the same on every machine: code-like text, logs, binaries, ignored files.

use std::fs;
use std::path::Path;

/// The searched text. No file contains it by chance.
pub const NEEDLE: &str = "remaining_fuel_budget";

/// One source file in this many contains it: as many matches as a result holds without being cut.
const NEEDLE_EVERY: usize = 80;

/// Source files, and the folders that contain them.
const FILES: usize = 12_000;
const FOLDERS: usize = 600;

/// Log files and binaries, of some megabytes each.
const LARGE: usize = 6;

/// Words of a file: as in code, with a few that resemble the searched text.
const WORDS: [&str; 48] = [
    "fn",
    "let",
    "mut",
    "self",
    "return",
    "if",
    "else",
    "match",
    "for",
    "in",
    "while",
    "impl",
    "struct",
    "enum",
    "pub",
    "use",
    "result",
    "error",
    "value",
    "index",
    "buffer",
    "length",
    "config",
    "context",
    "request",
    "response",
    "handler",
    "session",
    "remaining",
    "fuel",
    "budget",
    "remaining_time",
    "fuel_used",
    "(",
    ")",
    "{",
    "}",
    "=>",
    "->",
    "==",
    "&&",
    ";",
    "0",
    "1",
    "\"text\"",
    "// see below",
    "Option<String>",
    "Vec<u8>",
];

/// A small random number generator (xorshift), so that the tree depends on nothing else.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, most: usize) -> usize {
        (self.next() >> 16) as usize % most
    }
}

/// A generated tree.
pub struct Tree {
    /// Bytes that a search has to read.
    pub bytes: u64,
    /// Matching lines in files that are not ignored.
    pub matches: usize,
}

/// Fills a folder with about 200 MB in about 12,000 files.
pub fn fill(root: &Path) -> Tree {
    let mut random = Random(0x6d69_6d69_7200_0001);
    let mut tree = Tree {
        bytes: 0,
        matches: 0,
    };
    let write = |path: &str, content: &[u8]| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        content.len() as u64
    };
    // A repository, so that every program honours the .gitignore.
    write(".git/HEAD", b"ref: refs/heads/main\n");
    write(".gitignore", b"/build/\n*.min.js\n");
    for number in 0..FILES {
        // Mostly small, as sources are: 2 to 20 KB, every eighth up to 60 KB.
        let most = if number % 8 == 0 { 58 << 10 } else { 18 << 10 };
        let size = (2 << 10) + random.below(most);
        let needle = number % NEEDLE_EVERY == NEEDLE_EVERY / 2;
        let folder = number % FOLDERS;
        let path = format!("src/part_{}/area_{folder}/module_{number}.rs", folder % 24);
        tree.bytes += write(&path, &source(&mut random, size, needle));
        tree.matches += usize::from(needle);
    }
    for number in 0..LARGE {
        tree.bytes += write(
            &format!("logs/run_{number}.log"),
            &source(&mut random, 5 << 20, false),
        );
        let mut binary = vec![0; 2 << 20];
        binary
            .iter_mut()
            .for_each(|byte| *byte = random.next() as u8);
        write(&format!("assets/image_{number}.bin"), &binary);
        // Ignored files, full of the searched text.
        write(
            &format!("build/out_{number}.rs"),
            NEEDLE.repeat(50_000).as_bytes(),
        );
        write(
            &format!("web/app_{number}.min.js"),
            NEEDLE.repeat(50_000).as_bytes(),
        );
    }
    tree
}

/// Text in lines of up to a dozen words.
fn source(random: &mut Random, size: usize, needle: bool) -> Vec<u8> {
    let mut text = Vec::with_capacity(size + 200);
    let mut needle = needle.then_some(size / 2);
    while text.len() < size {
        for _ in 0..random.below(4) {
            text.extend_from_slice(b"    ");
        }
        for _ in 0..1 + random.below(12) {
            text.extend_from_slice(WORDS[random.below(WORDS.len())].as_bytes());
            text.push(b' ');
        }
        if needle.is_some_and(|at| text.len() > at) {
            text.extend_from_slice(NEEDLE.as_bytes());
            needle = None;
        }
        text.push(b'\n');
    }
    text
}
