;; Connects the two functions that CPython was linked with for requests to `outside` of engine.wit. It shares CPython's
;; memory and has none of its own: results in memory are written over the request, which has been read by then and has
;; at least 256 bytes.
(module
  (import "env" "memory" (memory 0))
  (import "mimir:code/outside@1.0.0" "ask" (func $ask (param i32 i32 i64) (result i64)))
  (import "mimir:code/outside@1.0.0" "take" (func $take (param i32)))
  (import "__main_module__" "bashkit_run" (func $run (result i32)))

  (global $request (mut i32) (i32.const 0))
  ;; Address and length of the reply.
  (global $target (mut i32) (i32.const 0))
  (global $length (mut i32) (i32.const 0))

  ;; Two values of the snapshot are set before the program runs. The addresses are those of the snapshot that
  ;; `build/python.rs` pins; in another one they do not contain the expected values, and nothing is set.
  ;;
  ;; 1. CPython raises RecursionError when its stack in memory has grown by 4 MB. A frame there can be 8 bytes where the
  ;;    frame of the machine is 228, so the machine's stack (32 MiB, `GUEST_STACK` of mimir-wasm) would end first, and with
  ;;    it the program. 1 MiB is the most that fits.
  ;; 2. SQLite was built for a system without fchmod, and calls it for each temporary file. The null pointer is replaced
  ;;    by one of SQLite's functions with the same type that does nothing: the lock of the VFS `unix-none`.
  (global $stack_top i32 (i32.const 19827804))
  (global $stack_soft_limit i32 (i32.const 19827808))
  ;; In the table of system calls: the address of the name before the pointer, and of the pointer.
  (global $fchmod_name i32 (i32.const 19906488))
  (global $fchmod i32 (i32.const 19906492))
  (global $nolock_methods i32 (i32.const 19537868))

  (func $prepare
    (if (i32.eq
          (i32.sub (i32.load (global.get $stack_top)) (i32.load (global.get $stack_soft_limit)))
          (i32.const 3983616))
      (then
        (i32.store (global.get $stack_soft_limit)
          (i32.sub (i32.load (global.get $stack_top)) (i32.const 1048576)))))
    (if (i32.and
          (i32.eqz (i32.load (global.get $fchmod)))
          (i32.eq (i32.load (global.get $fchmod_name)) (i32.const 16919847)))
      (then
        (i32.store (global.get $fchmod)
          (i32.load offset=28 (global.get $nolock_methods))))))

  (func (export "run") (result i32)
    (call $prepare)
    (call $run))

  ;; (request, its length, milliseconds, address for the length of the reply) -> 0, or 1 for a failure.
  (func (export "http_request") (param i32 i32 i64 i32) (result i32)
    (local $told i64)
    (global.set $request (local.get 0))
    (local.set $told (call $ask (local.get 0) (local.get 1) (local.get 2)))
    (global.set $length (i32.wrap_i64 (local.get $told)))
    (i32.store (local.get 3) (global.get $length))
    (i32.wrap_i64 (i64.shr_u (local.get $told) (i64.const 32))))

  ;; (address for the reply, its length) -> 0, or 1 if there is none.
  (func (export "http_take") (param i32 i32) (result i32)
    (if (i32.ne (local.get 1) (global.get $length))
      (then (return (i32.const 1))))
    (global.set $target (local.get 0))
    (call $take (global.get $request))
    (i32.const 0))

  ;; The host requests memory for the reply: it is already allocated.
  (func (export "cabi_import_realloc") (param i32 i32 i32 i32) (result i32)
    (if (i32.ne (local.get 3) (global.get $length))
      (then (unreachable)))
    (global.get $target)))
