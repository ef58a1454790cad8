;; Asks for handles and gives none back. A body that begins with `o` costs one stream; with `p`, pollables without end; with
;; anything else, streams without end. Without a body it answers.
(import "wasi:cli/stderr@0.2.0" "get-stderr" (func $stderr (result i32)))
(import "wasi:clocks/monotonic-clock@0.2.0" "subscribe-duration" (func $after (param i64) (result i32)))
(func (export "airlock:plugin/adapter@0.1.0#preprocess") (param $request i32) (result i32)
  (local $first i32)
  (if (i32.load (i32.add (local.get $request) (i32.const 64)))
    (then
      (local.set $first (i32.load8_u (i32.load (i32.add (local.get $request) (i32.const 60)))))
      (if (i32.eq (local.get $first) (i32.const 0x70)) (then (loop $more (drop (call $after (i64.const 0))) (br $more))))
      (drop (call $stderr))
      (if (i32.ne (local.get $first) (i32.const 0x6f)) (then (loop $more (drop (call $stderr)) (br $more))))))
  (call $respond (i32.const 0) (i32.const 0)))
