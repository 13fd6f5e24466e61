//! Source positions of a plugin's code, for stack traces.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};

/// Maximum number of positions in a plugin. Positions in packages are dropped first.
const MAX_POSITIONS: usize = 40_000;

/// Folder of packages, in which only lines are recorded.
const PACKAGES: &str = "node_modules";

/// Maps positions in the evaluated code to positions in the source files.
#[derive(Debug, Default)]
pub(super) struct SourcePositions {
    /// Names of the files in stack traces.
    files: Vec<String>,
    /// Line and column in the code, the number of the file (from 1, 0 for none), line and column in it; all count from
    /// 1, sorted by the first two.
    positions: Vec<[u32; 5]>,
}

/// The parts of a source map that are used.
#[derive(Debug, Deserialize)]
struct SourceMap {
    sources: Vec<String>,
    mappings: String,
}

impl SourcePositions {
    /// Creates the positions of a single file, which mimir has compiled.
    pub(super) fn from_module(path: &str, map: &[[u32; 4]]) -> Self {
        let file = path.rsplit('/').next().unwrap_or(path);
        let positions = map.iter().take(MAX_POSITIONS);
        Self {
            files: vec![file.to_owned()],
            positions: positions
                .map(|[row, at, line, column]| [*row, *at, 1, *line, *column])
                .collect(),
        }
    }

    /// Creates the positions of a bundle in the folder `work` from its source map. The bundle begins `before` lines
    /// after the beginning of the code. File names are relative to `home`, the folder of the module.
    pub(super) fn from_bundle(map: &str, before: u32, work: &Path, home: &Path) -> Option<Self> {
        let map: SourceMap = serde_json::from_str(map).ok()?;
        let mut files: Vec<String> = Vec::new();
        let mut numbers: HashMap<String, u32> = HashMap::new();
        // The file number of each source, and true if it belongs to a package; `None` for generated sources.
        let sources: Vec<Option<(u32, bool)>> = map
            .sources
            .iter()
            .map(|source| {
                let (name, is_package) = display_name(&join_path(work, source), work, home)?;
                let number = *numbers.entry(name.clone()).or_insert_with(|| {
                    files.push(name);
                    files.len() as u32
                });
                Some((number, is_package))
            })
            .collect();
        let mut positions: Vec<([u32; 5], bool)> = Vec::new();
        for (row, column, source) in parse_mappings(&map.mappings)? {
            let row = row + before + 1;
            let original = source.and_then(|(source, line, at)| {
                let (file, is_package) = (*sources.get(source as usize)?)?;
                Some(([row, column + 1, file, line + 1, at + 1], is_package))
            });
            let (position, is_package) = original.unwrap_or(([row, column + 1, 0, 0, 0], true));
            let last = positions.last().filter(|(last, _)| last[0] == row);
            let is_new = match last {
                Some((last, _)) => last[2] != position[2],
                None => position[2] != 0,
            };
            if !is_package || is_new {
                positions.push((position, is_package));
            }
        }
        if positions.len() > MAX_POSITIONS {
            // The first segment of a package in a line ends the one before it.
            let mut last = 0;
            positions.retain(|(position, is_package)| {
                let keep = !is_package || last == position[0];
                last = if *is_package { 0 } else { position[0] };
                keep
            });
        }
        let positions = positions
            .into_iter()
            .take(MAX_POSITIONS)
            .map(|(position, _)| position);
        Some(Self {
            files,
            positions: positions.collect(),
        })
    }

    /// Returns the source position of a line and a column in the code.
    pub(super) fn source_position(&self, row: u32, column: u32) -> Option<String> {
        let after = self
            .positions
            .partition_point(|[line, at, ..]| (*line, *at) <= (row, column));
        let [line, _, file, source, at] = *self.positions.get(after.checked_sub(1)?)?;
        let file = self.files.get((file as usize).checked_sub(1)?)?;
        (line == row).then(|| format!("{file}:{source}:{at}"))
    }

    /// Returns the files and the positions as JSON, for the embedded description.
    pub(super) fn to_json(&self) -> (Value, Value) {
        let numbers: Vec<u32> = self.positions.iter().flatten().copied().collect();
        (json!(self.files), json!(numbers))
    }
}

/// Returns the files of a bundle in the folder `work` from its source map, without those that were generated for the
/// bundler. Empty if the map is not valid.
pub(super) fn bundled_files(map: &str, work: &Path) -> Vec<PathBuf> {
    let map = serde_json::from_str(map);
    let sources = map.map_or_else(|_| Vec::new(), |map: SourceMap| map.sources);
    let files = sources.iter().map(|source| join_path(work, source));
    files.filter(|file| !file.starts_with(work)).collect()
}

