;; A plugin for a contract of another major version.
(component
  (core module $code (func (export "describe")))
  (core instance $code (instantiate $code))
  (func $describe (canon lift (core func $code "describe")))
  (instance $toolset (export "describe" (func $describe)))
  (export "mimir:tool/toolset@7.0.0" (instance $toolset)))
