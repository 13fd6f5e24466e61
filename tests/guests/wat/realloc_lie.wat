;; Has an argument put where there is no memory.
(component
  (core module $code
    (memory (export "memory") 1)
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 0x7ffffff0))
    (func (export "run") (param i32 i32) (result i32) (i32.const 1)))
  (core instance $code (instantiate $code))
  (func (export "realloc-lie") (param "text" string) (result u32)
    (canon lift (core func $code "run") (memory $code "memory") (realloc (func $code "realloc")))))
