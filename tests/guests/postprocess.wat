;; The postprocess of guests that bring none: answers the carry.
(func (export "airlock:plugin/adapter@0.1.0#postprocess") (param $call i32) (result i32)
  (call $answer (i32.load (i32.add (local.get $call) (i32.const 68))) (i32.load (i32.add (local.get $call) (i32.const 72)))))
