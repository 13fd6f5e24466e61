;; Returns as many bytes as it is asked for.
(component
  (core module $code
    (memory (export "memory") 1024)
    (func (export "run") (param $count i32) (result i32)
      (i32.store (i32.const 16) (i32.const 0x10000))
      (i32.store (i32.const 20) (local.get $count))
      (i32.const 16)))
  (core instance $code (instantiate $code))
  (func (export "lifted-bytes") (param "count" u32) (result (list u8))
    (canon lift (core func $code "run") (memory $code "memory"))))
