;; A hundred memories, each of them small.
(component
  (core module $code
    (memory 1) (memory 1) (memory 1) (memory 1) (memory 1) (memory 1) (memory 1) (memory 1) (memory 1) (memory 1)
    (memory 1) (memory 1) (memory 1) (memory 1) (memory 1) (memory 1) (memory 1) (memory 1) (memory 1) (memory 1)
    (memory 1) (memory 1) (memory 1) (memory 1) (memory 1) (memory 1) (memory 1) (memory 1) (memory 1) (memory 1)
    (memory 1) (memory 1) (memory 1) (memory 1) (memory 1) (memory 1) (memory 1) (memory 1) (memory 1) (memory 1)
    (memory 1) (memory 1) (memory 1) (memory 1) (memory 1) (memory 1) (memory 1) (memory 1) (memory 1) (memory 1)
    (memory 1) (memory 1) (memory 1) (memory 1) (memory 1) (memory 1) (memory 1) (memory 1) (memory 1) (memory 1)
    (memory 1) (memory 1) (memory 1) (memory 1) (memory 1) (memory 1) (memory 1) (memory 1) (memory 1) (memory 1)
    (memory 1) (memory 1) (memory 1) (memory 1) (memory 1) (memory 1) (memory 1) (memory 1) (memory 1) (memory 1)
    (memory 1) (memory 1) (memory 1) (memory 1) (memory 1) (memory 1) (memory 1) (memory 1) (memory 1) (memory 1)
    (memory 1) (memory 1) (memory 1) (memory 1) (memory 1) (memory 1) (memory 1) (memory 1) (memory 1) (memory 1)
    (func (export "run") (result i32) (i32.const 1)))
  (core instance $code (instantiate $code))
  (func (export "many-memories") (result u32) (canon lift (core func $code "run"))))
