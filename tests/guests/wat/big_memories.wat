;; Three memories, each below the limit of a call and together above it.
(component
  (core module $code
    (memory 2048) (memory 2048) (memory 2048)
    (func (export "run") (result i32) (i32.const 1)))
  (core instance $code (instantiate $code))
  (func (export "big-memories") (result u32) (canon lift (core func $code "run"))))
