;; Never finishes to be instantiated.
(component
  (core module $code
    (func $forever (loop $again (br $again)))
    (start $forever)
    (func (export "run") (result i32) (i32.const 1)))
  (core instance $code (instantiate $code))
  (func (export "start-loop") (result u32) (canon lift (core func $code "run"))))
