;; A core module: what a compiler for wasm32-unknown-unknown makes.
(module
  (memory (export "memory") 1)
  (func (export "add") (param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1))))
