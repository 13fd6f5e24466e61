;; Returns its result, and never comes back from being thanked for it.
(component
  (core module $code
    (memory (export "memory") 1)
    (func (export "run") (result i32)
      (i32.store (i32.const 0) (i32.const 8))
      (i32.store (i32.const 4) (i32.const 2))
      (i32.const 0))
    (data (i32.const 8) "ok")
    (func (export "after") (param i32) (loop $again (br $again))))
  (core instance $code (instantiate $code))
  (func (export "post-return-loop") (result string)
    (canon lift (core func $code "run") (memory $code "memory") (post-return (func $code "after")))))
