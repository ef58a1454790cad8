;; Asks the model about the body's bytes as one row of UINT8, and carries the body to postprocess, which answers the first
;; output's data.
(func (export "airlock:plugin/adapter@0.1.0#preprocess") (param $request i32) (result i32)
  (local $body i32)
  (local $length i32)
  (local.set $body (i32.load (i32.add (local.get $request) (i32.const 60))))
  (local.set $length (i32.load (i32.add (local.get $request) (i32.const 64))))
  (call $infer (local.get $body) (local.get $length) (local.get $length) (local.get $body) (local.get $length)))
(func (export "airlock:plugin/adapter@0.1.0#postprocess") (param $call i32) (result i32)
  (local $output i32)
  (local.set $output (i32.load (i32.add (local.get $call) (i32.const 60))))
  (call $answer
    (i32.load (i32.add (local.get $output) (i32.const 20))) (i32.load (i32.add (local.get $output) (i32.const 24)))))
