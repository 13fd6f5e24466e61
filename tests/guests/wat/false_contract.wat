;; Claims the right contract, and has another function in it.
(component
  (core module $code (func (export "describe")))
  (core instance $code (instantiate $code))
  (func $describe (canon lift (core func $code "describe")))
  (instance $toolset (export "describe" (func $describe)))
  (export "mimir:tool/toolset@1.0.0" (instance $toolset)))
