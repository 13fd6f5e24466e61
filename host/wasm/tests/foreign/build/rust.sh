# Rust: examples of crates, and programs. Read by `build.sh`.

CARGO_TARGET_DIR=$work/target
export CARGO_TARGET_DIR
# Flags for the crates of this repository.
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS CARGO_BUILD_TARGET

# Prints the folder of a crate that a manifest depends on, downloaded by cargo.
crate_folder() { # manifest, crate, beginning of the version
    cargo metadata --quiet --format-version 1 --locked --manifest-path "$1" |
        python3 -c 'import json, os, sys
for package in json.load(sys.stdin)["packages"]:
    if package["name"] == sys.argv[1] and package["version"].startswith(sys.argv[2]):
        print(os.path.dirname(package["manifest_path"]))' "$2" "$3"
}

copy_examples() { # crate, beginning of the version, examples
    crate=$1 folder=$(crate_folder crates/Cargo.toml "$1" "$2")
    shift 2
    for example; do
        cp "$folder/examples/$example.rs" "crates/examples/$(echo "${crate}_$example" | tr - _).rs"
    done
}

# The examples of wasip2, wasip3 and wstd (Bytecode Alliance), and those in the documentation of the SDKs of Spin and
# wasmCloud and of waki.
examples=$(sed -n '/^\[\[example\]\]/ { n; s/name = "\(.*\)"/\1/p; }' "$here/sources/crates/Cargo.toml")
if is_missing $examples; then
    rm -rf crates
    cp -r "$here/sources/crates" crates
    mkdir crates/examples
    # cargo reads the manifest only if the files in it exist.
    touch crates/lib.rs
    for example in $examples; do
        touch "crates/examples/$example.rs"
    done
    copy_examples wasip2 1. hello-world cli-command http-proxy
    copy_examples wasip3 0.10. cli-command http-proxy http-proxy-compat
    copy_examples wstd 0.6. http_server
    copy_examples wstd-axum 0.6. hello_world
    code_block "$(crate_folder crates/Cargo.toml spin-sdk 7.)/README.md" rust 1 >crates/examples/spin_hello.rs
    code_block "$(crate_folder crates/Cargo.toml waki 0.5.)/README.md" rust 2 >crates/examples/waki_hello.rs
    code_block "$(crate_folder crates/Cargo.toml wasmcloud-component 0.2.)/src/wrappers/http.rs" rust 1 \
        >crates/examples/wasmcloud_hello.rs
    (cd crates && cargo build --quiet --locked --release --target wasm32-wasip2 --examples)
    for example in $examples; do
        finish "target/wasm32-wasip2/release/examples/$example.wasm" "$example"
    done
fi

# A server of WASI 0.3, ours, in the WIT of wasmtime's crate.
if is_missing p3_http; then
    rm -rf p3_http
    cp -r "$here/sources/p3_http" p3_http
    cp -r "$(crate_folder "$root/Cargo.toml" wasmtime-wasi-http 48.)/src/p3/wit" p3_http/wit
    (cd p3_http && cargo build --quiet --release --target wasm32-wasip2)
    finish target/wasm32-wasip2/release/p3_http.wasm p3_http
fi

program() { # crate, version
    name=$(echo "$1" | tr - _)
    is_missing "$name" || return 0
    # As in the manifest of the examples: a build takes half as long.
    CARGO_PROFILE_RELEASE_OPT_LEVEL=1 cargo install --quiet --locked --force --target wasm32-wasip2 \
        --root "$work/programs" "$1@$2"
    finish "programs/bin/$1.wasm" "$name"
}

program htmlq 0.4.0
program pulldown-cmark 0.13.6
