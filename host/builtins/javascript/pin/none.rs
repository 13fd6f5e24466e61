//! Empty: cargo needs a file, but this package is never compiled. See the manifest.
