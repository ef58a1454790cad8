;; Answers at once with the request's body.
(func (export "airlock:plugin/adapter@0.1.0#preprocess") (param $request i32) (result i32)
  (call $respond
    (i32.load (i32.add (local.get $request) (i32.const 60))) (i32.load (i32.add (local.get $request) (i32.const 64)))))
