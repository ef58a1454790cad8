;; Grows its memory by the number of pages that the body's first byte says, and answers its size in pages as one byte.
(func (export "airlock:plugin/adapter@0.1.0#preprocess") (param $request i32) (result i32)
  (drop (memory.grow (i32.load8_u (i32.load (i32.add (local.get $request) (i32.const 60))))))
  (i32.store8 (i32.const 4096) (memory.size))
  (call $respond (i32.const 4096) (i32.const 1)))
