;; Refuses with the kind of error that the body's first byte names (0 malformed to 5 internal), and a text for it.
(func (export "airlock:plugin/adapter@0.1.0#preprocess") (param $request i32) (result i32)
  (local $kind i32)
  (local.set $kind (i32.load8_u (i32.load (i32.add (local.get $request) (i32.const 60)))))
  (i32.store8 (i32.const 1056) (i32.const 1))
  (i32.store8 (i32.const 1060) (local.get $kind))
  (i32.store (i32.const 1064) (i32.const 4096))
  (i32.store (i32.const 1068) (i32.const 3))
  (if (i32.eq (local.get $kind) (i32.const 1))
    (then
      (i32.store (i32.const 1064) (i32.const 4112))
      (i32.store (i32.const 1068) (i32.const 1))))
  (if (i32.eq (local.get $kind) (i32.const 4))
    (then
      (i32.store8 (i32.const 1064) (i32.const 1))
      (i32.store (i32.const 1068) (i32.const 1500))
      (i32.store (i32.const 1072) (i32.const 4096))
      (i32.store (i32.const 1076) (i32.const 3))))
  (i32.const 1056))
(data (i32.const 4096) "whyrange/age")
;; One field error: pointer `/age`, code `range`, message `why`.
(data (i32.const 4112) "\08\10\00\00\04\00\00\00\03\10\00\00\05\00\00\00\00\10\00\00\03\00\00\00")
