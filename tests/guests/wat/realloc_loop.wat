;; Is asked where to put an argument and never answers.
(component
  (core module $code
    (memory (export "memory") 1)
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (loop $again (br $again)) (unreachable))
    (func (export "run") (param i32 i32) (result i32) (i32.const 1)))
  (core instance $code (instantiate $code))
  (func (export "realloc-loop") (param "text" string) (result u32)
    (canon lift (core func $code "run") (memory $code "memory") (realloc (func $code "realloc")))))
