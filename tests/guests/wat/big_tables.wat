;; Three tables, each below the limit of a call and together above it.
(component
  (core module $code
    (table 60000 funcref) (table 60000 funcref) (table 60000 funcref)
    (func (export "run") (result i32) (i32.const 1)))
  (core instance $code (instantiate $code))
  (func (export "big-tables") (result u32) (canon lift (core func $code "run"))))
