;; A plugin for a contract that is one minor version ahead of this host.
(component
  (core module $code (func (export "describe")))
  (core instance $code (instantiate $code))
  (func $describe (canon lift (core func $code "describe")))
  (instance $toolset (export "describe" (func $describe)))
  (export "mimir:tool/toolset@1.9.0" (instance $toolset)))
