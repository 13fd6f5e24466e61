//! Sets the stack size of the bash engine, so that shell functions can be nested hundreds deep.

/// Stack size in bytes. This only reserves addresses: a script takes memory for the part that it uses.
const STACK: usize = 32 << 20;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("wasi") {
        println!("cargo::rustc-link-arg-cdylib=-z");
        println!("cargo::rustc-link-arg-cdylib=stack-size={STACK}");
    }
}
