;; Means well: a plain component that knows nothing of mimir.
(component
  (core module $code
    (func (export "add") (param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1))))
  (core instance $code (instantiate $code))
  (func (export "add") (param "a" s32) (param "b" s32) (result s32)
    (canon lift (core func $code "add"))))
