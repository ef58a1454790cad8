;; Writes 1,000 lines of ten bytes to its log, then answers the request's id.
(import "airlock:plugin/log@0.1.0" "write" (func $log (param i32 i32 i32)))
(func (export "airlock:plugin/adapter@0.1.0#preprocess") (param $request i32) (result i32)
  (local $line i32)
  (loop $more
    (call $log (i32.const 3) (i32.const 4096) (i32.const 10))
    (local.set $line (i32.add (local.get $line) (i32.const 1)))
    (br_if $more (i32.lt_u (local.get $line) (i32.const 1000))))
  (call $respond (i32.load (local.get $request)) (i32.load (i32.add (local.get $request) (i32.const 4)))))
(data (i32.const 4096) "ten bytes.")
