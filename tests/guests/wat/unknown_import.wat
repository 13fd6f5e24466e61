;; Imports what no host should have.
(component
  (import "evil:host/backdoor@1.0.0" (instance $door (export "open" (func))))
  (alias export $door "open" (func $open))
  (export "run" (func $open)))
