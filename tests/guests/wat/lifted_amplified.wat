;; Returns a list of a million texts of 32 megabytes each: all of them are the same memory.
(component
  (core module $code
    (memory (export "memory") 1024)
    (func (export "run") (result i32)
      (local $at i32)
      (local.set $at (i32.const 0x2000000))
      (loop $more
        (i32.store (local.get $at) (i32.const 0))
        (i32.store offset=4 (local.get $at) (i32.const 0x2000000))
        (local.set $at (i32.add (local.get $at) (i32.const 8)))
        (br_if $more (i32.lt_u (local.get $at) (i32.const 0x2800000))))
      (i32.store (i32.const 0x3000000) (i32.const 0x2000000))
      (i32.store (i32.const 0x3000004) (i32.const 0x100000))
      (i32.const 0x3000000)))
  (core instance $code (instantiate $code))
  (func (export "lifted-amplified") (result (list string))
    (canon lift (core func $code "run") (memory $code "memory"))))
