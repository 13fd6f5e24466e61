//! A third-party plugin: a bundled tool under another name.

/// The search tool as `prob_search`.
pub fn search() -> Vec<u8> {
    let shipped = mimir_builtins::ALL.iter().find(|own| own.name == "search");
    let mut bytes = shipped.unwrap().component.unpack().unwrap();
    swap(&mut bytes, b"FileSearch", b"ProbSearch");
    bytes
}

/// Replaces every `old` with `new`; panics if there is none.
pub fn swap(bytes: &mut [u8], old: &[u8], new: &[u8]) {
    let places: Vec<usize> = (0..bytes.len() - old.len())
        .filter(|&at| bytes[at..].starts_with(old))
        .collect();
    assert!(!places.is_empty());
    for at in places {
        bytes[at..at + new.len()].copy_from_slice(new);
    }
}
