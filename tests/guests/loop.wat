;; Never comes back when the body is not empty; otherwise answers it.
(func (export "airlock:plugin/adapter@0.1.0#preprocess") (param $request i32) (result i32)
  (if (i32.load (i32.add (local.get $request) (i32.const 64))) (then (loop $forever (br $forever))))
  (call $respond (i32.const 0) (i32.const 0)))
