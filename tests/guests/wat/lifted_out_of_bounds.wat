;; Returns a text that begins where its memory ends.
(component
  (core module $code
    (memory (export "memory") 1)
    (func (export "run") (result i32)
      (i32.store (i32.const 0) (i32.const 0xfff0))
      (i32.store (i32.const 4) (i32.const 0x7fffffff))
      (i32.const 0)))
  (core instance $code (instantiate $code))
  (func (export "lifted-out-of-bounds") (result string)
    (canon lift (core func $code "run") (memory $code "memory"))))