/// Returns the display name of a file, and true if it belongs to a package; `None` for files generated for the bundler.
fn display_name(path: &Path, work: &Path, home: &Path) -> Option<(String, bool)> {
    if path.starts_with(work) {
        return None;
    }
    let text = |path: &Path| path.to_string_lossy().replace('\\', "/");
    let parts: Vec<Component<'_>> = path.components().collect();
    let package = parts.iter().rposition(|part| part.as_os_str() == PACKAGES);
    if let Some(at) = package {
        let path: PathBuf = parts[at..].iter().collect();
        return Some((text(&path), true));
    }
    Some((text(path.strip_prefix(home).unwrap_or(path)), false))
}

/// Joins a relative path to a folder, and resolves `..`.
fn join_path(folder: &Path, path: &str) -> PathBuf {
    let mut joined = folder.to_owned();
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir => {
                joined.pop();
            }
            Component::CurDir => {}
            other => joined.push(other),
        }
    }
    joined
}

/// A position in the code, and the source with the position in it. All count from 0.
type MappingSegment = (u32, u32, Option<(u32, u32, u32)>);

/// Parses the mappings of a source map.
fn parse_mappings(mappings: &str) -> Option<Vec<MappingSegment>> {
    let mut parsed = Vec::new();
    let (mut source, mut line, mut at) = (0_i64, 0_i64, 0_i64);
    for (row, line_segments) in mappings.split(';').enumerate() {
        let mut column = 0_i64;
        for segment in line_segments
            .split(',')
            .filter(|segment| !segment.is_empty())
        {
            let numbers = decode_vlq(segment)?;
            column += numbers.first()?;
            let from = match numbers[..] {
                [_, by_source, by_line, by_column, ..] => {
                    (source, line, at) = (source + by_source, line + by_line, at + by_column);
                    let number = |value: i64| u32::try_from(value).ok();
                    Some((number(source)?, number(line)?, number(at)?))
                }
                _ => None,
            };
            parsed.push((u32::try_from(row).ok()?, u32::try_from(column).ok()?, from));
        }
    }
    Some(parsed)
}

/// Decodes the numbers of a segment: base 64 VLQ, the lowest five bits first, the sign in the lowest bit.
fn decode_vlq(segment: &str) -> Option<Vec<i64>> {
    const DIGITS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut numbers = Vec::new();
    let (mut value, mut shift) = (0_i64, 0_u32);
    for digit in segment.chars() {
        let digit = DIGITS.find(digit)? as i64;
        value |= (digit & 31).checked_shl(shift)?;
        shift += 5;
        if digit & 32 == 0 {
            let half = value >> 1;
            numbers.push(if value & 1 == 1 { -half } else { half });
            (value, shift) = (0, 0);
        }
        if shift > 40 {
            return None;
        }
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_lead_from_a_bundle_to_its_files() {
        // In the form that esbuild writes: lines 2 and 3 come from a file of the user's, line 4 from a package.
        let map = r#"{"version": 3, "sources": ["entry.mjs", "../home/lib/a.ts", "../home/node_modules/p/b.js"],
            "mappings": "AAAA;ACEA,SAAS;AACT,KAAK;ACHL"}"#;
        let (work, home) = (Path::new("/tmp/work"), Path::new("/tmp/home"));
        let positions = SourcePositions::from_bundle(map, 2, work, home).unwrap();
        assert_eq!(positions.source_position(3, 1), None);
        assert_eq!(
            positions.source_position(4, 1).as_deref(),
            Some("lib/a.ts:3:1")
        );
        assert_eq!(
            positions.source_position(4, 12).as_deref(),
            Some("lib/a.ts:3:10")
        );
        assert_eq!(
            positions.source_position(5, 6).as_deref(),
            Some("lib/a.ts:4:6")
        );
        assert_eq!(
            positions.source_position(6, 9).as_deref(),
            Some("node_modules/p/b.js:1:1")
        );
        assert_eq!(positions.source_position(7, 1), None);
        let files = ["/tmp/home/lib/a.ts", "/tmp/home/node_modules/p/b.js"].map(PathBuf::from);
        assert_eq!(bundled_files(map, work), files);
        assert!(bundled_files("{}", work).is_empty());
    }
}
