//! Gives the engine of bash a stack that holds functions which call each other hundreds deep.

/// Bytes. Addresses only: a script takes memory for what it uses.
const STACK: usize = 32 << 20;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("wasi") {
        println!("cargo::rustc-link-arg-cdylib=-z");
        println!("cargo::rustc-link-arg-cdylib=stack-size={STACK}");
    }
}
