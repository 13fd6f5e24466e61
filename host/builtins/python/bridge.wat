;; Between the two functions that CPython was linked with for requests and `outside` of engine.wit. It shares CPython's
;; memory and has none of its own: what it needs to be told in memory, it lets be written over the request, which has
;; been read by then and is 256 bytes at least.
(module
  (import "env" "memory" (memory 0))
  (import "mimir:code/outside@1.0.0" "ask" (func $ask (param i32 i32 i64) (result i64)))
  (import "mimir:code/outside@1.0.0" "take" (func $take (param i32)))
  (import "__main_module__" "bashkit_run" (func $run (result i32)))

  (global $request (mut i32) (i32.const 0))
  ;; Where the answer goes, and how long it is.
  (global $target (mut i32) (i32.const 0))
  (global $length (mut i32) (i32.const 0))

  (func (export "run") (result i32)
    (call $run))

  ;; (request, its length, milliseconds, where the length of the answer goes) -> 0, or 1: it failed.
  (func (export "http_request") (param i32 i32 i64 i32) (result i32)
    (local $told i64)
    (global.set $request (local.get 0))
    (local.set $told (call $ask (local.get 0) (local.get 1) (local.get 2)))
    (global.set $length (i32.wrap_i64 (local.get $told)))
    (i32.store (local.get 3) (global.get $length))
    (i32.wrap_i64 (i64.shr_u (local.get $told) (i64.const 32))))

  ;; (where the answer goes, its length) -> 0, or 1: there is none.
  (func (export "http_take") (param i32 i32) (result i32)
    (if (i32.ne (local.get 1) (global.get $length))
      (then (return (i32.const 1))))
    (global.set $target (local.get 0))
    (call $take (global.get $request))
    (i32.const 0))

  ;; The host asks for room for the answer: it is there already.
  (func (export "cabi_import_realloc") (param i32 i32 i32 i32) (result i32)
    (if (i32.ne (local.get 3) (global.get $length))
      (then (unreachable)))
    (global.get $target)))
