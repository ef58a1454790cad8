;; Answers how often this instance was called, as one digit: what it remembers shows whether it is warm.
(global $calls (mut i32) (i32.const 0))
(func (export "airlock:plugin/adapter@0.1.0#preprocess") (param $request i32) (result i32)
  (global.set $calls (i32.add (global.get $calls) (i32.const 1)))
  (i32.store8 (i32.const 4096) (i32.add (i32.const 48) (global.get $calls)))
  (call $respond (i32.const 4096) (i32.const 1)))
