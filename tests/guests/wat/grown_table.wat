;; A table that grows until the host says no; then it says how far it came.
(component
  (core module $code
    (table $t 0 funcref)
    (func (export "run") (result i32)
      (loop $more
        (br_if $more (i32.ne (table.grow $t (ref.null func) (i32.const 1000)) (i32.const -1))))
      (table.size $t)))
  (core instance $code (instantiate $code))
  (func (export "grown-table") (result u32) (canon lift (core func $code "run"))))
