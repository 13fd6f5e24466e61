;; Four memories that grow in turn, a megabyte at a time, until the host says no; then it says how many
;; megabytes it got.
(component
  (core module $code
    (memory $a 0) (memory $b 0) (memory $c 0) (memory $d 0)
    (func (export "run") (result i32)
      (local $got i32)
      (loop $more
        (if (i32.ne (memory.grow $a (i32.const 16)) (i32.const -1))
          (then (local.set $got (i32.add (local.get $got) (i32.const 1)))
        (if (i32.ne (memory.grow $b (i32.const 16)) (i32.const -1))
          (then (local.set $got (i32.add (local.get $got) (i32.const 1)))
        (if (i32.ne (memory.grow $c (i32.const 16)) (i32.const -1))
          (then (local.set $got (i32.add (local.get $got) (i32.const 1)))
        (if (i32.ne (memory.grow $d (i32.const 16)) (i32.const -1))
          (then (local.set $got (i32.add (local.get $got) (i32.const 1)))
            (br $more))))))))))
      (local.get $got)))
  (core instance $code (instantiate $code))
  (func (export "grown-memories") (result u32) (canon lift (core func $code "run"))))
